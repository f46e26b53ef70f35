"""Which plug-ins can be tested in this process, and which only in one that has entered their isolated environment."""

import importlib.util
from functools import cache
from importlib import metadata
from types import ModuleType

from scripts.common import isolated, plugins


def is_isolated(module: ModuleType) -> bool:
    """Return whether a plug-in has an isolated environment (`scripts/common/isolated.py`), perhaps not installed."""
    return isolated.lock(isolated.env_of(module)).is_file()


@cache
def can_be_tested(kind: str) -> tuple[str, ...]:
    """Return the names of the formats or loaders that can be tested here: all, but those of isolated environments."""
    every = {name: plugins.load(kind, name) for name in plugins.names(kind)}
    return tuple(name for name, module in every.items() if not is_isolated(module) or _found(kind, name))


@cache
def _installed() -> frozenset[str]:
    """Return the names of the installed distributions: to ask for them takes 0.2 s."""
    return frozenset(found.metadata["Name"] for found in metadata.distributions())


def _found(kind: str, name: str) -> bool:
    required = plugins.load(kind, name).REQUIRES
    if kind == "formats":
        return all(importlib.util.find_spec(library) for library in required)
    return _installed().issuperset(required) and _found("formats", plugins.load(kind, name).FORMAT)
