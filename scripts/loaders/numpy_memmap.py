"""numpy.memmap in a DataLoader: one array of all items, mapped into memory, a batch gathered at a time.

`gather: batch` copies a batch at once (`__getitems__`), in a worker straight into shared memory; `gather: item` indexes
item by item and lets torch collate, as most published code does. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first. Without workers, on a CPU,
`reuse: true` gathers every batch of `gather: batch` in one buffer: it is valid until the next one is asked for.
"""

import warnings

import numpy as np
import torch

from scripts.loaders._declared import GATHER, REUSE, STAGES, lifetime, simplify_reuse
from scripts.loaders._plain.data_loader import Items, Tensors, data_loader, empty_like
from scripts.loaders._plain.labels import read_labels

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = GATHER | REUSE
LIFETIME = lifetime
simplify = simplify_reuse


class ByItem(Items):
    """The mapped array item by item."""

    def __init__(self, data, key):
        super().__init__(data, key)
        # a plain array, of which items are taken much faster than of a numpy.memmap
        self.array = np.load(data / f"{key}.npy", mmap_mode="r").view(np.ndarray)

    def item(self, position):
        return torch.from_numpy(self.array[position].copy())


def make_loader(data, key, gather, reuse, batch_size, **how):
    """Return a DataLoader over the mapped array, (items, ...)."""
    if gather == "item":
        return data_loader(ByItem(data, key), batch_size=batch_size, **how)
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
    items = torch.from_numpy(np.load(data / f"{key}.npy", mmap_mode="r").view(np.ndarray))
    buffer = empty_like(items, batch_size) if reuse else None
    return data_loader(Tensors({key: items, **read_labels(data)}, key, buffer), batch_size=batch_size, **how)
