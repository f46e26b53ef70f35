"""HDF5 by h5py in a DataLoader: one file, each item a chunk, read straight into its row of the batch.

`gather: batch` reads each chunk by `read_direct_chunk` into the batch's memory: one read of the file, and no copy by
HDF5's chunk cache or its selections. An index of many items at once must be sorted in h5py, and is slower than a loop.
`gather: item` indexes the data set item by item and lets torch collate, as most published code does. Its time goes
into reading, one item at a time, since HDF5 has one lock for all threads: set workers to the number of cores.

Each process opens the file itself: HDF5 keeps state beside the descriptor, which a fork would copy half used. Locking
is off: readers need none, and on many network file systems and read-only media taking the lock is an error.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._torch import GATHER, STAGES, Batches, OpenedByEach, empty_batch, gathering, simplify  # noqa: F401

FORMAT = "hdf5"
REQUIRES = ("torch", "h5py", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER
SNIPPET = """
import h5py
from torch.utils.data import Dataset

$head
$labels


$empty_batch


class Items(Dataset):
    file = None

    def __len__(self):
        return len(target)

    def opened(self):
        if self.file is None:  # each process opens the file itself: HDF5 cannot be used across a fork
            self.file = h5py.File(data / "items.h5", locking=False)
        return self.file["$item"]

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once: each chunk, an item, straight into its row
        chunks, $item = self.opened().id, empty_batch(len(positions))
        first = (0,) * len(shape)  # of an item
        for position, row in zip(positions, $item.flatten(1).numpy().view("u1"), strict=True):
            chunks.read_direct_chunk((position, *first), out=row)
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}
    $when gather=item
    def __getitem__(self, position):
        return {"$item": self.opened()[position], "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""


class ByItem(OpenedByEach):
    """The file item by item."""

    def open(self):
        """Return this process's own open file."""
        import h5py

        return h5py.File(self.data / "items.h5", locking=False)

    def item(self, position):
        """Return an item."""
        return self.opened()[self.sample.key][position]


class ByBatch(Batches, ByItem):
    """The same, in whole batches."""

    def gathered(self, positions):
        """Return (n, ...)."""
        chunks, batch = self.opened()[self.sample.key].id, empty_batch(len(positions), self.sample)
        rows, first = batch.flatten(1).numpy().view("u1"), (0,) * len(self.sample.shape)
        for row, position in zip(rows, positions, strict=True):
            chunks.read_direct_chunk((position, *first), out=row)
        return batch


def open_epochs(request):
    """Return what opens the epoch function over the file."""
    return gathering(request, ByItem, ByBatch)
