"""What the processes of DALI's parallel external source run: they import this file, and no torch with it."""

import numpy as np


def mapped(path):
    """Return the mapped array: a plain one, of which views are made much faster than of a numpy.memmap."""
    return np.load(path, mmap_mode="r").view(np.ndarray)


def read(items, where):
    """Return views of the items at these positions: DALI copies them, and nothing else does."""
    return [items[position] for position in where]


class Batches:
    """Gives any batch of any epoch, as several processes are asked for several at once."""

    items = epoch = positions = None

    def __init__(self, path, read, order, batch_size):
        self.path, self.read, self.order, self.batch_size = path, read, order, batch_size

    def __call__(self, info):
        if self.items is None:  # mapped by each process for itself
            self.items = mapped(self.path)
        if info.epoch_idx != self.epoch:
            self.epoch, self.positions = info.epoch_idx, self.order(info.epoch_idx)
        where = self.positions[info.iteration * self.batch_size :][: self.batch_size]
        if not len(where):
            raise StopIteration
        return self.read(self.items, where), np.ascontiguousarray(where)[:, None]
