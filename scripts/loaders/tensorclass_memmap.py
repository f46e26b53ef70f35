"""A memory-mapped tensorclass in a DataLoader: tensordict's files, a batch gathered at a time.

What tensordict's tutorials do with data that does not fit: files mapped by `load_memmap`. `gather: batch` gathers each
of its tensors at once (`__getitems__`), in a worker straight into shared memory: indexing the tensorclass itself is
slower; `gather: item` indexes item by item and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

from tensordict import TensorDict

from scripts.loaders._declared import GATHER, SETTINGS, STAGES, simplify
from scripts.loaders._plain.data_loader import Tensors, data_loader
from scripts.loaders._plain.labels import columns_of
from scripts.loaders._plain.tensordicts import ByItem, split_of

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


def make_loader(data, key, gather, **how):
    """Return a DataLoader over the mapped tensorclass."""
    split = split_of(TensorDict.load_memmap(data, allow_pickle=False))  # mapped, not read
    if gather == "item":
        return data_loader(ByItem(split.__getitem__, len(split), key), **how)
    return data_loader(Tensors(columns_of(split, key), key), **how)
