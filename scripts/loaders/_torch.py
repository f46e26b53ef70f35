"""A loader on torch's DataLoader, measured: sampling, workers, the copy to the device, an orderly end.

And the stages that can be left out of any of them, to see what they cost (`LoaderRequest.without`): `read`, for which
each process delivers its first item again and again, and `transfer`, for which the workers send how many items a batch
has and nothing else. Where `LoaderRequest.spans` are asked for, the processes note when they read, collate and receive
a batch (measure/spans.py).

Imports torch inside functions, since loaders are named where torch is not installed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from math import prod
from operator import getitem
from typing import Any

from scripts.common.request import LoaderRequest, Share, batches_of, epoch_order
from scripts.loaders._transformed import InEpoch, Told, collating, kept_transformed
from scripts.machine import gpu

Batch = dict[str, Any]
PAIR = ("target", "item")  # what workers send as one tensor


class EpochBatches:
    """A batch sampler: lists of positions of one epoch, in the order that `request.epoch_order` gives."""

    def __init__(self, request: LoaderRequest) -> None:
        self.request = request
        self.epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        told = self.request.applied is not None and self.request.applied.random
        for positions in batches_of(epoch_order(self.request, self.epoch), self.request.batch_size):
            batch = positions.tolist()
            if told:
                batch = InEpoch(batch)
                batch.epoch = self.epoch
            yield batch


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
        sent = in_place_of_counts(sent, kept_transformed(request, kept))
    elif request.workers:
        sent = map(unpacked, sent)
    return to_device(sent, request)


def sent_by(
    request: LoaderRequest, collate: Callable[..., Any], kept: Batch | None, dataset: Any = None
) -> Callable[..., Any]:
    """Return `collate` with what a worker does to a batch before it is sent, for `received`.

    `dataset`: of a map-style one, from which a transform may read.
    """
    collate = collating(request, collate, dataset)
    if kept:
        return lambda items: count_alone(collate(items))
    return (lambda items: packed(collate(items))) if request.workers else collate


def as_is(batch: Batch) -> Batch:
    """Return the batch: a data set with `__getitems__` has collated already."""
    return batch


def empty_shared(shape: Sequence[int], dtype: str) -> Any:
    """Return an unfilled tensor in shared memory."""
    import torch

    like = torch.empty(0, dtype=getattr(torch, dtype))
    return like.new(like._typed_storage()._new_shared(prod(shape), device="cpu")).resize_(shape)


def of_data_loader(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a DataLoader for a batch, workers, prefetching and page-locked memory.

    The start method is given, not inherited: importing torchrl sets it to spawn for the whole process.
    """
    arguments = {"batch_size": settings["batch_size"], "num_workers": settings["workers"] or 0}
    if settings["workers"]:
        arguments |= {
            "prefetch_factor": settings["prefetch"],
            "persistent_workers": settings.get("persistent_workers") is not False,
            "multiprocessing_context": settings.get("start_method") or "fork",
        }
    return arguments | {"pin_memory": bool(settings["pin_memory"])}


class WithTheirCode(dict):
    """What a worker gets that is no fork: pickled with its code, wherever that was defined. There it is as it was.

    It is pickled at once, so that what its parts share they share there too: a transform, and the epoch that it is in.
    """

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        cloudpickle = import_module("cloudpickle")  # not where a library is isolated, whose loaders are forked

        return cloudpickle.loads, (cloudpickle.dumps(dict(self)),)


class Part:
    """One of them."""

    def __init__(self, parts: WithTheirCode, name: str) -> None:
        self.parts, self.name = parts, name

    def __reduce__(self) -> tuple[Any, tuple[WithTheirCode, str]]:
        return getitem, (self.parts, self.name)


class Beginning:
    """A `worker_init_fn`, for which the data set of a worker is its own, whatever that is wrapped in."""

    def __init__(self, begin: Callable[[int], None], dataset: Any) -> None:
        self.begin, self.dataset = begin, dataset

    def __call__(self, worker: int) -> None:
        from torch.utils.data import get_worker_info

        object.__setattr__(get_worker_info(), "dataset", self.dataset)
        self.begin(worker)


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
        if isinstance(self.kept, list):  # of items, which are still to be collated
            return self.kept[: len(positions)]
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
    begin: Callable[[int], None] | None = None,
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open a DataLoader over a map-style `dataset` whose items are dicts; yield the loader contract's epoch function.

    A data set with `__getitems__` returns a whole batch as a dict; otherwise items are collated by torch, or `collate`.
    `finish` is what is left to do with a batch where it arrives: in this process, on the asked device. `begin` is
    called in each worker (`worker_init_fn`).
    """
    from torch.utils.data import DataLoader, default_collate

    users = dataset
    by_batch = hasattr(dataset, "__getitems__")
    collate = collate or (as_is if by_batch else default_collate)
    if finish:  # what comes before it is no item yet
        request = replace(request, applied=None)
    kept: Batch | None = None
    if "transfer" in request.without:
        if by_batch:
            first = epoch_order(replace(request, shuffle=False, share=Share()), 0)[: request.batch_size]
            kept = collate(dataset.__getitems__(first.tolist()))
        else:
            kept = collate([dataset[0]] * request.batch_size)
    if "read" in request.without:
        dataset = (AgainByBatch if by_batch else Again)(dataset, sent=request.workers > 0)
    batches, collate_fn = EpochBatches(request), sent_by(request, collate, kept, dataset)
    if request.applied and request.applied.random:
        dataset = Told(dataset, request.applied)
    parts = {"dataset": dataset, "batch_sampler": batches, "collate_fn": collate_fn}
    if request.spans:
        parts = request.spans.watching(**parts)
    if begin:
        parts["worker_init_fn"] = Beginning(begin, users)
    if request.workers and request.start_method != "fork":
        sent = WithTheirCode({name: part for name, part in parts.items() if name != "batch_sampler"})
        parts |= {name: Part(sent, name) for name in sent}
    arguments = of_data_loader(vars(request))
    del arguments["batch_size"]  # which the sampler has
    loader = DataLoader(**parts, **arguments)

    def epoch(number: int) -> Iterator[Batch]:
        batches.epoch = number
        sent = request.spans.arriving(iter(loader), number) if request.spans else iter(loader)
        arrived = received(sent, request, kept)
        return map(finish, arrived) if finish else arrived

    try:
        yield epoch
    finally:
        stop_workers(loader)


def stop_workers(loader: Any) -> None:
    """End a DataLoader's persistent workers now; torch has no public call for it (it does so when collected)."""
    iterator, loader._iterator = loader._iterator, None
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()
