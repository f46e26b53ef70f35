"""Runs a loader that is a file of the user's own, and says which line of it an error came from.

`_own.py` reads what it declares.
"""

import linecache
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module, util
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import ModuleType
from typing import Any

from scripts.common.errors import UserError
from scripts.common.labels import read_labels
from scripts.common.request import LoaderRequest
from scripts.common.sample import Sample
from scripts.common.vocabulary import EXACT, ITEMS, NO_CHECK, SLICE
from scripts.loaders import _followed as _following, _harness, _torch

MOST_CHANNELS = 32  # of audio: a longer axis is none of channels


def imported(module: ModuleType) -> ModuleType:
    """Return the declared loader with its functions: its file is run. What that raises goes through.

    The file's folder comes next to feedrate's own on the path: what is beside it overrides an installed package, as
    in a program of the user's own.
    """
    path: Path = module.OWN_FILE
    sys.path.insert(1, str(path.parent))
    spec = util.spec_from_file_location(f"own_{path.stem}", path)
    real = util.module_from_spec(spec)
    sys.modules[spec.name] = real
    spec.loader.exec_module(real)
    with suppress(ImportError):  # where a library is isolated
        import_module("cloudpickle").register_pickle_by_value(real)  # a worker that is no fork cannot import it
    opened = getattr(real, "open_epochs", None)
    if opened is None and (module.CHECK != EXACT or hasattr(real, "loader")):
        opened = partial(_followed, module, real)
        module.made = partial(_made, real)
    if opened is None:
        real.STAGES = module.STAGES
        make = None if hasattr(real, "make_loader") else real.dataset
        opened = partial(_opened, real, make, path)
        module.made = partial(_made_by_feedrate, real, make, path)
    module.open_epochs = _plain(opened)
    for name in ("unsuited", "buffered"):
        if hasattr(real, name):
            setattr(module, name, getattr(real, name))
    return module


def _opened(module: ModuleType, make: Any, path: Path, request: LoaderRequest) -> Any:
    """Return the opener of the epoch function of a file with `make_loader`, or over the Dataset that `make` returns."""
    _give_loader(module, make, path, request)
    return _harness.open_epochs(module, request)


@contextmanager
def _made_by_feedrate(module: ModuleType, make: Any, path: Path, request: LoaderRequest) -> Iterator[Any]:
    """Yield the loader that `_opened` opens."""
    _give_loader(module, make, path, request)
    with _harness.made(module, request) as (loader, _):
        yield loader


def _give_loader(module: ModuleType, make: Any, path: Path, request: LoaderRequest) -> None:
    """Give a file with `dataset` alone a `make_loader`."""
    if make:
        data_loader = import_module("scripts.loaders._plain.data_loader").data_loader
        module.make_loader = lambda data, **how: data_loader(labelled(make, request, path.parent), **how)  # noqa: ARG005


@contextmanager
def _followed(module: ModuleType, real: ModuleType, request: LoaderRequest) -> Iterator[Any]:
    """Yield the epoch function of the user's own `loader(request)`, or of a DataLoader over `dataset(request)`.

    Its batches are the user's, beside the numbers of their items; with CHECK = "exact" their data, with its labels.
    """
    import torch

    if request.applied is not None:
        raise UserError("transform: found one for a file with items of its own; allowed is none. Do it in the file.")
    made = _users_loader(real, request)
    compared = NamedTemporaryFile() if request.compared_epochs and module.CHECK in (SLICE, ITEMS) else None  # noqa: SIM115
    loader, about = _following.follow(made, getattr(real, "numbers", None), compared and compared.name)
    if module.CHECK != NO_CHECK and not about.numbered:
        raise UserError(
            f'CHECK: found "{module.CHECK}" of a loader whose items have no numbers, such as one over an '
            f'IterableDataset; allowed is "{NO_CHECK}", or numbers(batch) in the file, which returns those of a batch '
            "(docs/own_loader.md)."
        )
    exact = module.CHECK == EXACT
    columns = map(torch.from_numpy, read_labels(request.label_folder)) if exact else ()
    labels = dict(zip(("item", "target", "labels"), columns, strict=False))

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        if isinstance(getattr(made, "sampler", None), Shared):
            made.sampler.set_epoch(number)
        if hasattr(real, "begin"):
            real.begin(made, number)
        if number == 0:
            about.batches = _following.length_of(made)
        if compared and number >= request.compared_epochs:
            compared.close()
        came = 0
        for found in loader:
            batch = found.batch if request.device == "cpu" else _following.moved(found.batch, request.device)
            count = _following.size_of(batch) if found.numbers is None else len(found.numbers)
            numbers = torch.arange(came, came + count) if found.numbers is None else found.numbers
            came += count
            if found.traced and found.traced.order:
                numbers = numbers[found.traced.order]
            if exact:
                rest = {name: rows[numbers].to(request.device) for name, rows in labels.items()}
                yield {request.sample.key: _data_of(batch, request.sample), **rest}
            else:
                yield {"item": numbers, "own": batch, "beside": (found, about)}

    try:
        yield epoch
    finally:
        if compared:
            compared.close()
        inner = next(iter(getattr(made, "pipeline", ())), made)
        if hasattr(inner, "_iterator"):
            _torch.stop_workers(inner)


@contextmanager
def _made(real: ModuleType, request: LoaderRequest) -> Iterator[Any]:
    """Yield the user's own loader, which nobody follows."""
    yield _users_loader(real, request)


def _users_loader(real: ModuleType, request: LoaderRequest) -> Any:
    """Return the user's `loader(request)`, or a DataLoader over `dataset(request)` by the settings of the request."""
    if hasattr(real, "loader"):
        return real.loader(request)
    from torch.utils.data import DataLoader, IterableDataset

    dataset = real.dataset(request)
    streamed = isinstance(dataset, IterableDataset)
    sampler = None if streamed or request.world == 1 else Shared(dataset, request)
    shuffle = None if streamed or sampler else True
    return DataLoader(dataset, shuffle=shuffle, sampler=sampler, **_torch.of_data_loader(vars(request)))


class Shared:
    """A sampler of the share of a rank: every `world`-th item of one permutation, new in each epoch."""

    def __init__(self, dataset: Any, request: LoaderRequest) -> None:
        self.items, self.share, self.seed, self.epoch = len(dataset), request.share, request.seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.share.of(range(self.items)))

    def __iter__(self) -> Iterator[int]:
        import numpy as np

        return iter(self.share.of(np.random.default_rng([self.seed, self.epoch]).permutation(self.items)).tolist())


def _data_of(batch: Any, sample: Sample) -> Any:
    """Return the data of a batch that is exact: by its name, or the first tensor."""
    if isinstance(batch, Mapping) and sample.key in batch:
        return batch[sample.key]
    return next(_following.leaves(batch), None)


def labelled(make: Any, request: LoaderRequest, folder: Path) -> Any:
    """Return a Dataset that adds an item's labels to its data, and pads or cuts audio to the fixed length.

    `make(request)` returns the user's own, whose file is in `folder`. The data: a tensor or array, or the first part of
    a tuple or list, or "audio" ("image", "array") of a dict; of audio float32 (samples,) or (1, samples), else of the
    type and shape of the request's sample. Raises UserError for a Dataset that cannot be one, here, and for an item
    that is none, when it is read: to read one here could open a file that worker processes would then share.
    """
    import numpy as np
    import torch

    dataset = make(request)
    _check_dataset(dataset, make, request, folder)
    sample, dtype = request.sample, getattr(torch, request.sample.dtype)

    class Labelled(import_module("scripts.loaders._plain.data_loader").Items):
        def item(self, position: int) -> Any:
            item = values = dataset[position]
            if isinstance(item, dict):
                values = item.get(sample.key)
            elif isinstance(item, tuple | list):
                values = item[0] if item else None
            if isinstance(values, np.ndarray) and values.dtype == sample.dtype:
                values = torch.as_tensor(values)
            if not isinstance(values, torch.Tensor) or values.dtype != dtype or not _fits(values.shape, sample):
                raise _refused(position, item, values, dataset, folder, sample)
            if sample.kind == "audio":
                values = values.reshape(1, -1)[:, : request.samples]
                if values.shape[1] < request.samples:  # a pad of nothing is a copy
                    values = torch.nn.functional.pad(values, (0, request.samples - values.shape[1]))
            return values

    return Labelled(request.data, sample.key)


def _check_dataset(dataset: Any, make: Any, request: LoaderRequest, folder: Path) -> None:
    """Raise UserError for what is no map-style Dataset with as many items as the split."""
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset) or not hasattr(type(dataset), "__getitem__"):
        kind = " (an IterableDataset)" if isinstance(dataset, IterableDataset) else ""
        raise UserError(
            f"dataset(request): found {_named(dataset)}{kind}, allowed is a map-style Dataset with __getitem__: "
            f"return one, or write open_epochs(request) (docs/own_loader.md){_place(make, folder)}"
        )
    length = getattr(type(dataset), "__len__", None)
    if length and len(dataset) != request.items:
        raise UserError(
            f"your Dataset has {len(dataset)} items, the split {request.items}; allowed is the same "
            f"number: list all files of request.data, the split {request.data.name}{_place(length, folder)}"
        )


def _fits(shape: tuple[int, ...], sample: Sample) -> bool:
    """Return whether an item may have this shape: of audio one channel of any length."""
    if sample.kind != "audio":
        return tuple(shape) == sample.shape
    return len(shape) == 1 or (len(shape) == 2 and shape[0] == 1)


def _refused(position: int, item: Any, values: Any, dataset: Any, folder: Path, sample: Sample) -> UserError:
    """Return the error of an item whose `values` are none that are allowed: what was found, and what to do."""
    import numpy as np
    import torch

    place, key = _place(type(dataset).__getitem__, folder), sample.key
    shapes = "(samples,) or (1, samples)" if sample.kind == "audio" else str(sample.shape)
    allowed = f"allowed is {sample.dtype} {shapes}"
    if not isinstance(values, np.ndarray | torch.Tensor):
        found, do = _named(item), f"return the {key}, or a tuple that begins with it, or a dict with {key!r}"
        if isinstance(item, dict) and key in item:
            found, do = f"{_named(values)} in {key!r}", f"let {key!r} be an array or tensor"
        elif isinstance(item, tuple | list) and item:
            found, do = f"a {type(item).__name__} that begins with {_named(values)}", f"let it begin with the {key}"
        return UserError(f"item {position} of your Dataset: found {found}, {allowed}: {do}{place}")
    kind, shape = str(values.dtype).removeprefix("torch."), tuple(values.shape)
    read = "read with" if sample.kind == "audio" else "return"
    do = [] if kind == sample.dtype else [f"{read} dtype={sample.dtype!r}"]
    if not _fits(shape, sample):
        do.append(_reshaped(shape, sample))
    return UserError(f"item {position} of your Dataset: found {kind} {shape}, {allowed}: {' and '.join(do)}{place}")


def _reshaped(shape: tuple[int, ...], sample: Sample) -> str:
    """Return what to do with values of a shape that is not allowed."""
    if sample.kind == "audio":
        if sum(length > MOST_CHANNELS for length in shape) > 1:
            return 'features are no audio: write CHECK = "items" into the file, or compute them in a transform'
        if len(shape) != 2:
            return "return one axis"
        return "return audio[:, 0]" if shape[1] == 1 else "mix it down to one channel"
    if len(shape) == len(sample.shape) == 3 and (shape[2], *shape[:2]) == sample.shape:
        return "put the channels first: permute(2, 0, 1)"
    return f"return the shape {sample.shape}"


def _named(value: Any) -> str:
    """Return what a value is, in words."""
    if value is None:
        return "None (is a return missing?)"
    if isinstance(value, type):
        return f"the class {value.__name__} (is it not called?)"
    keys = f" with {', '.join(map(str, value))}"[:60] if isinstance(value, dict) and value else ""
    empty = "empty " if isinstance(value, tuple | list | dict) and not value else ""
    return f"{empty}{type(value).__name__}{keys}"


def _place(function: Any, folder: Path) -> str:
    """Return where a function of the user's begins, as `users_line` does; an empty string if it is elsewhere."""
    code = getattr(function, "__code__", None)
    file = Path(code.co_filename) if code else None
    if file is None or not file.is_relative_to(folder):
        return ""
    line = linecache.getline(str(file), code.co_firstlineno).strip()
    return f" ({file.name}, line {code.co_firstlineno}: {line})"


def _plain(open_epochs: Any) -> Any:
    """Return open_epochs whose epochs raise an error of a worker process as the worker raised it."""

    @contextmanager
    def opened(request: LoaderRequest) -> Iterator[Any]:
        with open_epochs(request) as epoch:
            yield lambda number: _raised_plainly(epoch(number))

    return opened


def _raised_plainly(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches; an error that torch has wrapped becomes one of the name and text at its traceback's end."""
    try:
        yield from batches
    except Exception as error:
        text = _text(error)
        if not re.match(r"Caught \w+ in .*\nOriginal Traceback", text):
            raise
        _, _, end = text.rpartition("Traceback (most recent call last):\n")
        said = re.search(r"(?m)^(?:[\w.<>]+\.)?(\w+)(?:: ((?s:.*)))?$", end)  # the frames before it are indented
        if said is None:
            raise
        raise type(said[1], (Exception,), {})((said[2] or "").strip()) from RuntimeError(text)


def _text(error: BaseException | None) -> str:
    """Return what an error was made with: str() fails where torch gave its text to a type that wants something else."""
    text = next(iter(getattr(error, "args", ())), getattr(error, "message", ""))
    return text if isinstance(text, str) else ""


def users_line(error: BaseException, module: ModuleType) -> str:
    """Return where in the user's file an error came from, `` (mine.py, line 7: return ...)``; else an empty string.

    An error of a worker process has its traceback in its text alone, or in that of its cause (`_raised_plainly`).
    """
    path: Path | None = getattr(module, "OWN_FILE", None)
    if path is None:
        return ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    texts = f"{error}\n{_text(error.__cause__)}"
    lines += [int(line) for line in re.findall(rf'File "{re.escape(str(path))}", line (\d+)', texts)]
    if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno:
        lines.append(error.lineno)
    if not lines:
        return ""
    text = path.read_text(encoding="utf-8").splitlines()
    code = text[lines[-1] - 1].strip() if lines[-1] <= len(text) else ""
    return f" ({path.name}, line {lines[-1]}: {code})"
