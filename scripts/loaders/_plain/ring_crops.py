"""A ring of reused buffers over pieces of recordings, which threads read one by one."""

from functools import lru_cache

import numpy as np
import torch

from scripts.loaders._plain.crops import places_of
from scripts.loaders._plain.epochs import Epochs
from scripts.loaders._plain.labels import read_labels, rows_of
from scripts.loaders._ring.ring_reader import FetchingRing


def read(reader, pieces, following):
    """Return the batches of an epoch; as it ends, the following one is begun."""
    return reader.batches(pieces, then=following)


def over_pieces(connect, data, shape, seed, order, batch_size, **how):
    """Return a loader of pieces, each read by what `connect(room)` opens for a thread.

    A piece is one number, position * room + start.
    """
    labels, frames = read_labels(data), np.load(data / "frames.npy")
    room = int(frames.max()) + 1
    # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
    reader = FetchingRing(lambda: connect(room), len(frames) * room, shape, "float32", batch_size, **how)
    places = lru_cache(maxsize=2)(order or places_of(frames, shape[-1], seed))  # of an epoch and the one that follows

    def epoch(number):
        where = places(number)
        batches = read(reader, where @ [room, 1], places(number + 1) @ [room, 1])
        for start, batch in zip(range(0, len(where), batch_size), batches, strict=True):
            positions, starts = torch.from_numpy(where[start : start + batch_size]).unbind(1)
            yield {"audio": batch, "start": starts, **rows_of(labels, positions)}

    return Epochs(epoch, reader.close)
