"""A tensorclass of the whole split in RAM, in a DataLoader: a batch gathered at a time (tensordict).

For data sets that fit and code that is written against tensorclasses. Opening it reads the split. Its time goes into
copying memory. It has no worker processes, which would copy each batch twice more.
"""

from dataclasses import replace

from scripts.common.request import too_large
from scripts.loaders._tensordict import GATHER_SNIPPET, ITEMS_SNIPPET, SPLIT_SNIPPET, split_of
from scripts.loaders._torch import Tensors, epochs_of

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
LIFETIME = "lasting"
SETTINGS = ("pin_memory",)
STAGES = ("read",)
PRELOADS = True
SNIPPET = (
    SPLIT_SNIPPET
    + """\
items = Split.from_tensordict(TensorDict.load_memmap(data, allow_pickle=False).clone())  # all in RAM
tensors = dict(items.items())  # gathered one by one: indexing the tensorclass itself is slower
"""
    + ITEMS_SNIPPET
    + GATHER_SNIPPET
    + "\n\n$by_data_loader\n"
)


def unsuited(request):
    """Return a reason where the split takes more than half of the RAM that is free, else None."""
    from scripts.machine.devices import available_ram

    return too_large(request, available_ram(), "RAM")


def open_epochs(request):
    """Return what opens the epoch function over the split, which is read before."""
    items = split_of(request, in_memory=True)
    return epochs_of(replace(request, workers=0), Tensors(dict(items.items()), request.sample))
