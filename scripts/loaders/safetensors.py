"""safetensors in a DataLoader: one mapped tensor of all items, a batch gathered at a time.

The format in which models are shared, used for data. `gather: batch` takes the whole tensor, which the library maps
and does not read, and copies a batch of it at once, in a worker straight into shared memory; `gather: item` asks the
file for slice after slice, as its guide has it for a part of a tensor, and lets torch collate. Its time goes into
copying memory. Workers need new shared memory for each batch: try `workers: [0]` first.
"""

from safetensors import safe_open

from scripts.loaders._declared import GATHER, SETTINGS, STAGES, simplify
from scripts.loaders._plain.data_loader import Items, Tensors, data_loader
from scripts.loaders._plain.labels import read_labels

FORMAT = "safetensors"
REQUIRES = ("torch", "safetensors", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


class ByItem(Items):
    """The file item by item."""

    def __init__(self, data, key, file):
        super().__init__(data, key)
        self.slices = file.get_slice(key)

    def item(self, position):
        return self.slices[position]


def make_loader(data, key, gather, **how):
    """Return a DataLoader over the mapped file."""
    file = safe_open(data / "items.safetensors", "pt")
    if gather == "item":
        return data_loader(ByItem(data, key, file), **how)
    return data_loader(Tensors({key: file.get_tensor(key), **read_labels(data)}, key), **how)
