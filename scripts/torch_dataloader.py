"""What the loaders on torch's DataLoader share: sampling, workers, the copy to the device, an orderly end.

Imports torch inside functions, since loaders are named where torch is not installed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loading import LoaderRequest, batches_of, epoch_order

Batch = dict[str, Any]


def simplify(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those that a DataLoader ignores: without workers nothing is prefetched."""
    return {**settings, "prefetch": settings["prefetch"] if settings["workers"] else None}


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


@contextmanager
def epochs_of(request: LoaderRequest, dataset: Any) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open a DataLoader over a map-style `dataset` whose items are dicts; yield the loader contract's epoch function.

    A data set with `__getitems__` returns a whole batch as a dict; otherwise items are collated by torch.
    """
    from torch.utils.data import DataLoader

    batches = EpochBatches(request)
    loader = DataLoader(
        dataset,
        batch_sampler=batches,
        collate_fn=as_is if hasattr(dataset, "__getitems__") else None,
        **worker_arguments(request),
    )

    def epoch(number: int) -> Iterator[Batch]:
        batches.epoch = number
        return to_device(iter(loader), request)

    try:
        yield epoch
    finally:
        stop_workers(loader)


def stop_workers(loader: Any) -> None:
    """End a DataLoader's persistent workers now; torch has no public call for it (it does so when collected)."""
    iterator, loader._iterator = loader._iterator, None
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()
