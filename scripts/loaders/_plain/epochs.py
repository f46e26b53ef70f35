"""A loader that is no DataLoader: it gives an epoch each time it is iterated."""

import numpy as np


class Epochs:
    """Gives an epoch each time it is iterated: `batches(number)`, which yields the batches of that epoch."""

    def __init__(self, batches, close=None):
        self.batches, self.close, self.number = batches, close, 0  # `close` ends what the loader has open

    def __iter__(self):
        self.number += 1
        return self.batches(self.number - 1)


def shuffled(items, seed):
    """Return a function from the number of an epoch to its order: int64 (items,), all positions."""
    return lambda epoch: np.random.default_rng([seed, epoch]).permutation(items)


def in_batches(order, batch_size):
    """Yield the positions of an epoch in slices of `batch_size`; the last one may be shorter."""
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
