"""A memory-mapped tensorclass in a DataLoader: tensordict's files, a batch gathered at a time.

What tensordict's tutorials do with data that does not fit: files mapped by `load_memmap`. `gather: batch` gathers each
of its tensors at once (`__getitems__`), in a worker straight into shared memory: indexing the tensorclass itself is
slower; `gather: item` indexes item by item and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

from contextlib import contextmanager

from scripts.loaders._tensordict import Items, split_of
from scripts.loaders._torch import GATHER, STAGES, Tensors, epochs_of, simplify  # noqa: F401

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
LIFETIME = "lasting"
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = GATHER
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


items = Split.from_tensordict(TensorDict.load_memmap(data, allow_pickle=False))  # mapped, not read
$when gather=batch
tensors = dict(items.items())  # gathered one by one: indexing the tensorclass itself is slower
$end


$empty_batch


class Items(Dataset):
    def __len__(self):
        return len(items)

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where, $item = torch.tensor(positions), empty_batch(len(positions))
        rest = {name: torch.index_select(tensors[name], 0, where) for name in ("target", "labels", "item")}
        return {"$item": torch.index_select(tensors["$item"], 0, where, out=$item), **rest}
    $when gather=item
    def __getitem__(self, position):
        return dict(items[position].items())
    $end


$by_data_loader
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the mapped tensorclass."""
    items = split_of(request)
    dataset = (
        Tensors(dict(items.items()), request.sample)
        if request.options["gather"] == "batch"
        else Items(items.__getitem__)
    )
    with epochs_of(request, dataset) as epoch:
        yield epoch
