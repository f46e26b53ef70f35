"""Pieces of WAV files: each is opened, sought in and read; it costs the same whatever the recording's length."""

import numpy as np
import soundfile

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import simplify
from scripts.loaders._plain.crops import Crops, crop_loader

FORMAT = "recordings"
REQUIRES = ("torch", "soundfile", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "transfer")


class Files(Crops):
    """Pieces of numbered files."""

    def read(self, position, start, row):
        found, _ = soundfile.read(
            f"{self.data}/{position:06d}.wav", row.shape[1], start, dtype="float32", always_2d=True
        )
        row[:, : len(found)] = found.T
        row[:, len(found) :] = 0


def make_loader(data, shape, seed, **how):
    """Return a DataLoader over pieces of numbered files."""
    return crop_loader(Files(data, shape), seed, **how)
