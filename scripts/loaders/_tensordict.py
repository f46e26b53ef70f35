"""What the loaders on tensordict share: the mapped split as a tensorclass, and what is indexed item by item.

Imports tensordict inside functions, since loaders are named where it is not installed.
"""

from collections.abc import Callable
from typing import Any

from scripts.common.request import LoaderRequest


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
