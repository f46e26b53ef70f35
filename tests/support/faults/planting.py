"""All faults: importing this enters them in the registry, in the order of the stages."""

from tests.support.faults import (  # noqa: F401
    in_downloads,
    in_objects,
    in_preparation,
    in_results,
    in_runs,
    in_workflows,
)
from tests.support.faults.project import prepared
from tests.support.faults.registry import FAULTS, planted

__all__ = ["FAULTS", "planted", "prepared"]
