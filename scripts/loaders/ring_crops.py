"""Our own ring of reused buffers, into which threads copy pieces of one mapped array of all recordings.

For those who may keep their recordings decoded, one after another: no worker process, no fresh memory, no copy of a
batch. `workers` are threads, each of which converts a piece at a time from 16 bits. On a CPU a batch is valid until the
next one is taken; `copies: true` gives each memory of its own.
"""

import numpy as np

from scripts.loaders._declared import SETTINGS, simplify_threads as simplify
from scripts.loaders._plain.ring_crops import over_pieces
from scripts.loaders._ring.plan import COPIES, lifetime
from scripts.loaders._ring.unread import without_pieces as without_read

FORMAT = "flat"
PIECE = "sought"
REQUIRES = ("torch", "numpy")
LIFETIME = lifetime
STAGES = ("read",)
OPTIONS = COPIES
SCALE = 1 / 32768  # a power of two: the product is exact


class Flat:
    """Copies pieces of an array int16 (samples, channels), in a thread of the ring."""

    def __init__(self, audio, offsets, room):
        self.audio, self.offsets, self.room = audio, offsets, room

    def read_into(self, piece, row):
        position, start = divmod(piece, self.room)
        first, end = self.offsets[position] + start, self.offsets[position + 1]
        part = self.audio[first : min(first + row.shape[1], end)]
        np.multiply(part.T, np.float32(SCALE), out=row[:, : len(part)])
        row[:, len(part) :] = 0

    def close(self):
        """Do nothing: the array is everybody's."""


def make_loader(data, shape, batch_size, workers, prefetch, device, pin_memory, copies, seed, order=None):
    """Return a loader over pieces of a mapped array."""
    audio, offsets = np.load(data / "audio.npy", mmap_mode="r"), np.load(data / "offsets.npy")
    return over_pieces(
        lambda room: Flat(audio, offsets, room),
        data,
        shape,
        seed,
        order,
        batch_size,
        in_flight=workers,
        ahead=prefetch,
        device=device,
        pin=pin_memory,
        copies=copies,
        at_once=4,
    )
