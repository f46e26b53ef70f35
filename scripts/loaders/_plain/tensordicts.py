"""Items of tensordict's files, in which their labels are too."""

import torch
from tensordict import tensorclass
from torch.utils.data import Dataset

from scripts.loaders._plain.labels import columns_of


def split_of(mapped):
    """Return a TensorDict of tensors of all items as a tensorclass."""
    Split = tensorclass(type("Split", (), {"__annotations__": dict.fromkeys(mapped.keys(), torch.Tensor)}))
    return Split.from_tensordict(mapped)


class ByItem(Dataset):
    """Numbered items that `get` returns, each a TensorDict or a tensorclass."""

    def __init__(self, get, items, key):
        self.get, self.items, self.key = get, items, key

    def __len__(self):
        return self.items

    def __getitem__(self, position):
        return columns_of(self.get(position), self.key)
