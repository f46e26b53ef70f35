"""Measures a loader that is a plain program: `make_loader`, as its page shows it. All that measuring adds is outside.

- The order comes through the sampler of a DataLoader, or as `order`, a function from the number of an epoch to the
  positions of this rank; a library that shuffles by itself gets `seed`, `shuffle`, `rank` and `world`.
- The number of each item comes as one more column of its labels (`_plain/labels.py`).
- Parts are left out by other functions in place of those that a file has by their names: `read`, `decode`, or
  `decode_by_...` where there are several. A file may say how: `without_read(read, request)` returns what takes its
  place. A DataLoader's reading and transfer are left out without a name.
- Workers send `target` and `item` as one tensor, as a program sends `target` alone (`_torch.packed`). Those of a loader
  that is no DataLoader send what the function returns that its file names: `SENDS = "read"`.

A file may have `on_arrival(batch)`, what is left to do where a batch arrives, and `close(loader)`; and UNCOPIED, the
settings that are others than `device: cpu` where the copy to the GPU is left out.
"""

import importlib
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from scripts.common.errors import UserError, nearest
from scripts.common.request import LoaderRequest, epoch_order
from scripts.common.sample import Sample
from scripts.common.settings import asked
from scripts.loaders import _torch
from scripts.loaders._torch import Batch
from scripts.machine import gpu

OUTSIDE = ("order", "shuffle", "rank", "world", "items")  # what only measuring gives; a program leaves the defaults
OF_ITEM = ("key", "shape", "dtype", "scale", "ending")  # what an item is
GIVEN = ("data", "batch_size", "workers", "prefetch", "pin_memory", "device", "seed", *OF_ITEM, "classes", *OUTSIDE)
PLAIN = "scripts.loaders._plain."


def settings_of(module: ModuleType, request: LoaderRequest) -> dict[str, Any]:
    """Return the settings of a request, null where they have no effect, as the plan has them."""
    settings = {name: part["default"] for name, part in getattr(module, "OPTIONS", {}).items()} | dict(request.options)
    settings |= {name: getattr(request, name) for name in asked({}) if hasattr(request, name)}
    settings["device"] = request.device
    if gpu.COPY in request.without:
        settings |= {"device": "cpu", **getattr(module, "UNCOPIED", {})}
    return getattr(module, "simplify", lambda found: found)(settings)


def arguments_of(names: Any, settings: Mapping[str, Any], sample: Sample, data: Path, seed: int) -> dict[str, Any]:
    """Return the arguments of a `make_loader` by `names`, those of its parameters, in their order.

    `**` among them stands for the arguments of a DataLoader.
    """
    values = {name: getattr(sample, name) for name in OF_ITEM}
    values |= {**settings, "data": data, "seed": seed}
    found = {name: values[name] for name in names if name in values}
    return {**found, **_torch.of_data_loader(settings), "seed": seed} if "**" in names else found


def names_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of a `make_loader`, `**` for those of a DataLoader."""
    parameters = inspect.signature(function).parameters.values()
    return ["**" if one.kind is one.VAR_KEYWORD else one.name for one in parameters]


@contextmanager
def open_epochs(module: ModuleType, request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open the loader of a file as `request` asks; yield the epoch function of the loader contract."""
    with made(module, request) as (loader, kept), _epochs(loader, module, request, kept) as epoch:
        yield epoch


@contextmanager
def made(module: ModuleType, request: LoaderRequest) -> Iterator[tuple[Any, Batch | None]]:
    """Yield what a file's `make_loader` returns, and the batch that it sends again where transfer is left out."""
    labels = importlib.import_module(f"{PLAIN}labels")

    def make() -> Any:
        names = names_of(module.make_loader)
        _check_parameters(module)
        settings = settings_of(module, request) | {"classes": request.classes}
        arguments = arguments_of(names, settings, request.sample, request.label_folder, request.seed)
        shuffle = request.shuffle and "read" not in request.without  # a buffer would be filled by reading
        outside = {"order": partial(epoch_order, request), "shuffle": shuffle}
        outside |= {"rank": request.rank, "world": request.world, "items": request.items}
        return module.make_loader(**arguments, **{name: outside[name] for name in names if name in OUTSIDE})

    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ))  # what a program sets there ends with it
        if request.location.endpoint:  # what signs requests is in no isolated environment
            stack.enter_context(importlib.import_module("scripts.loaders._s3").served(request.location))
        for place in (labels, *([module] if hasattr(module, "COLUMNS") else [])):  # a program has its own
            stack.enter_context(mock.patch.object(place, "COLUMNS", ("target", "labels", "item")))
        for place, stage, function in _left_out(module, request):
            stack.enter_context(mock.patch.object(place, stage, function))
        kept = None
        if hasattr(module, "SENDS"):
            kept = _first_sent(make(), module) if "transfer" in request.without else None
            sent = _sent(getattr(module, module.SENDS), request, kept)
            stack.enter_context(mock.patch.object(module, module.SENDS, sent))
        loader = make()
        if hasattr(module, "close"):
            stack.callback(module.close, loader)
        yield loader, kept


def _epochs(loader: Any, module: ModuleType, request: LoaderRequest, kept: Batch | None) -> Any:
    """Return the opener of the epoch function of what a `make_loader` has made."""
    from torch.utils.data import DataLoader, IterableDataset

    stages = getattr(loader, "pipeline", None)  # of a WebLoader
    inner = stages[0] if isinstance(stages, list) and stages else loader
    if not isinstance(inner, DataLoader):
        if not callable(getattr(loader, "batches", None)):
            raise UserError(
                f"make_loader: found that it returns {_named(loader)}, allowed is a DataLoader, or an object whose "
                "batches(number) yields the batches of an epoch. Return one, or write open_epochs(request) "
                "(docs/own_loader.md)."
            )
        return _from_epochs(loader, request, kept)
    if isinstance(inner.dataset, IterableDataset) or getattr(module, "SAMPLES", False):
        return _from_iterable(loader, inner, request)
    _check_order(loader)
    return _from_map(inner, module, request)


def _named(found: Any) -> str:
    return "None (is a return missing?)" if found is None else f"a {type(found).__name__}"


def _check_parameters(module: ModuleType) -> None:
    """Raise UserError for a parameter of `make_loader` that gets no value."""
    allowed = (*GIVEN, *getattr(module, "OPTIONS", {}))
    for one in inspect.signature(module.make_loader).parameters.values():
        if one.kind is one.POSITIONAL_ONLY:
            raise UserError(f"make_loader: found / behind {one.name!r}, allowed are named parameters. Remove the /.")
        given = one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) or one.name in allowed
        if one.default is one.empty and not given:
            raise UserError(
                f"make_loader: found the parameter {one.name!r}, allowed are {', '.join(allowed)} and **how, for a "
                f"DataLoader.{nearest(one.name, allowed)} Rename it, give it a default or add it to OPTIONS."
            )


def _check_order(loader: Any) -> None:
    """Raise UserError for a DataLoader over a map-style Dataset that would not be measured as it is."""
    from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, SequentialSampler

    usual = (RandomSampler, SequentialSampler, DistributedSampler)
    for name, found, right in (
        ("sampler", type(loader.sampler), usual),
        ("batch_sampler", type(loader.batch_sampler), (BatchSampler, type(None))),
    ):
        if found not in right and not hasattr(found, "pieces"):
            raise UserError(
                f"make_loader: found a {name} of your own, {found.__name__}; allowed is shuffle=True: the order is "
                "feedrate's, so that loaders compare. Leave it out, or write open_epochs(request) "
                "(docs/own_loader.md)."
            )
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise UserError(
            f"make_loader: found a {type(loader).__name__} with an __iter__ of its own, which would not be measured; "
            "allowed is torch's DataLoader. Return that, an object whose batches(number) yields the batches of an "
            "epoch, or write open_epochs(request) (docs/own_loader.md)."
        )


@contextmanager
def _from_map(loader: Any, module: ModuleType, request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function of a DataLoader over a map-style Dataset, whose sampler gives the order."""
    dataset, request = loader.dataset, replace(request, workers=loader.num_workers)
    if request.spans and "decode" in getattr(module, "STAGES", ()) and hasattr(dataset, "path_of"):
        dataset.files_to_decode = partial(map, dataset.path_of)
    finish = getattr(module, "on_arrival", None)
    try:
        with _torch.epochs_of(request, dataset, finish, loader.collate_fn, loader.worker_init_fn) as epoch:
            yield epoch
    finally:
        if hasattr(dataset, "close"):
            dataset.close()


@contextmanager
def _from_iterable(loader: Any, inner: Any, request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function of a DataLoader whose Dataset, or sampler, orders the items, from epoch to epoch."""
    if "read" in request.without:
        _again(inner.dataset, request)
    kept = _first_batch(inner) if "transfer" in request.without else None
    inner.collate_fn = _torch.sent_by(request, inner.collate_fn, kept)

    def epoch(number: int) -> Iterator[Batch]:
        if request.applied:
            request.applied.begin(number)
        return _torch.received(iter(loader), request, kept)

    try:
        yield epoch
    finally:
        _torch.stop_workers(inner)


def _first_batch(loader: Any) -> Batch:
    """Return a batch that this process has made: of the first item, again and again, or a sampler's first."""
    from torch.utils.data import IterableDataset

    if not isinstance(loader.dataset, IterableDataset):
        return loader.dataset[next(iter(loader.sampler))]
    try:
        first = loader.dataset[0] if hasattr(loader.dataset, "__len__") else next(iter(loader.dataset))
    except NotImplementedError:  # torch raises it for a data set that can only be iterated
        first = next(iter(loader.dataset))
    return first if loader.batch_size is None else loader.collate_fn([first] * loader.batch_size)


def _again(dataset: Any, request: LoaderRequest) -> None:
    """Have a process get its first item, or batch, as often as its share has items: reading is left out."""
    share = -(-request.items // (request.world * max(1, request.workers)))

    kept = _torch.AgainByBatch(None, sent=request.workers > 0)

    def batch(self: Any, where: Any) -> Batch:  # of a sampler that chooses it
        kept.kept = kept.kept or super(kind, self).__getitem__(where)
        return kept.__getitems__(range(len(where)))

    def items(self: Any) -> Iterator[Any]:
        found = super(kind, self).__iter__()
        first = next(found, None)
        if isinstance(first, Mapping) and "target" in first and getattr(first["target"], "ndim", 0):
            kept.kept, size = first, len(first["target"])
            for start in range(0, share, size):
                yield kept.__getitems__(list(range(min(size, share - start))))
        elif first is not None:
            yield from itertools.repeat(first, share)

    kind = type(
        type(dataset).__name__,
        (type(dataset),),
        {"__iter__": items} if hasattr(dataset, "__iter__") else {"__getitem__": batch},
    )
    dataset.__class__ = kind


@contextmanager
def _from_epochs(loader: Any, request: LoaderRequest, kept: Batch | None) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function of a loader that gives epochs by itself (`_plain/epochs.py`)."""

    def epoch(number: int) -> Iterator[Batch]:
        if request.applied:
            request.applied.begin(number)
        return _torch.received(loader.batches(number), request, kept)

    try:
        yield epoch
    finally:
        if loader.close:
            loader.close()


def _first_sent(loader: Any, module: ModuleType) -> Batch:
    """Return the first batch of a loader that gives epochs by itself, in memory of this process, and close it."""
    kept = {name: tensor.clone() for name, tensor in next(loader.batches(0)).items()}
    module.close(loader)
    return kept


def _sent(read: Callable[..., Any], request: LoaderRequest, kept: Batch | None) -> Callable[..., Any]:
    """Return `read` with what a worker does to the batch before it is sent."""
    sent = _torch.sent_by(request, lambda arguments: read(*arguments), kept)
    return lambda *arguments: sent(arguments)


def _left_out(module: ModuleType, request: LoaderRequest) -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield (module, name, function) of the functions that take the place of parts that are left out."""
    for place in (module, *(found for name, found in sys.modules.items() if name.startswith(PLAIN))):
        for stage in sorted(request.without):
            without = getattr(module, f"without_{stage}", _skipping if stage == "decode" else _once)
            for name, function in vars(place).copy().items():
                if name == stage or name.startswith(f"{stage}_by_"):
                    yield place, name, without(function, request)


def _once(read: Callable[..., Any], _request: LoaderRequest) -> Callable[..., Any]:
    """Return a function that gives what the first call has given: each process makes one."""
    kept: dict[int, Any] = {}

    def again(*arguments: Any) -> Any:
        if os.getpid() not in kept:
            kept[os.getpid()] = read(*arguments)
        return kept[os.getpid()]

    return again


def _skipping(decode: Callable[..., Any], request: LoaderRequest) -> Callable[..., Any]:
    """Return a function that decodes nothing: `decode(content, row)` leaves zeros in the row, `decode(content)` gives
    what it has first given. Where it would open a path, the file is read.
    """
    first = _once(decode, request)
    in_place = len(inspect.signature(decode).parameters) > 1

    def skipped(content: Any, *row: Any) -> Any:
        if isinstance(content, str | Path):
            Path(content).read_bytes()
        if not in_place:
            return first(content)
        row[-1][...] = 0
        return None

    return skipped
