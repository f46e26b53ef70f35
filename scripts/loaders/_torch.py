"""What the loaders on torch's DataLoader share: sampling, workers, the copy to the device, an orderly end.

And the stages that can be left out of any of them, to see what they cost (`LoaderRequest.without`): `read`, for which
each process delivers its first item again and again, and `transfer`, for which the workers send how many items a batch
has and nothing else. A loader that decodes adds `decode`, and leaves it out by `request.undecoded`. Where
`LoaderRequest.spans` are asked for, the processes note when they read, collate and receive a batch (measure/spans.py).

Most map files or open them: the data sets below are what they have in common.

Imports torch inside functions, since loaders are named where torch is not installed.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib import import_module
from math import prod
from typing import Any

from scripts.common.request import LoaderRequest, batches_of, epoch_order
from scripts.common.sample import Sample
from scripts.common.settings import OF_WORKERS as SETTINGS  # noqa: F401
from scripts.common.vocabulary import STAGES, simplify  # noqa: F401
from scripts.loaders._transformed import collating
from scripts.machine import gpu

Batch = dict[str, Any]
GATHER = {"gather": {"enum": ["batch", "item"], "default": "batch"}}  # whole batches, or item by item

PAIR = ("target", "item")  # what workers send as one tensor

REUSE = {"reuse": {"enum": [False, True], "default": False}}  # one buffer for all batches, of this process on a CPU


def simplify_reuse(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as `simplify` does, `reuse` null where each batch has memory of its own."""
    here = settings["reuse"] and not settings["workers"] and settings["device"] == "cpu"
    return simplify(settings) | {"reuse": True if here and settings.get("gather") != "item" else None}


def simplify_threads(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with at least one worker, of a library whose workers are threads that it cannot do without."""
    return {**settings, "workers": max(1, settings["workers"])}


def lifetime(settings: Mapping[str, Any]) -> str:
    """Return how long a batch of a loader with REUSE lasts."""
    return "next" if settings["reuse"] else "lasting"


class EpochBatches:
    """A batch sampler: lists of positions of one epoch, in the order that `request.epoch_order` gives."""

    def __init__(self, request: LoaderRequest) -> None:
        self.request = request
        self.epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        for positions in batches_of(epoch_order(self.request, self.epoch), self.request.batch_size):
            yield positions.tolist()


def to_device(batches: Iterator[Batch], request: LoaderRequest) -> Iterator[Batch]:
    """Return the batches on the asked device; the host waits for no copy where they are to be in page-locked memory.

    On a CPU they are the same: a generator in between would keep each until the next one is there.
    """
    if gpu.COPY in request.without:
        return gpu.uncopied(batches, request)
    if request.device == "cpu":
        return batches
    return (gpu.all_moved(batch, request.device, request.pin_memory) for batch in batches)


def packed(batch: Mapping[str, Any]) -> Batch:
    """Return a batch as a worker sends it, of the same type: `target` and `item` are the rows of `pair`, int64 (2, n).

    Each tensor that is sent costs both processes time. No program but ours sends `item`: so that is not charged.
    """
    import torch

    rest = {name: tensor for name, tensor in batch.items() if name not in PAIR}
    return type(batch)({**rest, "pair": torch.stack([batch[name] for name in PAIR])})


def unpacked(batch: Batch) -> Batch:
    """Return a batch of the loader contract from one that is `packed`; one that is not stays as it is."""
    if "pair" not in batch:
        return batch
    rest = {name: tensor for name, tensor in batch.items() if name != "pair"}
    return {**rest, **dict(zip(PAIR, batch["pair"], strict=True))}


def received(sent: Iterator[Batch], request: LoaderRequest, kept: Batch | None) -> Iterator[Batch]:
    """Return the batches on the asked device of what a DataLoader gives: `packed` by its workers, or, where the
    transfer is left out, counts in place of which `kept` is given.
    """
    if kept:
        sent = in_place_of_counts(sent, collating(request, as_is)(kept))
    elif request.workers:
        sent = map(unpacked, sent)
    return to_device(sent, request)


def sent_by(request: LoaderRequest, collate: Callable[..., Any], kept: Batch | None) -> Callable[..., Any]:
    """Return `collate` with what a worker does to a batch before it is sent, for `received`."""
    collate = collating(request, collate)
    if kept:
        return lambda items: count_alone(collate(items))
    return (lambda items: packed(collate(items))) if request.workers else collate


def as_is(batch: Batch) -> Batch:
    """Return the batch: a data set with `__getitems__` has collated already."""
    return batch


def empty_batch(items: int, sample: Sample, dtype: str | None = None) -> Any:
    """Return a tensor (items, ...) in the shape and type of `sample`, or another `dtype`, unfilled: to gather a batch.

    In a worker it is in shared memory, so that sending it copies nothing: torch's own collating takes its memory so,
    and there is no public call for it. Elsewhere it is numpy's memory: large arrays are in huge pages there, and where
    they do not, new memory is as expensive as the copy into it.
    """
    import numpy as np
    import torch

    shape, dtype = (items, *sample.shape), dtype or sample.dtype
    if torch.utils.data.get_worker_info() is None:
        return torch.from_numpy(np.empty(shape, dtype))
    return empty_shared(shape, dtype)


def empty_shared(shape: Sequence[int], dtype: str) -> Any:
    """Return an unfilled tensor in shared memory."""
    import torch

    like = torch.empty(0, dtype=getattr(torch, dtype))
    return like.new(like._typed_storage()._new_shared(prod(shape), device="cpu")).resize_(shape)


def reused(request: LoaderRequest) -> Any:
    """Return the buffer that a loader with REUSE gathers all its batches in, (batch, ...), or None."""
    if not request.options["reuse"] or request.workers or request.device != "cpu":
        return None
    return empty_batch(request.batch_size, request.sample)


def labels_of(request: LoaderRequest) -> Batch:
    """Return `target`, `labels` and `item` of all items of a split whose labels are beside its data, by name."""
    import torch

    from scripts.common.labels import read_labels

    item, target, labels = map(torch.from_numpy, read_labels(request.label_folder))
    return {"target": target, "labels": labels, "item": item}


def rows_of(labels: Mapping[str, Any], where: Any) -> Batch:
    """Return the rows of a batch of what `labels_of` gives, by positions."""
    return {name: rows[where] for name, rows in labels.items()}


class Items:
    """A map-style data set of a split whose labels are beside its data (`scripts/common/labels.py`), item by item.

    A subclass has `item(position)`, which returns an item, of audio float32 (1, samples).
    """

    def __init__(self, request: LoaderRequest) -> None:
        self.request, self.data, self.sample = request, request.location.path, request.sample
        self.target, self.labels, self.index = labels_of(request).values()

    def __getitem__(self, position: int) -> Batch:
        return {
            self.sample.key: self.item(position),
            "target": self.target[position],
            "labels": self.labels[position],
            "item": self.index[position],
        }

    def close(self) -> None:
        """Let go of what this process has open."""


class Batches(Items):
    """The same, in whole batches: a subclass has `gathered(positions)`, which returns (n, ...)."""

    def __getitems__(self, positions: list[int]) -> Batch:
        return {
            self.sample.key: self.gathered(positions),
            "target": self.target[positions],
            "labels": self.labels[positions],
            "item": self.index[positions],
        }


class OpenedByEach(Items):
    """Items of a library that cannot be used across a fork: each process that reads opens the file itself.

    A subclass has `open()`. A library may know a file that was open before the fork, and go on with the state that the
    parent left: it is closed here first.
    """

    def __init__(self, request: LoaderRequest) -> None:
        super().__init__(request)
        self.file = self.opened_by = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"file": None, "opened_by": None}

    def opened(self) -> Any:
        """Return this process's own open file."""
        if self.opened_by != os.getpid():
            self.close()
            self.file, self.opened_by = self.open(), os.getpid()
        return self.file

    def close(self) -> None:
        """Close the file in this process, if it is open."""
        if self.file is not None:
            self.file.close()
        self.file = self.opened_by = None


class Rows:
    """A data set of tensors of all items, in memory or mapped, item by item: views, which collating copies."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self.tensors = tensors

    def __getitem__(self, position: int) -> Batch:
        return {name: rows[position] for name, rows in self.tensors.items()}

    def close(self) -> None:
        """Nothing is open: what is mapped needs no descriptor."""


class Tensors(Rows):
    """The same, a batch of each tensor gathered at once, its data in an `empty_batch`, or in `buffer`.

    By index_select, on torch's threads: indexing with [] is slower.
    """

    def __init__(self, tensors: Mapping[str, Any], sample: Sample, buffer: Any = None) -> None:
        super().__init__(tensors)
        self.sample = sample
        self.buffer = buffer  # (batch, ...), in which every batch is gathered

    def __getitems__(self, positions: list[int]) -> Batch:
        import torch

        where, key = torch.tensor(positions), self.sample.key
        rest = {name: torch.index_select(rows, 0, where) for name, rows in self.tensors.items() if name != key}
        count = len(positions)
        batch = empty_batch(count, self.sample) if self.buffer is None else self.buffer[:count]
        return {key: torch.index_select(self.tensors[key], 0, where, out=batch), **rest}


def with_labels(request: LoaderRequest, data: Any) -> Batch:
    """Return the data of all items, a tensor (n, ...), with the labels that are beside it."""
    return {request.sample.key: data, **labels_of(request)}


def stacked(views: Sequence[Any], sample: Sample) -> Any:
    """Return (n, ...): a copy of the items, each a tensor, in an `empty_batch`."""
    import torch

    return torch.stack(list(views), out=empty_batch(len(views), sample))


def worker_arguments(request: LoaderRequest) -> dict[str, Any]:
    """Return the DataLoader arguments for workers, prefetching and pinned memory.

    The start method is given, not inherited: importing torchrl sets it to spawn for the whole process.
    """
    arguments = {"num_workers": request.workers, "pin_memory": request.pin_memory}
    if request.workers:
        arguments |= {
            "prefetch_factor": request.prefetch,
            "persistent_workers": request.persistent_workers,
            "multiprocessing_context": request.start_method,
        }
    return arguments


class WithItsCode:
    """What a worker gets that is no fork: pickled with its code, wherever that was defined. There it is as it was."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        cloudpickle = import_module("cloudpickle")  # not where a library is isolated, whose loaders are forked

        return cloudpickle.loads, (cloudpickle.dumps(self.what),)


class Again:
    """A data set that reads its first item, or batch, and gives that ever after: reading is left out."""

    def __init__(self, dataset: Any, sent: bool) -> None:
        self.dataset = dataset
        self.sent = sent  # to another process
        self.kept: Any = None

    def __getitem__(self, _position: int) -> Any:
        if self.kept is None:
            self.kept = self.dataset[0]
        return self.kept  # collating copies it


class AgainByBatch(Again):
    """The same for a data set that gives whole batches."""

    def __getitems__(self, positions: list[int]) -> Batch:
        if self.kept is None:
            self.kept = self.dataset.__getitems__(positions)
        rows = ((name, tensor[: len(positions)]) for name, tensor in self.kept.items())
        if self.sent:  # new memory, unfilled: what is in shared memory already would be sent for free
            import torch

            rows = ((name, torch.empty_like(tensor)) for name, tensor in rows)
        return type(self.kept)(rows)


def count_alone(batch: Batch) -> Batch:
    """Return what is sent of a batch when its transfer is left out: one byte an item."""
    import torch

    return {"items": torch.empty(len(batch["item"]), dtype=torch.uint8)}


def in_place_of_counts(counts: Iterator[Batch], kept: Batch) -> Iterator[Batch]:
    """Yield `kept`, cut to as many items as each of the batches that were not sent had."""
    for count in counts:
        yield {name: tensor[: len(count["items"])] for name, tensor in kept.items()}


@contextmanager
def epochs_of(
    request: LoaderRequest,
    dataset: Any,
    finish: Callable[[Batch], Batch] | None = None,
    collate: Callable[..., Any] | None = None,
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open a DataLoader over a map-style `dataset` whose items are dicts; yield the loader contract's epoch function.

    A data set with `__getitems__` returns a whole batch as a dict; otherwise items are collated by torch, or `collate`.
    `finish` is what is left to do with a batch where it arrives: in this process, on the asked device.
    """
    from torch.utils.data import DataLoader, default_collate

    by_batch = hasattr(dataset, "__getitems__")
    collate = collate or (as_is if by_batch else default_collate)
    if finish:  # what comes before it is no item yet
        request = replace(request, applied=None)
    kept: Batch | None = None
    if "transfer" in request.without:
        if by_batch:
            kept = collate(dataset.__getitems__(list(range(min(request.batch_size, request.items)))))
        else:
            kept = collate([dataset[0]] * request.batch_size)
    if "read" in request.without:
        dataset = (AgainByBatch if by_batch else Again)(dataset, sent=request.workers > 0)
    batches = EpochBatches(request)
    parts = {
        "dataset": dataset,
        "batch_sampler": batches,
        "collate_fn": sent_by(request, collate, kept),
    }
    if request.spans:
        parts = request.spans.watching(**parts)
    if request.workers and request.start_method != "fork":
        parts |= {name: WithItsCode(parts[name]) for name in ("dataset", "collate_fn")}
    loader = DataLoader(**parts, **worker_arguments(request))

    def epoch(number: int) -> Iterator[Batch]:
        batches.epoch = number
        sent = request.spans.arriving(iter(loader), number) if request.spans else iter(loader)
        arrived = received(sent, request, kept)
        return map(finish, arrived) if finish else arrived

    try:
        yield epoch
    finally:
        stop_workers(loader)


@contextmanager
def epochs_from(
    loader: Any, request: LoaderRequest, begin: Callable[[int], None] | None = None, kept: Batch | None = None
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over a DataLoader whose data set orders its items itself, such as an IterableDataset.

    Its collate function is one of `sent_by`. `begin` tells the data set the number of the epoch that begins, also where
    it is in worker processes. `kept` is given in place of what is sent where the transfer is left out: batches are then
    those of `count_alone`.
    """

    def epoch(number: int) -> Iterator[Batch]:
        if begin:
            begin(number)
        return received(iter(loader), request, kept)

    try:
        yield epoch
    finally:
        stop_workers(loader)


@contextmanager
def epochs_of_opened(request: LoaderRequest, dataset: Any) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over a data set that has something open in this process: at the end it is closed."""
    try:
        with epochs_of(request, dataset) as epoch:
            yield epoch
    finally:
        dataset.close()


def gathering(
    request: LoaderRequest, by_item: Callable[..., Any], by_batch: Callable[..., Any]
) -> AbstractContextManager[Callable[[int], Iterator[Batch]]]:
    """Return what opens the epoch function over the data set that the option `gather` names, opened by the request."""
    return epochs_of_opened(request, (by_batch if request.options["gather"] == "batch" else by_item)(request))


def stop_workers(loader: Any) -> None:
    """End a DataLoader's persistent workers now; torch has no public call for it (it does so when collected)."""
    iterator, loader._iterator = loader._iterator, None
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()
