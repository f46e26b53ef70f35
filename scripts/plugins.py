"""Finds plug-ins: a source, format, tier kind or loader is one Python file in its folder, named by its stem."""

import importlib
from pathlib import Path
from types import ModuleType

from errors import UserError, nearest

SCRIPTS = Path(__file__).resolve().parent
KINDS = ("sources", "formats", "tiers", "loaders")


def names(kind: str) -> list[str]:
    """Return the sorted names of all plug-ins of `kind`, without importing any of them."""
    return sorted(path.stem for path in (SCRIPTS / kind).glob("*.py") if not path.stem.startswith("_"))


def load(kind: str, name: str) -> ModuleType:
    """Return the module of plug-in `name`. Raises UserError when no such file exists."""
    if name not in names(kind):
        raise UserError(
            f"{kind}: found {name!r}, allowed are {', '.join(names(kind))}.{nearest(name, names(kind))} "
            f"A new one is a file scripts/{kind}/{name}.py; see docs/."
        )
    return importlib.import_module(f"{kind}.{name}")


def describe(module: ModuleType) -> str:
    """Return the first line of the plug-in's docstring: what the report says of it."""
    return (module.__doc__ or "").strip().splitlines()[0]
