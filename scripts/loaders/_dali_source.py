"""What takes the place of parts of DALI's parallel external source, in its processes, which import this file."""

from typing import Any

import numpy as np


class Unread:
    """Gives an item of each process's own memory in place of all that are to be read."""

    def __init__(self, item: np.ndarray) -> None:
        self.item = item

    def __call__(self, _items: np.ndarray, where: np.ndarray) -> list[np.ndarray]:
        return [self.item] * len(where)


class Unsent:
    """Gathers the items of a source's batches in the process, unless reading is left out too; sends a byte of each."""

    gathered: np.ndarray | None = None

    def __init__(self, source: Any) -> None:
        self.source = source

    def __call__(self, info: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return uint8 (batch, 1) in place of the items, and their positions."""
        items, where = self.source(info)
        if not isinstance(self.source.read, Unread):
            if self.gathered is None:
                self.gathered = np.empty((self.source.batch_size, *items[0].shape), items[0].dtype)
            np.stack(items, out=self.gathered[: len(items)])
        return np.zeros((len(where), 1), np.uint8), where
