"""MosaicML Streaming: a StreamingDataset on local MDS shards, each clip read from its file, batched in each worker.

For training that is stopped and continued elsewhere: the order depends on the seed alone, not on the number of workers.
Here the shards are local and nothing is downloaded. An epoch is a permutation of all clips, near to where their shard
comes in a permutation of shards (`py1e`, its own choice); workers take the batches in turn. Its time goes into a file
opened and read twice for each clip, and into two threads in each worker that look after shards that are there already:
set workers to the number of cores.

The rank is told to the data set itself: the library would read it from the environment, and start torch.distributed.
With more than one rank it repeats clips until all have as many; where that would happen the loader is not suited. Its
processes agree through shared memory and lock files, which here end with the loader, not with the program.
"""

from contextlib import contextmanager

from scripts.loaders._pcm import STAGES, PcmBatches, first_again  # noqa: F401
from scripts.loaders._torch import epochs_from, simplify, worker_arguments  # noqa: F401

FORMAT = "mosaic"
ENV = "mosaic"
REQUIRES = ("torch", "mosaicml-streaming", "numpy")
LIFETIME = "lasting"
ORDER = "shards in random order, clips near to their shard"
SETTINGS = ("workers", "prefetch", "pin_memory")
SNIPPET = """
from streaming import StreamingDataLoader, StreamingDataset

$head
$labels


$empty_batch


$pcm_collate


dataset = StreamingDataset(local=str(data), batch_size=batch_size, shuffle=True, shuffle_seed=$seed)
loader = StreamingDataLoader(
    dataset,
    batch_size=batch_size,
    collate_fn=collate,
    $worker_arguments
)

$loop
"""


def unsuited(request):
    """Return why the library would deliver clips twice, or None."""
    if request.clips % request.world:
        return f"{request.clips} clips are not a multiple of {request.world} ranks: the library repeats some to fill up"
    return None


@contextmanager
def open_epochs(request):
    """Yield the epoch function over this rank's clips."""
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.world import World

    class Split(StreamingDataset):
        def __iter__(self):
            items = super().__iter__()
            return first_again(items, request) if "read" in request.without else items

    split = Split(
        local=str(request.data),
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        shuffle_seed=request.seed,
    )
    split._parallel_rank_world = World(1, request.world, 1, request.rank)  # 1 node, so many ranks, 1 worker each yet
    kept = None
    try:
        if "transfer" in request.without:
            kept = PcmBatches(request)([split[0]] * request.batch_size)
        loader = StreamingDataLoader(
            split,
            batch_size=request.batch_size,
            collate_fn=PcmBatches(request, counted=kept is not None),
            **worker_arguments(request),
        )

        def begin(number):
            split.next_epoch = number

        with epochs_from(loader, request, begin, kept) as epoch:
            yield epoch
    finally:
        _close(split)


def _close(split):
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
