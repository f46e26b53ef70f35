"""MosaicML Streaming's data set of one rank, and its end."""

import atexit
from pathlib import Path

from streaming.base.world import World


def of_rank(dataset, rank, world):
    """Have a data set deliver the items of one rank: the library would read it from the environment."""
    dataset._parallel_rank_world = World(1, world, 1, rank)  # 1 node, so many ranks, 1 worker each yet


def close(loader):
    """End what a data set has started in this process, and remove what it has left in shared memory and on the disk."""
    dataset = loader.dataset
    if hasattr(dataset, "_iterator"):
        dataset._iterator.exit()
    if hasattr(dataset, "_executor"):
        dataset._executor.shutdown()
    scalars = (dataset._next_epoch.arr, dataset._cache_usage.arr)
    arrays = (*scalars, dataset._shared_barrier._arr, dataset._shard_states, dataset._shard_access_times)
    for memory in (dataset._locals_shm, *(array.shm for array in arrays)):
        atexit.unregister(memory.cleanup)
        memory.cleanup()
    for path in (dataset._shared_barrier.filelock_path, dataset._cache_filelock_path):
        Path(path).unlink(missing_ok=True)
