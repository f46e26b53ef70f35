"""Which code of feedrate made a result: the modules that a program reaches, their hash, and the commit.

Snakemake runs a stage again when the hash of its code changes (`params: code=...` in workflow/rules). The hash is of
syntax trees without docstrings, so that a comment, a blank line or a reformatting changes nothing.
"""

import ast
import atexit
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scripts.common.files import PROJECT, write_json

CODE = ("scripts", "workflow", "envs", "pyproject.toml", "requirements.lock")  # beside the config, all that a run does
KEPT = Path(".snakemake", "feedrate-code.json")  # what was read of files, for the next call
DECLARED = "DATA_FILES"  # what a module calls the files that it reads and no import shows: globs below the project


def closure(*modules: str, project: Path = PROJECT) -> list[Path]:
    """Return the sorted files that `modules`, such as "scripts.prepare.write_format", reach.

    These are the modules themselves, what they import of the project, inside functions too, and the DATA_FILES that
    any of them declares. A plug-in is no import: name it beside the program that loads it. Raises FileNotFoundError
    for a module that is not there, and SyntaxError.
    """
    waiting = [_file(project, module) for module in modules]
    for path, module in zip(waiting, modules, strict=True):
        if path is None:
            raise FileNotFoundError(f"{module}: no such module in {project}")
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _reached(path, project) if path.suffix == ".py" else ()
    return sorted(found)


def code_hash(*modules: str, project: Path = PROJECT) -> str:
    """Return 16 hexadecimal digits that change when the code or the data files which `modules` reach do."""
    total = hashlib.sha256()
    for path in closure(*modules, project=project):
        total.update(f"{path.relative_to(project)}\0{file_hash(path)}\0".encode())
    return total.hexdigest()[:16]


def file_hash(path: Path) -> str:
    """Return the hash of what a file means: of Python without comments and docstrings, of YAML and JSON the values.

    Any other file, and one that cannot be parsed, by its bytes.
    """
    return _read(path, *_state(path)).meaning


class Read(NamedTuple):
    """What is known of a file."""

    meaning: str  # its hash
    names: Sequence[str]  # modules below `scripts` that it imports
    patterns: Sequence[str]  # its DATA_FILES


def _state(path: Path) -> tuple[int, int]:
    """Return what changes when a file does: what is read of it is kept while this is the same."""
    state = path.stat()
    return state.st_mtime_ns, state.st_size


@cache
def _read(path: Path, *_state: int) -> Read:
    """Read a file, or what an earlier call in this folder has read of the same bytes, since parsing takes its time."""
    content = path.read_bytes()
    same = hashlib.sha256(b"\0".join([sys.version.encode(), path.suffix.encode(), content])).hexdigest()
    known = _known()
    if same not in known:
        known[same] = _parsed(path.suffix, content)
    return Read(*known[same])


@cache
def _known() -> dict[str, Sequence[Any]]:
    """Return what earlier calls of Snakemake in this folder have read, by the bytes; keep what is added to it."""
    found: dict[str, Sequence[Any]] = {}
    with suppress(OSError, ValueError):
        found = json.loads(KEPT.read_text(encoding="utf-8"))
    atexit.register(_keep, found, len(found))
    return found


def _keep(known: Mapping[str, Sequence[Any]], before: int) -> None:
    if len(known) > before and KEPT.parent.is_dir():
        with suppress(OSError):  # it spares time and nothing else
            write_json(KEPT, known)


def _parsed(suffix: str, content: bytes) -> Read:
    names: frozenset[str] = frozenset()
    patterns: list[str] = []
    with suppress(SyntaxError, ValueError, yaml.YAMLError):
        if suffix == ".py":
            tree = ast.parse(content)
            names, patterns = frozenset(_imports(tree)), _declared(tree)
            content = ast.dump(_without_docstrings(tree)).encode()
        elif suffix in (".yaml", ".json"):
            content = json.dumps(yaml.safe_load(content), sort_keys=True, default=str).encode()
    return Read(hashlib.sha256(content).hexdigest(), sorted(names), patterns)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body[0] = ast.Pass()
    return tree


def _file(project: Path, module: str) -> Path | None:
    """Return the file of a module of the project, or None; of a package its __init__.py."""
    place = project.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _reached(path: Path, project: Path) -> Iterator[Path]:
    """Yield the files of the project that one module imports or declares; of one that cannot be parsed none."""
    read = _read(path, *_state(path))
    yield from filter(None, (_file(project, name) for name in read.names))
    for pattern in read.patterns:
        yield from (one for one in project.glob(pattern) if one.is_file())


def _declared(tree: ast.Module) -> list[str]:
    return [
        pattern
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == DECLARED for target in node.targets)
        for pattern in ast.literal_eval(node.value)
    ]


def imported_modules(path: Path, project: Path = PROJECT) -> set[str]:
    """Return the dotted names of the project's modules that a file imports, inside functions too."""
    return {name for name in _read(path, *_state(path)).names if _file(project, name)}


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted names below `scripts` that a module imports, wherever the import stands; packages too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "scripts":
                yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def commit(project: Path = PROJECT) -> str | None:
    """Return the first 12 digits of the commit that is checked out, and ``-dirty`` where code was changed since.

    None where that cannot be said: the folder is no git repository of its own, or there is no git.
    """
    if not (project / ".git").exists():  # a repository around the folder would answer instead
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    git = ["git", "-C", str(project), "--no-optional-locks"]
    try:
        found, changed = (
            subprocess.run(
                [*git, *words], env=environment, capture_output=True, text=True, check=True, timeout=10
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", *CODE])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found[:12] + ("-dirty" if changed else "")
