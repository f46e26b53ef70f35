"""The walls between the rooms of scripts/ (docs/architecture.md), from the imports, those inside functions too."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.imports import imported_modules
from tests.support.programs import PROJECT

SCRIPTS = PROJECT / "scripts"
PLUGINS = ("kinds", "sources", "formats", "tiers", "transforms", "loaders")
# What each room may import, beside itself.
LEFT = {
    "common": (),
    "attach": ("common",),
    "machine": ("common",),
    **dict.fromkeys(PLUGINS, ("common", "machine")),
    "plan": ("common", "machine", *PLUGINS),
    "prepare": ("common", "machine", *PLUGINS, "plan"),
    "decide": ("common",),
    "tables": ("common", "decide"),
    # a session asks for the verdict, and items run line by line as under attach
    "measure": ("attach", "common", "machine", *PLUGINS, "plan", "decide", "tables"),
    "report": ("attach", "common", "decide", "tables"),
    "feedrate": ("common",),  # the command, a file in no room: it imports the module of a verb by name
}
ALSO_A_MODULE = "scripts.attach.feedrate_attach"  # a program that trainings import too: it needs nothing else
FILES = sorted(path for path in SCRIPTS.rglob("*.py"))


def name_of(path: Path) -> str:
    """Return the dotted name of a module of scripts/."""
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


@cache
def programs() -> frozenset[str]:
    """Return the modules that are programs."""
    return frozenset(name_of(path) for path in FILES if is_program(ast.parse(path.read_bytes())))


def is_program(tree: ast.Module) -> bool:
    """Return whether a module ends in `if __name__ == "__main__"`."""
    return any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body)


def private_of(parts: tuple[str, ...]) -> bool:
    """Return whether a module below a plug-in folder is shared code and no plug-in: an underscore begins its name."""
    return len(parts) > 2 and parts[2].startswith("_")


def broken(module: str, imported: str) -> str | None:
    """Return which wall an import breaks, or None; both are dotted names of modules of scripts/."""
    here, there = module.split("."), imported.split(".")
    if len(there) < 3:
        return None
    if here[1] in ("tables", "report") and imported == "scripts.common.plugins":
        return "what tables and report say of a loader is in the records and in plan.json"
    if here[1] != there[1] and there[1] not in LEFT[here[1]]:
        return f"{here[1]} may import {', '.join(LEFT[here[1]]) or 'nothing'}"
    if there[1] in PLUGINS and not private_of(tuple(there)):
        return "a plug-in is loaded by scripts.common.plugins.load and imported by nobody"
    if imported in programs() and imported != ALSO_A_MODULE:
        return "a program is imported by nobody"
    return None


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_module_imports_from_its_left_only(path):
    found = {
        (imported, wall) for imported in imported_modules(path) if (wall := broken(name_of(path), imported)) is not None
    }
    assert found == set()


def test_every_file_is_in_a_room_and_no_program_is_among_plug_ins():
    assert {path.relative_to(SCRIPTS).parts[0].removesuffix(".py") for path in FILES} == LEFT.keys()
    assert [path.name for path in FILES if path.parent == SCRIPTS] == ["feedrate.py"]
    assert [name for name in programs() if name.split(".")[1] in PLUGINS] == []
