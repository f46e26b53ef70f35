"""Numbered .npy files in a DataLoader: one file per item, read straight into the batch.

For float32 that must be in a file an item. `gather: batch` reads each file's data into its row of the batch, beyond a
header that is of one length in all of them; `gather: item` calls `numpy.load` for each item and lets torch collate, as
most published code does. Its time goes into opening files and copying memory. Set workers to the number of cores.
"""

import numpy as np
import torch

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import GATHER, STAGES, simplify
from scripts.loaders._plain.data_loader import Items, data_loader
from scripts.loaders._plain.numbered import Files

FORMAT = "npy"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


class ByItem(Items):
    """Numbered files item by item."""

    def item(self, position):
        return torch.from_numpy(np.load(self.data / f"{position:06d}.npy"))


def make_loader(data, key, shape, dtype, gather, **how):
    """Return a DataLoader over numbered .npy files."""
    if gather == "item":
        return data_loader(ByItem(data, key), **how)
    header_bytes = np.load(data / "000000.npy", mmap_mode="r").offset  # of one length in all files
    return data_loader(Files(data, key, shape, dtype, "npy", header_bytes), **how)
