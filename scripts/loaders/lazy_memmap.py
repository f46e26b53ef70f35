"""TorchRL LazyMemmapStorage in a DataLoader: a TensorDict of memory-mapped tensors, a batch gathered at a time.

`gather: batch` gathers each of its tensors once a batch (`__getitems__`), in a worker straight into shared memory: the
storage's own indexing is slower; `gather: item` asks the storage item by item, and stacks. Its time goes into copying
memory. Workers need new shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
Without workers, on a CPU, `reuse: true` gathers every batch of `gather: batch` in one buffer: it is valid until the
next one is asked for.
"""

import json

from torchrl.data import LazyMemmapStorage

from scripts.loaders._declared import GATHER, REUSE, SETTINGS, STAGES, lifetime, simplify_reuse
from scripts.loaders._plain.data_loader import Tensors, data_loader, empty_like
from scripts.loaders._plain.labels import columns_of
from scripts.loaders._plain.tensordicts import ByItem

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "torchrl", "numpy")
OPTIONS = GATHER | REUSE
LIFETIME = lifetime
simplify = simplify_reuse


def make_loader(data, key, gather, reuse, batch_size, **how):
    """Return a DataLoader over the storage."""
    items = json.loads((data / "storage_metadata.json").read_text())["len"]
    # scratch_dir must be the folder itself: elsewhere `loads` would copy every byte there
    storage = LazyMemmapStorage(items, scratch_dir=data, existsok=True, auto_cleanup=False)
    storage.loads(data)
    if gather == "item":
        return data_loader(ByItem(storage.get, items, key), batch_size=batch_size, **how)
    tensors = columns_of(storage.get(slice(0, items)), key)  # views of the mapped files
    buffer = empty_like(tensors[key], batch_size) if reuse else None
    return data_loader(Tensors(tensors, key, buffer), batch_size=batch_size, **how)
