"""A tensorclass of the whole split in RAM, in a DataLoader: a batch gathered at a time (tensordict).

For data sets that fit and code that is written against tensorclasses. Opening it reads the split. Its time goes into
copying memory. It has no worker processes, which would copy each batch twice more.
"""

from tensordict import TensorDict

from scripts.common.request import too_large
from scripts.loaders._plain.data_loader import Tensors, data_loader
from scripts.loaders._plain.labels import columns_of
from scripts.loaders._plain.tensordicts import split_of

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
LIFETIME = "lasting"
SETTINGS = ("pin_memory",)
STAGES = ("read",)
PRELOADS = True


def unsuited(request):
    """Return a reason where the split takes more than half of the RAM that is free, else None."""
    from scripts.machine.devices import available_ram

    return too_large(request, available_ram(), "RAM")


def make_loader(data, key, batch_size, pin_memory, seed):
    """Return a DataLoader over the split, which is read before."""
    split = split_of(TensorDict.load_memmap(data, allow_pickle=False).clone())
    tensors = columns_of(split, key)  # gathered one by one: indexing the tensorclass itself is slower
    return data_loader(Tensors(tensors, key), seed, batch_size=batch_size, pin_memory=pin_memory)
