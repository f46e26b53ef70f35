"""MosaicML Streaming: a StreamingDataset on local MDS shards, each item read from its file, batched in each worker.

For training that is stopped and continued elsewhere: the order depends on the seed alone, not on the number of workers.
Here the shards are local and nothing is downloaded. An epoch is a permutation of all items, near to where their shard
comes in a permutation of shards (`py1e`, its own choice); workers take the batches in turn. Its time goes into a file
opened and read twice for each item, and into two threads in each worker that look after shards that are there already:
set workers to the number of cores.

The rank is told to the data set itself: the library would read it from the environment, and start torch.distributed.
With more than one rank it repeats items until all have as many. Its processes agree through shared memory and lock
files, which here end with the loader, not with the program.
"""

from streaming import StreamingDataLoader, StreamingDataset

from scripts.loaders._declared import DECODING as STAGES, NEAR as ORDER, SETTINGS, simplify
from scripts.loaders._plain.mosaic import close, of_rank
from scripts.loaders._plain.stored import Stored

FORMAT = "mosaic"
ENV = "mosaic"
REQUIRES = ("torch", "mosaicml-streaming", "numpy")
LIFETIME = "lasting"
SHARING = "repeats"


def make_loader(data, key, shape, dtype, scale, batch_size, seed, shuffle=True, rank=0, world=1, **how):
    """Return a StreamingDataLoader over local shards."""
    dataset = StreamingDataset(local=str(data), batch_size=batch_size, shuffle=shuffle, shuffle_seed=seed)
    if world > 1:
        of_rank(dataset, rank, world)
    collate = Stored(data, key, shape, dtype, scale)
    return StreamingDataLoader(dataset, batch_size=batch_size, collate_fn=collate, **how)
