"""A tensorclass of the whole split in RAM, in a DataLoader: a batch gathered at a time (tensordict).

For data sets that fit and code that is written against tensorclasses. Opening it reads the split. Its time goes into
copying memory. It has no worker processes, which would copy each batch twice more.
"""

from contextlib import contextmanager
from dataclasses import replace

from scripts.common.request import too_large
from scripts.loaders._tensordict import split_of
from scripts.loaders._torch import Tensors, epochs_of

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
LIFETIME = "lasting"
SETTINGS = ("pin_memory",)
STAGES = ("read",)
PRELOADS = True
SNIPPET = """
import torch
from tensordict import TensorDict, tensorclass
from torch.utils.data import Dataset

$head


@tensorclass
class Split:
    $item: torch.Tensor
    target: torch.Tensor
    labels: torch.Tensor
    item: torch.Tensor  # its number


items = Split.from_tensordict(TensorDict.load_memmap(data, allow_pickle=False).clone())  # all in RAM
tensors = dict(items.items())  # gathered one by one: indexing the tensorclass itself is slower


$empty_batch


class Items(Dataset):
    def __len__(self):
        return len(items)

    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where, $item = torch.tensor(positions), empty_batch(len(positions))
        rest = {name: torch.index_select(tensors[name], 0, where) for name in ("target", "labels", "item")}
        return {"$item": torch.index_select(tensors["$item"], 0, where, out=$item), **rest}


$by_data_loader
"""


def unsuited(request):
    """Return a reason where the split takes more than half of the RAM that is free, else None."""
    from scripts.machine.devices import available_ram

    return too_large(request, available_ram(), "RAM")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the split, which is read before."""
    items = split_of(request, in_memory=True)
    with epochs_of(replace(request, workers=0), Tensors(dict(items.items()), request.sample)) as epoch:
        yield epoch
