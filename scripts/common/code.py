"""Which code of feedrate made a result: the modules that a program reaches, their hash, and the commit.

Snakemake runs a stage again when the hash of its code changes (`params: code=...` in workflow/rules). The hash is of
syntax trees without docstrings, so that a comment, a blank line or a reformatting changes nothing.
"""

import ast
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from scripts.common.files import PROJECT

CODE = ("scripts", "workflow", "envs", "pyproject.toml", "requirements.lock")  # beside the config, all that a run does
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
    return _file_hash(path, *_state(path))


def _state(path: Path) -> tuple[int, int]:
    """Return what changes when a file does: what is read of it is kept while this is the same."""
    state = path.stat()
    return state.st_mtime_ns, state.st_size


@cache
def _file_hash(path: Path, *_state: int) -> str:
    content = path.read_bytes()
    try:
        if path.suffix == ".py":
            content = ast.dump(_without_docstrings(ast.parse(content))).encode()
        elif path.suffix in (".yaml", ".json"):
            content = json.dumps(yaml.safe_load(content), sort_keys=True, default=str).encode()
    except (SyntaxError, ValueError, yaml.YAMLError):
        pass
    return hashlib.sha256(content).hexdigest()


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
    names, patterns = _named(path, *_state(path))
    yield from filter(None, (_file(project, name) for name in names))
    for pattern in patterns:
        yield from (one for one in project.glob(pattern) if one.is_file())


@cache
def _named(path: Path, *_state: int) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the modules below `scripts` that a file imports, and its DATA_FILES."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return frozenset(), ()
    declared = [
        pattern
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == DECLARED for target in node.targets)
        for pattern in ast.literal_eval(node.value)
    ]
    return frozenset(_imports(tree)), tuple(declared)


def imported_modules(path: Path, project: Path = PROJECT) -> set[str]:
    """Return the dotted names of the project's modules that a file imports, inside functions too."""
    return {name for name in _named(path, *_state(path))[0] if _file(project, name)}


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
