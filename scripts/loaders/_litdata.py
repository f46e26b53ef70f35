"""What the loaders by LitData share: a StreamingDataset that is told its rank and the number of its epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._stored import StoredBatches, first_again
from scripts.loaders._torch import Batch, epochs_from, sent_by, worker_arguments

ORDER = "chunks in random order, items shuffled within a chunk"


@contextmanager
def open_split(request: LoaderRequest, **place: Any) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over this rank's items; `place` are a StreamingDataset's arguments that say where."""
    from multiprocessing.sharedctypes import RawValue

    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.utilities.env import _DistributedEnv

    number_of_epoch = RawValue("q", 0)  # seen by workers that live for many epochs

    class Split(StreamingDataset):
        def __iter__(self) -> Iterator[Any]:
            _forget_chunks(self)  # those of the epoch before
            self.set_epoch(number_of_epoch.value + 1)  # the library counts from 1
            items = super().__iter__()
            return first_again(iter(items.__next__, None), request) if "read" in request.without else items

    def dataset() -> Split:
        found = Split(**place, shuffle=request.shuffle, seed=request.seed, drop_last=False)
        found.distributed_env = _DistributedEnv(request.world, request.rank, num_nodes=1)
        found.set_batch_size(request.batch_size)
        return found

    kept = None
    if "transfer" in request.without:
        first = dataset()
        kept = StoredBatches(request)([next(iter(first))] * request.batch_size)
        _forget_chunks(first)
    split = dataset()
    loader = StreamingDataLoader(
        split,
        batch_size=request.batch_size,
        collate_fn=sent_by(request, StoredBatches(request), kept),
        **worker_arguments(request),
    )

    def begin(number: int) -> None:
        number_of_epoch.value = number

    try:
        with epochs_from(loader, request, begin, kept) as epoch:
            yield epoch
    finally:
        _forget_chunks(split)


def _forget_chunks(dataset: Any) -> None:
    """Let go of the chunks that a data set has mapped, and of its client: functions of the library cache them."""
    from litdata.streaming.item_loader import BaseItemLoader
    from litdata.streaming.shuffle import FullShuffle, NoShuffle, WindowShuffle

    dataset.cache = dataset.shuffler = None
    for shuffle in (FullShuffle, NoShuffle, WindowShuffle):
        shuffle.get_chunks_and_intervals_per_workers.cache_clear()
    BaseItemLoader._data_format_to_key.cache_clear()
