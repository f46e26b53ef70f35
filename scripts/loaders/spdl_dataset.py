"""SPDL around an existing Dataset: its items made in threads, then collated, as SPDL's migration guide begins.

For those who have a map-style Dataset that threads may share and whose reading releases Python's lock (here soundfile,
one WAV file an item), and who change nothing but the DataLoader around it. Its time goes into decoding, into SPDL's
bookkeeping for each item, and into collating, which one thread does for all; the guide itself goes on from here to
batches without copies, as `spdl` has them. `workers` are threads: set as many as there are cores. The pipeline runs on
from one epoch into the next.
"""

import numpy as np
import soundfile
import torch

from scripts.loaders._plain.data_loader import Items
from scripts.loaders._plain.spdl import by_item, collate_of
from scripts.loaders._spdl import SETTINGS, simplify

FORMAT = "wav"
REQUIRES = ("torch", "spdl", "soundfile", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")


def decode(path, row):
    """Write a file's samples into a row, float32 (samples,): padded with zeros, or cut."""
    soundfile.read(path, dtype="float32", out=row, fill_value=0)


class Files(Items):
    """Numbered WAV files."""

    def __init__(self, data, key, samples):
        super().__init__(data, key)
        self.samples = samples

    def item(self, position):
        audio = np.empty(self.samples, np.float32)
        decode(self.data / f"{position:06d}.wav", audio)
        return torch.from_numpy(audio)[None]


def make_loader(data, key, shape, batch_size, workers, prefetch, pin_memory, seed, order=None):
    """Return a loader of numbered WAV files."""
    files = Files(data, key, shape[-1])
    return by_item(files, collate_of(pin_memory), batch_size, workers, prefetch, seed, order)
