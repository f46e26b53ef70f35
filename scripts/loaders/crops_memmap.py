"""Pieces of one mapped array of all recordings: a slice of 16-bit samples each, scaled into the batch; no decoding.

What a recording costs is the pages of the piece alone. It takes the room of decoded audio, ten times that of MP3: where
memory or disk cannot hold that, an encoded format is what remains.
"""

import numpy as np

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import simplify
from scripts.loaders._plain.crops import Crops, crop_loader

FORMAT = "flat"
PIECE = "sought"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "transfer")
SCALE = 1 / 32768  # a power of two: the product is exact


class Flat(Crops):
    """Pieces of recordings that lie one after another in an array int16 (samples, channels)."""

    def __init__(self, data, shape):
        super().__init__(data, shape)
        self.audio = np.load(data / "audio.npy", mmap_mode="r")
        self.offsets = np.load(data / "offsets.npy")

    def read(self, position, start, row):
        first, end = self.offsets[position] + start, self.offsets[position + 1]
        part = self.audio[first : min(first + row.shape[1], end)]
        np.multiply(part.T, np.float32(SCALE), out=row[:, : len(part)])
        row[:, len(part) :] = 0


def make_loader(data, shape, seed, **how):
    """Return a DataLoader over pieces of a mapped array."""
    return crop_loader(Flat(data, shape), seed, **how)
