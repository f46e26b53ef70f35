"""A ring of reused buffers (`ring_reader.py`, one file that stands alone) as a loader: batches with their labels."""

from functools import lru_cache

from scripts.loaders._plain.epochs import Epochs, shuffled
from scripts.loaders._ring.ring_reader import FetchingRing


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


def over_items(connect, labels, key, seed, order, *items, in_flight, prefetch, device, pin_memory, copies, at_once=1):
    """Return a loader of items that threads read one by one, each by what `connect()` opens for it.

    `items`: the shape and the type of one, and how many a batch has. A thread takes `at_once` of them at a time.
    """
    reader = FetchingRing(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
        connect,
        len(labels["target"]),
        *items,
        in_flight=in_flight,
        ahead=prefetch,
        device=device,
        pin=pin_memory,
        copies=copies,  # False: on a CPU a batch is valid until the next one is taken
        at_once=at_once,
    )
    return over_ring(reader, key, labels, seed, order)
