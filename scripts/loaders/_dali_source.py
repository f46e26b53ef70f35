"""What the worker processes of DALI's parallel external source run: each call gives one batch of a memory map.

A module of its own: DALI starts the workers again (spawn), and they import it by its name.
"""

from typing import Any

import numpy as np

from scripts.common.request import LoaderRequest, epoch_order


class Batches:
    """Gives any batch of any epoch, as several processes are asked for several at once.

    The stages `read` and `transfer` are left out here: without reading, each process gives one item of its own memory
    ever after; without transfer, it gathers the items and sends their positions alone.
    """

    def __init__(self, request: LoaderRequest) -> None:
        self.request = request
        self.items: np.ndarray | None = None  # (n, ...), mapped by each process for itself
        self.gathered: np.ndarray | None = None
        self.epoch = -1
        self.order: np.ndarray | None = None  # of that epoch

    def __call__(self, info: Any) -> Any:
        """Return ([an item, ...], int64 (batch, 1) positions) of the batch that `info` (BatchInfo) names.

        The items are views of the map: DALI copies them into the shared memory, and nothing else does. Raises
        StopIteration behind the last batch of an epoch.
        """
        if info.epoch_idx != self.epoch:
            self.epoch, self.order = info.epoch_idx, epoch_order(self.request, info.epoch_idx)
        start = info.iteration * self.request.batch_size
        positions = self.order[start : start + self.request.batch_size]
        if not len(positions):
            raise StopIteration
        where = np.ascontiguousarray(positions)[:, None]
        if "transfer" in self.request.without:
            self._gather(positions)
            return (where,)
        return self._views(positions), where

    def _views(self, positions: np.ndarray) -> list[np.ndarray]:
        if self.items is None:
            path = self.request.array
            # a plain array, of which views are made much faster than of a numpy.memmap
            self.items = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
            if "read" in self.request.without:
                self.items = self.items[:1].copy()
        if "read" in self.request.without:
            return [self.items[0]] * len(positions)
        return [self.items[position] for position in positions]

    def _gather(self, positions: np.ndarray) -> None:
        """Copy the items into memory of this process, unless reading is left out too."""
        if "read" in self.request.without:
            return
        if self.gathered is None:
            sample = self.request.sample
            self.gathered = np.empty((self.request.batch_size, *sample.shape), sample.dtype)
        np.stack(self._views(positions), out=self.gathered[: len(positions)])
