"""soundfile in a DataLoader: WAV files decoded by libsndfile straight into the batch.

The fast way to read plain WAV in Python. Its time goes into opening and decoding a file for each item: set workers to
the number of cores. It asks libsndfile for int16 and scales by 1/32768 while copying into the batch's row: the same
bits as `dtype="float32"`, in less time.
"""

import numpy as np
import soundfile

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import DECODING as STAGES, simplify
from scripts.loaders._plain.data_loader import Batches, data_loader, empty_batch

FORMAT = "wav"
REQUIRES = ("torch", "soundfile", "numpy")
LIFETIME = "lasting"
SCALE = 1 / 32768  # a power of two: the product is exact


def decode(path, pcm, row):
    """Decode a file into its row of the batch, float32 (1, samples), by way of `pcm`, int16 (samples,)."""
    found, _ = soundfile.read(path, out=pcm)  # of a longer file the beginning, of a shorter one all
    np.multiply(found, np.float32(SCALE), out=row[0, : len(found)])
    row[0, len(found) :] = 0


class Files(Batches):
    """Numbered WAV files, each decoded into its row of the batch."""

    def __init__(self, data, shape):
        super().__init__(data, "audio")
        self.shape = shape

    def path_of(self, position):
        return self.data / f"{position:06d}.wav"

    def batch(self, positions):
        batch, pcm = empty_batch(len(positions), self.shape, "float32"), np.empty(self.shape[-1], np.int16)
        for position, row in zip(positions, batch.numpy(), strict=True):
            decode(self.path_of(position), pcm, row)
        return batch


def make_loader(data, shape, **how):
    """Return a DataLoader over numbered WAV files."""
    return data_loader(Files(data, shape), **how)
