"""Runs a loader that is a file of the user's own (`own_loader.py`), and says which line of it an error came from."""

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import torch_dataloader
from loading import LoaderRequest


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
