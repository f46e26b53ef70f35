"""numpy.memmap in a DataLoader: one array of all items, mapped into memory, a batch gathered at a time.

`gather: batch` copies a batch at once (`__getitems__`), in a worker straight into shared memory; `gather: item` indexes
item by item and lets torch collate, as most published code does. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first. Without workers, on a CPU,
`reuse: true` gathers every batch of `gather: batch` in one buffer: it is valid until the next one is asked for.
"""

import warnings

from scripts.loaders._torch import (
    GATHER,
    REUSE,
    STAGES,  # noqa: F401
    Items,
    Tensors,
    gathering,
    lifetime,
    reused,
    simplify_reuse,
    with_labels,
)

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = GATHER | REUSE
LIFETIME = lifetime
simplify = simplify_reuse
SNIPPET = """

$head
$labels
$when gather=batch
import warnings

warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
items = torch.from_numpy(np.load(data / "$item.npy", mmap_mode="r"))  # $dtype (items, *shape)
$when gather=item
# a plain array, of which items are taken much faster than of a numpy.memmap
items = np.load(data / "$item.npy", mmap_mode="r").view(np.ndarray)  # $dtype (items, *shape)
$end


$reused_batch


$items_class

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where = torch.tensor(positions)
        $item = torch.index_select(items, 0, where, out=empty_batch(len(positions)))
        return {"$item": $item, "target": target[where], "labels": labels[where]}
    $when gather=item
    def __getitem__(self, position):
        $item = torch.from_numpy(items[position].copy())
        return {"$item": $item, "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""


class ByItem(Items):
    """The mapped array item by item."""

    def __init__(self, request):
        super().__init__(request)
        self.array = mapped(request)

    def item(self, position):
        """Return an item."""
        import torch

        return torch.from_numpy(self.array[position].copy())


def mapped(request):
    """Return the array, (items, ...): plain, of which items are taken faster than of a numpy.memmap."""
    import numpy as np

    return np.load(request.array, mmap_mode="r", allow_pickle=False).view(np.ndarray)


def by_batch(request):
    """Return the data set of whole batches, gathered by torch, on all its threads: numpy's fancy index has one."""
    import torch

    with warnings.catch_warnings(action="ignore"):  # torch warns of what cannot be written
        return Tensors(with_labels(request, torch.from_numpy(mapped(request))), request.sample, reused(request))


def open_epochs(request):
    """Return what opens the epoch function over the mapped array."""
    return gathering(request, ByItem, by_batch)
