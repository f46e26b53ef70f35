"""Batches of a type that nobody knows, without optimizer steps."""

import time

from torch.utils.data import DataLoader
from work import Items


class Strange:
    """Holds nothing that can be read."""

    __slots__ = ()


if __name__ == "__main__":
    for _ in DataLoader(Items(), batch_size=8, collate_fn=lambda _: Strange()):
        time.sleep(0.008)
