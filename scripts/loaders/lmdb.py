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

import lmdb
import torch

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import GATHER, STAGES, simplify
from scripts.loaders._plain.data_loader import Batches, OpenedByEach, data_loader, stacked

FORMAT = "lmdb"
REQUIRES = ("torch", "lmdb", "numpy")
LIFETIME = "lasting"
OPTIONS = {**GATHER, "readahead": {"enum": [True, False], "default": True}}


class ByItem(OpenedByEach):
    """The environment item by item."""

    def __init__(self, data, key, shape, dtype, readahead):
        super().__init__(data, key)
        self.shape, self.dtype, self.readahead = shape, getattr(torch, dtype), readahead

    def open(self):
        warnings.filterwarnings("ignore", "The given buffer is not writable")  # nobody writes to it
        how = {"readonly": True, "lock": False, "readahead": self.readahead, "meminit": False}
        return lmdb.open(str(self.data / "items.mdb"), subdir=False, **how)

    def view(self, transaction, position):
        """Return an item of mapped memory, valid within the transaction."""
        value = transaction.get(position.to_bytes(8, "big"))
        return torch.frombuffer(value, dtype=self.dtype).view(self.shape)

    def item(self, position):
        with self.opened().begin(buffers=True) as transaction:
            return self.view(transaction, position).clone()


class ByBatch(Batches, ByItem):
    """The same in whole batches, each in one transaction."""

    def batch(self, positions):
        with self.opened().begin(buffers=True) as transaction:
            return stacked([self.view(transaction, position) for position in positions])


def make_loader(data, key, shape, dtype, gather, readahead, **how):
    """Return a DataLoader over the environment."""
    if gather == "item":
        return data_loader(ByItem(data, key, shape, dtype, readahead), **how)
    return data_loader(ByBatch(data, key, shape, dtype, readahead), **how)
