"""A loader in a file of the user's own: `loaders: [{name: mine, file: path/to/mine.py}]`.

The plan reads from it what a loader declares, as literals and without running it: it may import torch at its top. A run
imports it. It has `open_epochs` as any loader, or `dataset(request)` that returns an ordinary map-style Dataset whose
item is the audio of a clip; labels, padding, batches, workers and ranks are then added here.
"""

import ast
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import plugins
import torch_dataloader
from errors import UserError, nearest
from loading import LoaderRequest

DEFAULTS = {
    "ENV": "torch",
    "REQUIRES": ("torch",),
    "SETTINGS": ("workers", "prefetch", "pin_memory"),
    "OPTIONS": {},
    "STAGES": (),
}
ENTRY = ("open_epochs", "dataset")


def declared(name: str, file: str) -> ModuleType:
    """Return what the file says of its loader: the names of DEFAULTS, FORMAT and its docstring, and no more.

    Raises UserError for a file that is not there, cannot be parsed, or does not say what it must.
    """
    path = Path(file).expanduser()
    if name in plugins.names("loaders"):
        raise UserError(f"name: found {name!r}, which is a loader of feedrate's own. Give yours another name.")
    if not path.is_file():
        raise UserError(f"file: found {file!r}, which is no file; allowed is a Python file. Correct the path.")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (SyntaxError, UnicodeDecodeError) as error:
        where = f", line {error.lineno}: {(error.text or '').strip()}" if isinstance(error, SyntaxError) else ""
        said = getattr(error, "msg", error)
        raise UserError(f"file: {file}{where}: {said}. Python cannot read it; mend it.") from None
    about = ast.get_docstring(tree) or f"{name}: a loader of the user's own, {path.name}."
    module = ModuleType(f"loaders.{name}", about)
    vars(module).update(DEFAULTS, OWN_FILE=path.resolve(), **_literals(tree, file))
    if not any(entry in _defined(tree) for entry in ENTRY):
        raise UserError(f"file: {file} has no {' and no '.join(ENTRY)}; it must have one. See docs/own_loader.md.")
    known = plugins.names("formats")
    if getattr(module, "FORMAT", None) not in known:
        found = repr(module.FORMAT) if hasattr(module, "FORMAT") else "nothing"
        raise UserError(
            f"file: {file}: FORMAT: found {found}, allowed are {', '.join(known)}."
            f'{nearest(found.strip(chr(39)), known)} Write FORMAT = "wav", or another of them, into it.'
        )
    if set(module.SETTINGS) & {"workers", "prefetch"} == {"workers", "prefetch"}:
        module.simplify = torch_dataloader.simplify
    if "dataset" in _defined(tree) and not module.STAGES:
        module.STAGES = torch_dataloader.STAGES
    return module


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
                        "plain value, since the file is read before it is run. Write it out."
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


def imported(module: ModuleType) -> ModuleType:
    """Return the declared loader with its functions: its file is run. What that raises goes through.

    The file's folder comes last on the path, so that it can import what lies beside it.
    """
    path: Path = module.OWN_FILE
    sys.path.append(str(path.parent))
    spec = util.spec_from_file_location(f"own_{path.stem}", path)
    real = util.module_from_spec(spec)
    sys.modules[spec.name] = real
    spec.loader.exec_module(real)
    module.open_epochs = real.open_epochs if hasattr(real, "open_epochs") else _opener(real.dataset)
    if hasattr(real, "unsuited"):
        module.unsuited = real.unsuited
    return module


def _opener(make: Any) -> Any:
    """Return open_epochs over the user's Dataset."""

    @contextmanager
    def open_epochs(request: LoaderRequest) -> Iterator[Any]:
        with torch_dataloader.epochs_of(request, labelled(make(request), request)) as epoch:
            yield epoch

    return open_epochs


def labelled(dataset: Any, request: LoaderRequest) -> Any:
    """Return a Dataset that adds a clip's labels to its audio, and pads or cuts it to the fixed length.

    The audio: a tensor or array (samples,) or (1, samples), or the first part of a tuple, or "audio" of a dict.
    """
    import torch

    from labels import read_labels

    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    class Labelled(torch.utils.data.Dataset):
        def __getitem__(self, position: int) -> dict[str, Any]:
            item = dataset[position]
            audio = item["audio"] if isinstance(item, dict) else item[0] if isinstance(item, tuple) else item
            audio = torch.as_tensor(audio).reshape(1, -1)[:, : request.samples]
            return {
                "audio": torch.nn.functional.pad(audio, (0, request.samples - audio.shape[1])),
                "target": target[position],
                "labels": labels[position],
                "clip": clip[position],
            }

    return Labelled()


def users_line(error: BaseException, module: ModuleType) -> str:
    """Return where in the user's file an error came from, `` (mine.py, line 7: return ...)``; else an empty string.

    An error of a worker process has its traceback in its text alone.
    """
    path: Path | None = getattr(module, "OWN_FILE", None)
    if path is None:
        return ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    lines += [int(line) for line in re.findall(rf'File "{re.escape(str(path))}", line (\d+)', str(error))]
    if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno:
        lines.append(error.lineno)
    if not lines:
        return ""
    text = path.read_text(encoding="utf-8").splitlines()
    code = text[lines[-1] - 1].strip() if lines[-1] <= len(text) else ""
    return f" ({path.name}, line {lines[-1]}: {code})"
