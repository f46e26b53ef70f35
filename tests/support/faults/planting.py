"""All faults: importing this enters them in the registry, in the order of the stages."""

from tests.support.faults import in_preparation, in_runs  # noqa: F401
from tests.support.faults.project import prepared
from tests.support.faults.registry import FAULTS, planted

__all__ = ["FAULTS", "planted", "prepared"]
