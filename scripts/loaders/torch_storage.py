"""A tensor on a file-backed torch storage in a DataLoader: `torch.from_file`, a batch gathered at a time.

What numpy.memmap is to NumPy, without NumPy in the path of the data. `gather: batch` copies a batch by one
`index_select` (`__getitems__`), on torch's threads in the process of the training, in a worker straight into shared
memory; `gather: item` takes item by item and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.

The file is mapped private, so that nothing can write to it. The kernel refuses to map a file so that is larger than RAM
and swap, unless vm.overcommit_memory is 1.
"""

import numpy as np
import torch

from scripts.loaders._declared import GATHER, SETTINGS, STAGES, simplify
from scripts.loaders._plain.data_loader import Rows, Tensors, data_loader
from scripts.loaders._plain.labels import read_labels

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


def make_loader(data, key, dtype, gather, **how):
    """Return a DataLoader over the mapped tensor, (items, ...)."""
    header = np.load(data / f"{key}.npy", mmap_mode="r")  # says where its rows begin: a multiple of 64 bytes
    skipped = header.offset // header.itemsize
    size = skipped + header.size
    mapped = torch.from_file(str(data / f"{key}.npy"), shared=False, size=size, dtype=getattr(torch, dtype))
    tensors = {key: mapped[skipped:].view(header.shape), **read_labels(data)}
    if gather == "item":
        return data_loader(Rows(tensors), **how)
    return data_loader(Tensors(tensors, key), **how)
