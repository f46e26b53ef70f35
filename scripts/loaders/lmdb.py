"""LMDB in a DataLoader: an item's bytes found by key in one mapped file, and copied once into the batch.

`gather: batch` takes views of mapped memory within one transaction and stacks them; `gather: item` has a transaction
and a copy for each item, and lets torch collate, as most published code does. Its time goes into copying memory, and
into the transfer from the workers: try `workers: [0]` first.

`readahead: false` is LMDB's advice for random reads of a file larger than memory, since nothing is read that was not
asked for. It is meant for small values: of an item each page of 4 KiB would be a read of its own, hundreds of them, so
`true` is the default here. With a warm cache it makes no difference.

Nothing is locked, since nobody writes to the file. Each process opens the environment itself, since LMDB forbids using
one across a fork.
"""

import warnings

from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._torch import GATHER, STAGES, Batches, OpenedByEach, gathering, simplify, stacked  # noqa: F401

FORMAT = "lmdb"
REQUIRES = ("torch", "lmdb", "numpy")
LIFETIME = "lasting"
OPTIONS = {
    **GATHER,
    "readahead": {"enum": [True, False], "default": True},
}
SNIPPET = """
import lmdb
from torch.utils.data import Dataset

import warnings

$head
$labels
warnings.filterwarnings("ignore", "The given buffer is not writable")  # nobody writes to it


$empty_batch


class Items(Dataset):
    environment = None

    def __len__(self):
        return len(target)

    def begin(self):
        if self.environment is None:  # each process opens it itself: LMDB forbids to use it across a fork
            self.environment = lmdb.open(
                str(data / "items.mdb"), subdir=False, readonly=True, lock=False, readahead=$readahead, meminit=False
            )
        return self.environment.begin(buffers=True)

    def view(self, transaction, position):  # of mapped memory, valid within the transaction
        value = transaction.get(position.to_bytes(8, "big"))
        return torch.frombuffer(value, dtype=torch.$dtype).view(shape)

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once, copied on torch's threads
        with self.begin() as transaction:
            views = [self.view(transaction, position) for position in positions]
            $item = torch.stack(views, out=empty_batch(len(views)))
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}
    $when gather=item
    def __getitem__(self, position):
        with self.begin() as transaction:
            $item = self.view(transaction, position).clone()
        return {"$item": $item, "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""


class ByItem(OpenedByEach):
    """The environment item by item. The library notes which files are open, and does not forget them in a fork."""

    def open(self):
        """Return this process's own environment."""
        import lmdb

        warnings.filterwarnings("ignore", "The given buffer is not writable")  # nobody writes to it
        readahead = self.request.options["readahead"]
        return lmdb.open(
            str(self.data / "items.mdb"), subdir=False, readonly=True, lock=False, readahead=readahead, meminit=False
        )

    def item(self, position):
        """Return an item."""
        with self.opened().begin(buffers=True) as transaction:
            return self.view(transaction, position).clone()

    def view(self, transaction, position):
        """Return an item of mapped memory, valid within the transaction, never to be written to."""
        import torch

        value = transaction.get(position.to_bytes(8, "big"))
        return torch.frombuffer(value, dtype=getattr(torch, self.sample.dtype)).view(self.sample.shape)


class ByBatch(Batches, ByItem):
    """The same, in whole batches."""

    def gathered(self, positions):
        """Return (n, ...)."""
        with self.opened().begin(buffers=True) as transaction:
            return stacked([self.view(transaction, position) for position in positions], self.sample)


def open_epochs(request):
    """Return what opens the epoch function over the environment."""
    return gathering(request, ByItem, ByBatch)
