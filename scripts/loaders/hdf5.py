"""HDF5 by h5py in a DataLoader: one file, each item a chunk, read straight into its row of the batch.

`gather: batch` reads each chunk by `read_direct_chunk` into the batch's memory: one read of the file, and no copy by
HDF5's chunk cache or its selections. An index of many items at once must be sorted in h5py, and is slower than a loop.
`gather: item` indexes the data set item by item and lets torch collate, as most published code does. Its time goes
into reading, one item at a time, since HDF5 has one lock for all threads: set workers to the number of cores.

Each process opens the file itself: HDF5 keeps state beside the descriptor, which a fork would copy half used. Locking
is off: readers need none, and on many network file systems and read-only media taking the lock is an error.
"""

import h5py

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import GATHER, STAGES, simplify
from scripts.loaders._plain.data_loader import Batches, OpenedByEach, data_loader, empty_batch

FORMAT = "hdf5"
REQUIRES = ("torch", "h5py", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


class ByItem(OpenedByEach):
    """The file item by item."""

    def open(self):
        return h5py.File(self.data / "items.h5", locking=False)

    def item(self, position):
        return self.opened()[self.key][position]


class ByBatch(Batches, ByItem):
    """The same in whole batches: each chunk, an item, straight into its row."""

    def __init__(self, data, key, shape, dtype):
        super().__init__(data, key)
        self.shape, self.dtype = shape, dtype

    def batch(self, positions):
        chunks, batch = self.opened()[self.key].id, empty_batch(len(positions), self.shape, self.dtype)
        first = (0,) * len(self.shape)  # of an item
        for row, position in zip(batch.flatten(1).numpy().view("u1"), positions, strict=True):
            chunks.read_direct_chunk((position, *first), out=row)
        return batch


def make_loader(data, key, shape, dtype, gather, **how):
    """Return a DataLoader over the file."""
    if gather == "item":
        return data_loader(ByItem(data, key), **how)
    return data_loader(ByBatch(data, key, shape, dtype), **how)
