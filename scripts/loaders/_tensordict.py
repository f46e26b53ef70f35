"""What the loaders on tensordict share: the mapped split as a tensorclass, and what is indexed item by item.

Imports tensordict inside functions, since loaders are named where it is not installed.
"""

from collections.abc import Callable
from typing import Any

from scripts.common.request import LoaderRequest

# Of the programs: the split as a tensorclass, the data set around `items`, and a batch gathered of its `tensors`.
SPLIT_SNIPPET = """
import torch
from tensordict import TensorDict, tensorclass

$head


@tensorclass
class Split:
    $item: torch.Tensor
    target: torch.Tensor
    labels: torch.Tensor
    item: torch.Tensor  # its number


"""
ITEMS_SNIPPET = """
from torch.utils.data import Dataset


$empty_batch


class Items(Dataset):
    def __len__(self):
        return len(items)

"""
GATHER_SNIPPET = """\
    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where, $item = torch.tensor(positions), empty_batch(len(positions))
        rest = {name: torch.index_select(tensors[name], 0, where) for name in ("target", "labels", "item")}
        return {"$item": torch.index_select(tensors["$item"], 0, where, out=$item), **rest}
"""


class Items:
    """A data set of what `get` returns of a position: an item as a TensorDict or tensorclass."""

    def __init__(self, get: Callable[[int], Any]) -> None:
        self.get = get

    def __getitem__(self, position: int) -> dict[str, Any]:
        return dict(self.get(position).items())


def split_of(request: LoaderRequest, in_memory: bool = False) -> Any:
    """Return the split as a tensorclass of mapped files, or of copies of them in memory."""
    import torch
    from tensordict import TensorDict, tensorclass

    mapped = TensorDict.load_memmap(request.data, allow_pickle=False)
    tensors = dict.fromkeys((request.sample.key, "target", "labels", "item"), torch.Tensor)
    Split = tensorclass(type("Split", (), {"__annotations__": tensors}))
    return Split.from_tensordict(mapped.clone() if in_memory else mapped)
