"""Which modules of scripts/ a file reaches, from the text: imports inside functions count, nothing is imported."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.programs import PROJECT

BY_NAME = {  # what no import shows
    "scripts/measure/tasks/__init__.py": ("scripts/measure/tasks/*.py",),
    "scripts/report/charts/__init__.py": ("scripts/report/charts/*.py",),
    "scripts/tiers/_objects/servers.py": ("scripts/machine/object_*.py", "scripts/machine/delay_proxy.py"),
}


def reached_files(*modules: str) -> set[Path]:
    """Return the files of modules, such as "scripts.prepare.write_format", and of all that they import of scripts/."""
    waiting, found = [file_of(module) for module in modules], set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += map(file_of, imported_modules(path))
            for pattern in BY_NAME.get(str(path.relative_to(PROJECT)), ()):
                waiting += PROJECT.glob(pattern)
    return found


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Return the dotted names of the modules of scripts/, packages too, that a file imports."""
    return frozenset(name for name in _names(ast.parse(path.read_bytes())) if file_of(name))


def file_of(module: str) -> Path | None:
    """Return the file of a module of the project, of a package its __init__.py; None of any other name."""
    place = PROJECT.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for parts in (name.split(".") for name in names):
            if parts[0] == "scripts":
                yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))
