"""int16 numpy.memmap in a DataLoader: half the bytes are read and sent, float32 is made where the batch is used.

For storage, memory or a bus that is too slow for float32: an item takes half of each. Its time goes into copying
memory, as that of `numpy_memmap`. Without workers, on a CPU, one pass reads the mapped items and writes float32.
Workers send int16, since shared memory costs more than converting does; on a GPU the batch is converted after its copy.
Try `workers: [0]` first. There `reuse: true` converts every batch into one buffer: it is valid until the next one is
asked for.
"""

import warnings
from functools import cache

import numpy as np
import torch

from scripts.loaders._declared import DECODING as STAGES, REUSE, SETTINGS, lifetime, simplify_reuse
from scripts.loaders._plain.data_loader import Batches, Tensors, data_loader, empty_batch
from scripts.loaders._plain.labels import read_labels

FORMAT = "int16"
REQUIRES = ("torch", "numpy")
OPTIONS = REUSE
LIFETIME = lifetime
UNCOPIED = {"device": "cuda"}  # without workers `make_loader` would else convert on the CPU
simplify = simplify_reuse
SCALE = 1 / 32768  # a power of two: the product is exact


class Converted(Batches):
    """The mapped array in whole batches, converted as it is gathered: in `buffer`, where there is one."""

    def __init__(self, data, pcm, buffer):
        super().__init__(data, "audio")
        self.pcm, self.buffer = pcm, buffer

    def batch(self, positions):
        batch = self.buffer
        if batch is None:
            batch = empty_batch(len(positions), self.pcm.shape[1:], "float32")
        return decode_by_item([self.pcm[position] for position in positions], batch[: len(positions)])


def decode_by_item(items, batch):
    """Return the batch, into which int16 arrays are written as float32."""
    for item, row in zip(items, batch.numpy(), strict=True):
        np.multiply(item, np.float32(SCALE), out=row)
    return batch


def decode(pcm):
    """Return an int16 tensor as float32, where it is."""
    if pcm.is_cuda:
        return pcm * SCALE
    return torch.from_numpy(np.multiply(pcm.numpy(), np.float32(SCALE)))  # large arrays of numpy's are in huge pages


def on_arrival(batch):
    """Return a batch of float32: what was gathered as int16 is converted where it is used."""
    return {**batch, "audio": decode(batch["audio"])} if batch["audio"].dtype == torch.int16 else batch


def make_loader(data, shape, reuse, device, workers, batch_size, **how):
    """Return a DataLoader over the mapped array, int16 (items, 1, samples)."""
    pcm = np.load(data / "audio.npy", mmap_mode="r").view(np.ndarray)
    if workers or device != "cpu":
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
        tensors = {"audio": torch.from_numpy(pcm), **read_labels(data)}
        return data_loader(Tensors(tensors, "audio"), batch_size=batch_size, **how)
    buffer = empty_batch(batch_size, shape, "float32") if reuse else None
    return data_loader(Converted(data, pcm, buffer), batch_size=batch_size, **how)


def without_decode(_decode, request):
    """Return a function that gathers int16, where that is not done yet, and gives silence."""
    silence = cache(lambda: torch.zeros((request.batch_size, *request.sample.shape), device=request.device))

    def skipped(pcm, *_batch):
        if isinstance(pcm, list):
            np.stack(pcm)
        return silence()[: len(pcm)]

    return skipped
