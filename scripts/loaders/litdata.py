"""LitData: a StreamingDataset on local chunks, mapped where they are, batched in each worker.

For data too large for one machine, which it downloads chunk by chunk from object storage; here the chunks are local
and are mapped in place: nothing is copied to a cache. An epoch is made of chunks in random order and of items shuffled
within each chunk in blocks of 256 (a chunk has some 200 items of 10 s), as its guide says: items of one chunk come one
after the other. Its time goes into turning 16-bit samples into a batch: set workers to the number of cores.

Each worker has whole batches, one of them (and one rank) the rest. The rank is told to the data set itself: the
library would read it from torch.distributed, or from the environment of the process.
"""

from litdata import StreamingDataLoader

from scripts.loaders._declared import CHUNKS as ORDER, DECODING as STAGES, SETTINGS, simplify
from scripts.loaders._plain.litdata import Split, close, of_rank
from scripts.loaders._plain.stored import Stored

FORMAT = "litdata"
ENV = "litdata"
REQUIRES = ("torch", "litdata", "numpy")
LIFETIME = "lasting"


def make_loader(data, key, shape, dtype, scale, batch_size, seed, shuffle=True, rank=0, world=1, **how):
    """Return a StreamingDataLoader over local chunks."""
    dataset = Split(str(data), shuffle=shuffle, seed=seed, drop_last=False)
    if world > 1:
        of_rank(dataset, rank, world)
    collate = Stored(data, key, shape, dtype, scale)
    return StreamingDataLoader(dataset, batch_size=batch_size, collate_fn=collate, **how)
