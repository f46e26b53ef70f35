"""What the loaders by MosaicML Streaming share: a StreamingDataset that is told its rank and ends with its loader."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._stored import StoredBatches, first_again
from scripts.loaders._torch import Batch, epochs_from, sent_by, worker_arguments

ORDER = "shards in random order, items near to their shard"


@contextmanager
def open_split(request: LoaderRequest, **place: Any) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over this rank's items; `place` are a StreamingDataset's arguments that say where."""
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.world import World

    class Split(StreamingDataset):
        def __iter__(self) -> Iterator[Any]:
            items = super().__iter__()
            return first_again(items, request) if "read" in request.without else items

    split = Split(
        **place,
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        shuffle_seed=request.seed,
    )
    split._parallel_rank_world = World(1, request.world, 1, request.rank)  # 1 node, so many ranks, 1 worker each yet
    kept = None
    try:
        if "transfer" in request.without:
            kept = StoredBatches(request)([split[0]] * request.batch_size)
        loader = StreamingDataLoader(
            split,
            batch_size=request.batch_size,
            collate_fn=sent_by(request, StoredBatches(request), kept),
            **worker_arguments(request),
        )

        def begin(number: int) -> None:
            split.next_epoch = number

        with epochs_from(loader, request, begin, kept) as epoch:
            yield epoch
    finally:
        _close(split)


def _close(split: Any) -> None:
    """End what a data set has started in this process, and remove what it has left in shared memory and on the disk."""
    import atexit
    from pathlib import Path

    if hasattr(split, "_iterator"):
        split._iterator.exit()
    if hasattr(split, "_executor"):
        split._executor.shutdown()
    scalars = (split._next_epoch.arr, split._cache_usage.arr)
    arrays = (*scalars, split._shared_barrier._arr, split._shard_states, split._shard_access_times)
    for memory in (split._locals_shm, *(array.shm for array in arrays)):
        atexit.unregister(memory.cleanup)
        memory.cleanup()
    for path in (split._shared_barrier.filelock_path, split._cache_filelock_path):
        Path(path).unlink(missing_ok=True)
