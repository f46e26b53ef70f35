"""A ring of reused buffers (`ring_reader.py`, one file that stands alone) as a loader: batches with their labels."""

from functools import lru_cache

from scripts.loaders._plain.epochs import Epochs, shuffled


def read(reader, labels, order, following):
    """Return the batches of an epoch, each with its rows of the labels; as it ends, the following one is begun."""
    return reader.batches(order, *labels, then=following)


def over_ring(reader, key, labels, seed, order=None):
    """Return a loader of the batches of a ring with their labels, tensors of all items by name."""
    order_of = lru_cache(maxsize=2)(order or shuffled(len(reader), seed))  # of an epoch and the one that follows it

    def named(batch):
        return dict(zip((key, *labels), batch, strict=True))

    def epoch(number):
        return map(named, read(reader, labels.values(), order_of(number), order_of(number + 1)))

    return Epochs(epoch, reader.close)
