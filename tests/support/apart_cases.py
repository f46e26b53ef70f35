"""Which plug-ins can be tested in this process, and which only in one that has their environment of its own."""

import importlib.util
from importlib import metadata

from scripts.common import plugins
from tests.support.programs import PROJECT


def apart(module) -> bool:
    """Return whether a plug-in has an environment of its own (`common/isolated.py`), which may not be installed."""
    return (PROJECT / "envs" / "apart" / f"{getattr(module, 'ENV', '')}.lock").is_file()


def can_be_tested(kind: str) -> list[str]:
    """Return the names of the formats or loaders that can be tested here: all, but those whose libraries lie apart."""
    return [name for name in plugins.names(kind) if not apart(plugins.load(kind, name)) or _found(kind, name)]


def _found(kind: str, name: str) -> bool:
    required = plugins.load(kind, name).REQUIRES
    if kind == "formats":
        return all(importlib.util.find_spec(library) for library in required)
    installed = {found.metadata["Name"] for found in metadata.distributions()}
    return installed.issuperset(required) and _found("formats", plugins.load(kind, name).FORMAT)
