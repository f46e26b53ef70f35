"""A loader in a file of the user's own: `loaders: [{name: mine, file: path/to/mine.py}]`.

The plan reads from it what a loader declares, as literals and without running it: it may import torch at its top. A run
imports it, with what is beside it. It has `make_loader` as any loader, or `dataset(request)` that returns an ordinary
map-style Dataset whose item is the audio of an item, an image or an array; `_own_epochs.py` then adds labels, padding,
batches, workers and ranks. `loader(request)` returns a DataLoader or another iterable of batches, with sampling and
collating of its own. What its items are held to is CHECK (`measure/own_items.py`).
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import isolated, plugins
from scripts.common.errors import UserError, nearest
from scripts.common.files import PROJECT
from scripts.common.location import PATH
from scripts.common.settings import OF_DATA_LOADER, OF_WORKERS
from scripts.common.vocabulary import CHECKS, EXACT, ITEMS, NEXT, NO_CHECK, RANDOM, STAGES, simplify

DEFAULTS = {
    "ENV": isolated.DEFAULT,
    "REQUIRES": ("torch",),
    "SETTINGS": OF_WORKERS,
    "GUIDE_WORKERS": None,
    "OPTIONS": {},
    "STAGES": (),
    "LIFETIME": NEXT,
    "ORDER": RANDOM,
    "READS": (PATH,),
    "SHARING": EXACT,
    "PIXEL_LIMIT": 0,
    "PIXELS_VARY": False,
    "CHECK": EXACT,
    "FILES": None,
}
ENTRY = ("make_loader", "open_epochs", "loader", "dataset")


def declared(name: str, file: str) -> ModuleType:
    """Return what the file says of its loader: the names of DEFAULTS, FORMAT and its docstring; and files beside it.

    Those are LOCAL_IMPORTS, the paths of the modules that it imports. Raises UserError for a file that is not there,
    cannot be parsed, does not say what it must, or imports one beside it that has the name of feedrate's package.
    """
    path = Path(file).expanduser()
    if name in plugins.names("loaders"):
        raise UserError(f"name: found {name!r}, which is one of feedrate's loaders. Give yours another name.")
    if not path.is_file():
        raise UserError(f"file: found {file!r}, which is not a file; allowed is a Python file. Correct the path.")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (SyntaxError, UnicodeDecodeError) as error:
        where = f", line {error.lineno}: {(error.text or '').strip()}" if isinstance(error, SyntaxError) else ""
        said = getattr(error, "msg", error)
        raise UserError(f"file: {file}{where}: {said}. Python cannot read it; fix it.") from None
    about = ast.get_docstring(tree) or f"{name}: a loader of the user's own, {path.name}."
    module = ModuleType(f"loaders.{name}", about)
    vars(module).update(
        DEFAULTS, OWN_FILE=path.resolve(), LOCAL_IMPORTS=_local_imports(path, file), **_literals(tree, file)
    )
    if not any(entry in _defined(tree) for entry in ENTRY):
        raise UserError(f"file: {file}: found none of {', '.join(ENTRY)}; one is needed. See docs/own_loader.md.")
    if module.FILES is not None:
        if hasattr(module, "FORMAT") or module.CHECK not in (ITEMS, NO_CHECK):
            found = f"FORMAT = {module.FORMAT!r}" if hasattr(module, "FORMAT") else f"CHECK = {module.CHECK!r}"
            raise UserError(
                f'file: {file}: FILES: found beside it {found}; allowed is CHECK = "{ITEMS}" or "{NO_CHECK}", without '
                "FORMAT: nothing is known of files of your own. Remove one of them (docs/own_loader.md)."
            )
        module.FORMAT = f"files_of_{name}"
        module.KINDS = plugins.every_kind()
    known = [*plugins.names("formats"), *([module.FORMAT] if module.FILES is not None else [])]
    if getattr(module, "FORMAT", None) not in known:
        found = repr(module.FORMAT) if hasattr(module, "FORMAT") else "nothing"
        raise UserError(
            f"file: {file}: FORMAT: found {found}, allowed are {', '.join(known)}."
            f'{nearest(found.strip(chr(39)), known)} Write FORMAT = "wav", or another of them, into it; or FILES, with '
            "what it reads of your own."
        )
    if set(module.SETTINGS) & {"workers", "prefetch"} == {"workers", "prefetch"}:
        module.simplify = simplify
    if module.CHECK not in CHECKS:
        raise UserError(
            f"file: {file}: CHECK: found {module.CHECK!r}, allowed are {', '.join(CHECKS)}."
            f"{nearest(module.CHECK, CHECKS)} Correct it (docs/own_loader.md)."
        )
    if module.CHECK != EXACT and not {"loader", "dataset", "open_epochs"} & _defined(tree):
        raise UserError(
            f"file: {file}: CHECK: found {module.CHECK!r} of a file with make_loader, whose items are the corpus's; "
            f'allowed is "{EXACT}", or a loader(request) in its place. Write one (docs/own_loader.md).'
        )
    if "dataset" in _defined(tree):
        module.STAGES = module.STAGES or (STAGES if module.CHECK == EXACT else ())
        module.SETTINGS = OF_DATA_LOADER if module.SETTINGS == OF_WORKERS else module.SETTINGS
    return module


def _local_imports(path: Path, file: str) -> list[str]:
    """Return the sorted paths of the .py files in the folder of `path` and below that it imports, directly or not.

    Raises UserError for one named `scripts`, which would not be found: it is the name of feedrate's own package.
    """
    start = path.resolve() if path.is_symlink() else path
    folder, found, waiting = start.parent, {start}, [start]
    while waiting:
        new = {one for name in _imports(waiting.pop(), folder) for one in _files(folder, name)} - found
        found |= new
        waiting += new
    found.remove(start)
    tops = {one.relative_to(folder).parts[0].removesuffix(".py") for one in found}
    if "scripts" in tops and folder.resolve() != PROJECT:
        raise UserError(
            f"file: {file}: found an import of scripts beside it, which gives feedrate's package of that name; "
            "allowed is any other name. Rename yours, or move it into a package of another name."
        )
    return sorted(map(str, found))


def _imports(file: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the modules that a file below `folder` may import, as parts of their names; none if it cannot be parsed."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError):
        return
    package = file.parent.relative_to(folder).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: max(0, len(package) - node.level + 1)] if node.level else ()
            module = (*above, *(node.module.split(".") if node.module else ()))
            yield from ((*module, alias.name) for alias in node.names)


def _files(folder: Path, name: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files below `folder` that are run when this name of a module, or in a module, is imported."""
    for length in range(1, len(name) + 1):
        place = folder.joinpath(*name[:length])
        yield from (one for one in (place.parent / f"{place.name}.py", place / "__init__.py") if one.is_file())


def _literals(tree: ast.Module, file: str) -> dict[str, Any]:
    found = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id in (*DEFAULTS, "FORMAT"):
                try:
                    found[target.id] = ast.literal_eval(node.value)
                except ValueError:
                    raise UserError(
                        f"file: {file}, line {node.lineno}: {target.id}: found {ast.unparse(node.value)}, allowed is a "
                        "plain value: the plan reads the file without running it. Write the value out."
                    ) from None
    return found


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that the top of the file binds."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names
