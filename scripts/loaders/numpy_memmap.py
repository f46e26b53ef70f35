"""numpy.memmap in a DataLoader: one array of all clips, mapped into memory, a batch gathered at a time.

`gather: batch` copies a batch by one fancy index (`__getitems__`); `gather: clip` indexes clip by clip and lets torch
collate, as most published code does. Its time goes into copying memory. Worker processes copy each batch once
more, through shared memory: try `workers: [0]` first.
"""

from contextlib import contextmanager

from torch_dataloader import STAGES, epochs_of, simplify  # noqa: F401

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
    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    def read(where):
        rows = audio[where] if isinstance(where, list) else audio[where].copy()  # a list of positions copies by itself
        audios = torch.from_numpy(rows)
        return {"audio": audios, "target": target[where], "labels": labels[where], "clip": clip[where]}

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return read(position)

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return read(positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
