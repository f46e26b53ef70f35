"""What the loaders on torch's DataLoader share: sampling, workers, the copy to the device, an orderly end.

And the stages that can be left out of any of them, to see what they cost (`LoaderRequest.without`): `read`, for which
each process delivers its first item again and again, and `transfer`, for which the workers send how many clips a batch
has and nothing else. A loader that decodes adds `decode`, and leaves it out by `loading.undecoded`. Where
`LoaderRequest.spans` are asked for, the processes note when they read, collate and receive a batch (measure/spans.py).

Imports torch inside functions, since loaders are named where torch is not installed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from scripts.common.request import LoaderRequest, batches_of, epoch_order
from scripts.common.vocabulary import STAGES, simplify  # noqa: F401

Batch = dict[str, Any]


class EpochBatches:
    """A batch sampler: lists of positions of one epoch, in the order that `loading.epoch_order` gives."""

    def __init__(self, request: LoaderRequest) -> None:
        self.request = request
        self.epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        for positions in batches_of(epoch_order(self.request, self.epoch), self.request.batch_size):
            yield positions.tolist()


def to_device(batches: Iterator[Batch], request: LoaderRequest) -> Iterator[Batch]:
    """Yield the batches on the asked device; the copy does not wait where the memory is pinned."""
    for batch in batches:
        if request.device != "cpu":
            batch = {key: value.to(request.device, non_blocking=request.pin_memory) for key, value in batch.items()}
        yield batch


def as_is(batch: Batch) -> Batch:
    """Return the batch: a data set with `__getitems__` has collated already."""
    return batch


def empty_batch(clips: int, samples: int, dtype: Any = None) -> Any:
    """Return a tensor (clips, 1, samples), float32 unless told, unfilled, to gather a batch in.

    In a worker it lies in shared memory, so that sending it copies nothing: torch's own collating takes its memory so,
    and there is no public call for it. Elsewhere it is numpy's memory: large arrays lie in huge pages there, and where
    they do not, new memory is as dear as the copy into it.
    """
    import numpy as np
    import torch

    like = torch.empty(0, dtype=dtype or torch.float32)
    if torch.utils.data.get_worker_info() is None:
        return torch.from_numpy(np.empty((clips, 1, samples), like.numpy().dtype))
    return like.new(like._typed_storage()._new_shared(clips * samples, device="cpu")).resize_(clips, 1, samples)


def gathered(tensors: Mapping[str, Any], positions: list[int]) -> Batch:
    """Return the rows at `positions` of each tensor, audio (n, 1, samples) in an `empty_batch`.

    By index_select, on torch's threads: indexing with [] is slower.
    """
    import torch

    where, audio = torch.tensor(positions), tensors["audio"]
    rest = {name: torch.index_select(tensor, 0, where) for name, tensor in tensors.items() if name != "audio"}
    batch = empty_batch(len(positions), audio.shape[2], audio.dtype)
    return {"audio": torch.index_select(audio, 0, where, out=batch), **rest}


def stacked(views: Sequence[Any]) -> Any:
    """Return float32 (n, 1, samples): a copy of the clips, each a tensor (1, samples), in an `empty_batch`."""
    import torch

    return torch.stack(list(views), out=empty_batch(len(views), views[0].shape[1]))


def worker_arguments(request: LoaderRequest) -> dict[str, Any]:
    """Return the DataLoader arguments for workers, prefetching and pinned memory.

    The start method is given, not inherited: importing torchrl sets it to spawn for the whole process.
    """
    arguments = {"num_workers": request.workers, "pin_memory": request.pin_memory}
    if request.workers:
        arguments |= {
            "prefetch_factor": request.prefetch,
            "persistent_workers": True,
            "multiprocessing_context": "fork",
        }
    return arguments


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
        if self.sent:  # new memory, unfilled: what lies in shared memory already would be sent for free
            import torch

            rows = ((name, torch.empty_like(tensor)) for name, tensor in rows)
        return type(self.kept)(rows)


def count_alone(batch: Batch) -> Batch:
    """Return what is sent of a batch when its transfer is left out: one byte a clip."""
    import torch

    return {"clips": torch.empty(len(batch["clip"]), dtype=torch.uint8)}


def in_place_of_counts(counts: Iterator[Batch], kept: Batch) -> Iterator[Batch]:
    """Yield `kept`, cut to as many clips as each of the batches that were not sent had."""
    for count in counts:
        yield {name: tensor[: len(count["clips"])] for name, tensor in kept.items()}


@contextmanager
def epochs_of(
    request: LoaderRequest, dataset: Any, finish: Callable[[Batch], Batch] | None = None
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open a DataLoader over a map-style `dataset` whose items are dicts; yield the loader contract's epoch function.

    A data set with `__getitems__` returns a whole batch as a dict; otherwise items are collated by torch. `finish` is
    what is left to do with a batch where it arrives: in this process, on the asked device.
    """
    from torch.utils.data import DataLoader, default_collate

    collate = as_is if hasattr(dataset, "__getitems__") else default_collate
    kept: Batch | None = None
    if "transfer" in request.without:
        kept = default_collate([dataset[0]] * request.batch_size) if collate is default_collate else None
        kept = kept or dataset.__getitems__(list(range(min(request.batch_size, request.clips))))
    if "read" in request.without:
        dataset = (AgainByBatch if collate is as_is else Again)(dataset, sent=request.workers > 0)
    batches = EpochBatches(request)
    parts = {
        "dataset": dataset,
        "batch_sampler": batches,
        "collate_fn": (lambda items: count_alone(collate(items))) if kept else collate,
    }
    if request.spans:
        parts = request.spans.watching(**parts)
    loader = DataLoader(**parts, **worker_arguments(request))

    def epoch(number: int) -> Iterator[Batch]:
        batches.epoch = number
        sent = request.spans.arriving(iter(loader), number) if request.spans else iter(loader)
        arrived = to_device(in_place_of_counts(sent, kept) if kept else sent, request)
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
