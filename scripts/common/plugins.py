"""Finds plug-ins: a kind of data, source, format, tier kind or loader is one file in its folder, named by its stem.

What such a file must say is checked when it is loaded, so that the plan refuses a broken one before anything runs.
"""

import ast
import importlib
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import isolated
from scripts.common.errors import UserError, nearest
from scripts.common.files import PROJECT
from scripts.common.location import PATH
from scripts.common.sample import Sample
from scripts.common.settings import OF_DATA_LOADER
from scripts.common.vocabulary import CROPS, EXACT, LIFETIMES, RANDOM, SHARING, STAGES as LOADING

SCRIPTS = PROJECT / "scripts"
ENVS = PROJECT / "envs"
STAGES = (*LOADING, "decode")  # what a loader may leave out, to see what it costs
# What a file must have, each with a line that would be right (docs/architecture.md).
CONTRACT = {
    "kinds": {
        "VERSION": "VERSION = 1",
        "OPTIONS": "OPTIONS = {}",
        "Kind": "class Kind: ...",
        "read": "def read(path, sample): ...",
        "fixed": "def fixed(values, sample): ...",
        "delivered": "def delivered(values, sample, out=None): ...",
        "examine": "def examine(found, item, corpus, owner, limit): ...",
    },
    "sources": {
        "VERSION": "VERSION = 1",
        "OPTIONS": "OPTIONS = {}",
        "check": "def check(options): ...",
        "shards": "def shards(options): ...",
        "fetch": "def fetch(request): ...",
    },
    "formats": {
        "VERSION": "VERSION = 1",
        "BYTES_PER_ITEM": "BYTES_PER_ITEM = lambda sample: sample.stored_bytes",
        "READERS": "READERS = False",
        "write": "def write(corpus, split, out, readers, progress): ...",
        "read": "def read(out, corpus): ...",
    },
    "tiers": {
        "VERSION": "VERSION = 1",
        "OPTIONS": "OPTIONS = {}",
        "check": "def check(options): ...",
        "location": "def location(options, copy): ...",
        "place": "def place(options, source, location): ...",
        "profile": "def profile(options, item_bytes, readers, seconds): ...",
    },
    "transforms": {
        "VERSION": "VERSION = 1",
        "REQUIRES": 'REQUIRES = ("torchaudio",)',
        "OPTIONS": "OPTIONS = {}",
        "RANDOM": "RANDOM = False",
        "make": "def make(rate, options, device): ...",
    },
    "loaders": {
        "FORMAT": 'FORMAT = "wav"',
        "REQUIRES": 'REQUIRES = ("torch",)',
        "SETTINGS": 'SETTINGS = ("workers", "prefetch", "pin_memory")',
        "make_loader": "def make_loader(data, batch_size): ...",
    },
}
KINDS = tuple(CONTRACT)


def names(kind: str) -> list[str]:
    """Return the sorted names of all plug-ins of `kind`, without importing any of them."""
    return sorted(path.stem for path in (SCRIPTS / kind).glob("*.py") if not path.stem.startswith("_"))


def load(kind: str, name: str) -> ModuleType:
    """Return the module of plug-in `name`.

    Raises UserError when no such file exists, when it cannot be imported, and when it does not say what it must.
    """
    file = f"scripts/{kind}/{name}.py"
    if name not in names(kind):
        own = f" A file of your own is {{name: {name}, file: PATH}} (docs/own_loader.md)." if kind == "loaders" else ""
        raise UserError(
            f"found {name!r}, allowed are the files in scripts/{kind}: {', '.join(names(kind))}."
            f"{nearest(name, names(kind))} A new one is a file {file} (docs/extending.md).{own}"
        )
    module = _loader(name) if kind == "loaders" else _imported(kind, name)
    _check_contract(kind, module, file)
    (check_loader if kind == "loaders" else _check_env)(module, file)
    return module


def format_of(loader: ModuleType) -> ModuleType:
    """Return the format that a loader reads; of a user's file with FILES those, as a format of their own."""
    if getattr(loader, "FILES", None) is None:
        return load("formats", loader.FORMAT)
    return importlib.import_module("scripts.formats._users").format_of(loader)


def takes(format: ModuleType, sample: Sample) -> int:
    """Return about how many bytes an item takes in a format: its BYTES_PER_ITEM, or its TAKES where that is at most."""
    return getattr(format, "TAKES", format.BYTES_PER_ITEM)(sample)


def _imported(kind: str, name: str) -> ModuleType:
    """Return the module. What its file raises is a UserError with file and line."""
    path = SCRIPTS / kind / f"{name}.py"
    try:
        return importlib.import_module(f"scripts.{kind}.{name}")
    except UserError:
        raise
    except SyntaxError as error:
        raise _not_python(path, error) from error
    except Exception as error:
        raise _not_importable(path, error) from error


def _not_importable(path: Path, error: Exception) -> UserError:
    """Return the error of a file that the plan cannot import: its line, what was found, and what to do."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if frame.filename == str(path)), frames[-1])
    advice = "Correct the line."
    if isinstance(error, ImportError):
        advice = "Correct the name. Import a library inside a function: the plan may run without it."
    elif isinstance(error, NameError):
        advice = "The plan knows no library and no class that a loader's file has at its top: use it inside a function."
    return UserError(
        f"{_shown(frame.filename)}, line {frame.lineno}: {frame.line}: found {type(error).__name__}: {error}; "
        f"allowed is a file that the plan can import. {advice}"
    )


def _loader(name: str) -> ModuleType:
    """Return the declarations of a loader's file, with `open_epochs`; the file itself is imported when that is called.

    So its libraries may be imported at its top: the plan runs its constants and functions alone (`declarations`). A
    file without `make_loader` is imported whole.
    """
    found = util.find_spec(f"scripts.loaders.{name}")
    path = Path(found.origin)
    return _declared(name, path, path.stat().st_mtime_ns)


@cache
def _declared(name: str, path: Path, _changed: int) -> ModuleType:
    module = ModuleType(f"scripts.loaders.{name}")
    module.__file__ = str(path)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        if not any(isinstance(node, ast.FunctionDef) and node.name == "make_loader" for node in tree.body):
            return _imported("loaders", name)
        exec(compile(declarations(tree), str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise _not_python(path, error) from error
    except UserError:
        raise
    except Exception as error:
        raise _not_importable(path, error) from error

    def open_epochs(request: Any) -> Any:
        harness = importlib.import_module("scripts.loaders._harness")
        return harness.open_epochs(importlib.import_module(f"scripts.loaders.{name}"), request)

    module.open_epochs = open_epochs
    return module


def _not_python(path: Path, error: SyntaxError) -> UserError:
    """Return the error of a file that is no Python: its line."""
    where = f"{_shown(error.filename or path)}, line {error.lineno}: {(error.text or '').strip()}"
    return UserError(f"{where}: found {error.msg}, allowed is valid Python. Correct the line.")


def declarations(tree: ast.Module) -> ast.Module:
    """Return the part that the plan runs of a loader's file: all but its classes and the imports of libraries."""
    return ast.Module([node for node in tree.body if _is_declared(node)], [])


def _is_declared(node: ast.stmt) -> bool:
    if isinstance(node, ast.ClassDef):
        return False
    if isinstance(node, ast.Import):
        return all(_in_plan(alias.name) for alias in node.names)
    return not isinstance(node, ast.ImportFrom) or _in_plan(node.module or "")


def _in_plan(module: str) -> bool:
    """Return whether the plan may import a module: Python's own, and feedrate's but for those of programs."""
    if module.startswith("scripts."):
        return not module.startswith("scripts.loaders._plain") and not module.endswith(".ring_reader")
    return module.partition(".")[0] in sys.stdlib_module_names


def _shown(path: str | Path) -> str:
    """Return a path of the project as one types it there, any other as it is."""
    path = Path(path)
    return str(path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path)


def _check_contract(kind: str, module: ModuleType, file: str) -> None:
    """Refuse a file without one of the names of its CONTRACT, or without the docstring that the report shows."""
    contract = CONTRACT[kind]
    for name, line in contract.items():
        if name == "make_loader" and hasattr(module, "open_epochs"):
            continue  # a loader that makes its batches in a way of its own
        if not hasattr(module, name):
            others = [other for other in vars(module) if other not in contract and other.isupper() == name.isupper()]
            raise UserError(
                f"{file}: {name}: found nothing, expected is a line such as `{line}`.{nearest(name, others)} Add it "
                "(docs/architecture.md)."
            )
        if ("def " in line or "lambda" in line) and not callable(getattr(module, name)):
            found = getattr(module, name)
            raise UserError(f"{file}: {name}: found {found!r}, allowed is a function. Write `{line}`.")
    version = getattr(module, "VERSION", 1)  # of a loader none must be there
    if type(version) is not int or version < 1:
        raise UserError(
            f"{file}: VERSION: found {version!r}, allowed is a whole number of at least 1. Write `VERSION = 1`, and "
            "raise it by one when what the file writes changes."
        )
    if not (module.__doc__ or "").strip():
        raise UserError(
            f"{file}: found no docstring, expected is a first line that says what it is: the report shows it. "
            'Begin the file with """...""".'
        )


def check_loader(module: ModuleType, file: str) -> None:
    """Raise UserError for the first wrong value of what a loader says of itself; the error begins with `file`."""
    if getattr(module, "FILES", None) is None:
        _check_one(f"{file}: FORMAT", module.FORMAT, names("formats"), "scripts/formats/{}.py")
    _check_env(module, file)
    _check_several(file, "REQUIRES", module.REQUIRES, None)
    _check_several(file, "SETTINGS", module.SETTINGS, OF_DATA_LOADER)
    _check_several(file, "STAGES", getattr(module, "STAGES", ()), STAGES)
    _check_several(file, "READS", getattr(module, "READS", (PATH,)), None)
    found = getattr(module, "GUIDE_WORKERS", None)
    if found is not None and (type(found) is not int or found < 1):
        raise UserError(
            f"{file}: GUIDE_WORKERS: found {found!r}, allowed is a whole number of at least 1. Write the number of "
            "workers that the loader's guide names, or remove the line: then it is the number of cores."
        )
    found = getattr(module, "LIFETIME", "next")
    if not callable(found):
        _check_one(f"{file}: LIFETIME", found, list(LIFETIMES), None)
    _check_one(f"{file}: SHARING", sharing(module), list(SHARING), None)
    options = getattr(module, "OPTIONS", {})
    parts = options.values() if isinstance(options, dict) else [None]
    if not all(isinstance(part, dict) and "default" in part for part in parts):
        raise UserError(
            f"{file}: OPTIONS: found {options!r}, allowed is a dict that maps names to fragments of JSON schema, each "
            'with a default. Write OPTIONS = {"name": {"enum": ["a", "b"], "default": "a"}}.'
        )


def _check_env(module: ModuleType, file: str) -> None:
    """Raise UserError for an environment that does not exist; the error begins with `file`."""
    allowed = sorted(path.stem for path in ENVS.glob("*.yaml"))
    _check_one(f"{file}: ENV", isolated.env_of(module), allowed, "envs/{}.yaml")


def _check_one(where: str, found: Any, allowed: list[str], new: str | None) -> None:
    if found not in allowed:
        raise UserError(
            f"{where}: found {found!r}, allowed are {', '.join(allowed)}.{nearest(found, allowed)} Name one of them"
            f"{f', or add a file {new.format(found)}' if new else ''}."
        )


def _check_several(file: str, name: str, found: Any, allowed: Iterable[str] | None) -> None:
    """Refuse what is no tuple or list of text, and an unknown name in it."""
    among = "" if allowed is None else f", each one of {', '.join(allowed)}"
    if not isinstance(found, tuple | list) or not all(isinstance(part, str) for part in found):
        right = f"{name} = ({found!r},)" if isinstance(found, str) else f'{name} = ("...",)'
        raise UserError(f"{file}: {name}: found {found!r}, allowed is a tuple of text{among}. Write {right}.")
    for part in found if allowed is not None else ():
        if part not in allowed:
            raise UserError(
                f"{file}: {name}: found {part!r}, allowed are {', '.join(allowed)}.{nearest(part, allowed)} Rename or "
                "remove it."
            )


def kind_of(module: ModuleType, options: Mapping[str, Any]) -> Any:
    """Return the Kind of a module of scripts/kinds with these options, the others by default. Raises UserError."""
    values = {name: options.get(name, fragment.get("default")) for name, fragment in module.OPTIONS.items()}
    made = module.Kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
    made.check()
    return made


def declared(module: ModuleType) -> dict[str, Any]:
    """Return what a loader says of itself: the first line of its docstring, its format, order, options by default, ...

    `order` is "random" where an epoch is a permutation of all items.
    """
    return {
        "about": describe(module),
        "format": module.FORMAT,
        "format_about": describe(format_of(module)),
        "order": getattr(module, "ORDER", RANDOM),
        "options": {name: fragment["default"] for name, fragment in getattr(module, "OPTIONS", {}).items()},
        "requires": list(module.REQUIRES),
        "preloads": getattr(module, "PRELOADS", False),
        **({} if sharing(module) == EXACT else {"sharing": sharing(module)}),
        **({} if getattr(module, "CHECK", EXACT) == EXACT else {"check": module.CHECK}),
    }


def required(module: ModuleType, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the distributions that a loader needs with these settings: REQUIRES, and what a chosen option does.

    An option says so as `requires`, the distributions by its values, beside its schema.
    """
    chosen = (part.get("requires", {}).get(settings.get(name)) for name, part in getattr(module, "OPTIONS", {}).items())
    return tuple(dict.fromkeys((*module.REQUIRES, *filter(None, chosen))))


def sharing(module: ModuleType) -> str:
    """Return what the ranks of a loader deliver of an epoch together, a key of SHARING."""
    return getattr(module, "SHARING", EXACT)


def lifetime(module: ModuleType, settings: Mapping[str, Any]) -> str:
    """Return how long a batch lasts with these settings, a key of LIFETIMES: by the contract, until the next one."""
    found = getattr(module, "LIFETIME", "next")
    return found(settings) if callable(found) else found


def pixel_limit(module: ModuleType, settings: Mapping[str, Any], sample: Sample) -> int:
    """Return by how much of 255 a value may differ that a loader decodes from JPEG: its PIXEL_LIMIT, 0 without one.

    Decoders of JPEG differ in the last bits; PNG is without loss, and has one truth.
    """
    if sample.ending != "jpg":
        return 0
    found = getattr(module, "PIXEL_LIMIT", 0)
    return found(settings) if callable(found) else found


def value_limit(module: ModuleType, settings: Mapping[str, Any], sample: Sample) -> int:
    """Return by how much a delivered value may differ from the truth: of images `pixel_limit`, in 255ths.

    Of pieces of recordings the loader's VALUE_LIMIT, in 32768ths, which is of its decoder and codec; 0 without one.
    """
    if sample.kind != CROPS:
        return pixel_limit(module, settings, sample)
    found = getattr(module, "VALUE_LIMIT", 0)
    return found(settings) if callable(found) else found


def piece(module: ModuleType, settings: Mapping[str, Any]) -> str:
    """Return how a loader of recordings comes to a piece, its PIECE: `sought`, or `whole`, all is decoded."""
    found = module.PIECE
    return found(settings) if callable(found) else found


def time_shift(module: ModuleType, settings: Mapping[str, Any]) -> int:
    """Return by how many samples a loader's pieces of recordings begin late, its TIME_SHIFT; 0: at their place."""
    found = getattr(module, "TIME_SHIFT", 0)
    return found(settings) if callable(found) else found


def pixel_tolerance(module: ModuleType, settings: Mapping[str, Any], sample: Sample) -> int:
    """Return by how much of 255 the mean of a part of an image may differ between epochs; 0: none, they are the same.

    It is for loaders of images with PIXELS_VARY, whose library has several decoders and chooses between them as it
    runs. Each may differ from the truth by a sixth of PIXEL_LIMIT on average, so two of them by a third.
    """
    found, limit = getattr(module, "PIXELS_VARY", False), pixel_limit(module, settings, sample)
    vary = found(settings) if callable(found) else found
    return 1 + limit // 3 if vary and limit else 0


def every_kind() -> tuple[str, ...]:
    """Return the kinds of data that there are; audio first, which a data set is unless it says otherwise."""
    return tuple(sorted(names("kinds"), key=lambda name: name != "audio"))


def kinds(module: ModuleType) -> tuple[str, ...]:
    """Return the kinds of data that a source, a format or a loader is for: its KINDS, a loader's those of its format.

    Without KINDS a source brings audio, and a format takes all whose items have one shape.
    """
    if hasattr(module, "KINDS"):
        return tuple(module.KINDS)
    if hasattr(module, "FORMAT"):
        return kinds(format_of(module))
    return ("audio",) if hasattr(module, "fetch") else tuple(kind for kind in every_kind() if kind != CROPS)


def describe(module: ModuleType) -> str:
    """Return the first line of the plug-in's docstring: what the report says of it."""
    return (module.__doc__ or "").strip().splitlines()[0]
