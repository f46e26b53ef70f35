"""numpy.memmap in a DataLoader: one array of all clips, mapped into memory, a batch gathered at a time.

`gather: batch` copies a batch at once (`__getitems__`), in a worker straight into shared memory; `gather: clip` indexes
clip by clip and lets torch collate, as most published code does. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

import warnings
from contextlib import contextmanager

from torch_dataloader import STAGES, epochs_of, gathered, simplify  # noqa: F401

FORMAT = "memmap"
ENV = "torch"
REQUIRES = ("torch", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the mapped array."""
    import numpy as np
    import torch

    from labels import read_labels

    audio = np.load(request.data / "audio.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)
    with warnings.catch_warnings(action="ignore"):  # torch warns of what cannot be written
        rows = torch.from_numpy(audio)
    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    tensors = {"audio": rows, "target": target, "labels": labels, "clip": clip}

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return {
                "audio": torch.from_numpy(audio[position].copy()),
                "target": target[position],
                "labels": labels[position],
                "clip": clip[position],
            }

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):  # gathered by torch, on all its threads: numpy's fancy index has one
            return gathered(tensors, positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
