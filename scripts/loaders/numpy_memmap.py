"""numpy.memmap in a DataLoader: one array of all clips, mapped into memory, a batch gathered at a time.

`gather: batch` copies a batch at once (`__getitems__`), in a worker straight into shared memory; `gather: clip` indexes
clip by clip and lets torch collate, as most published code does. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

import warnings
from contextlib import contextmanager

from scripts.loaders._torch import STAGES, epochs_of, gathered, simplify  # noqa: F401

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
samples = $samples  # of a clip
warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
clips = torch.from_numpy(np.load(data / "audio.npy", mmap_mode="r"))  # float32 (clips, 1, samples)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


$empty_batch


class Clips(Dataset):
    def __len__(self):
        return len(clips)

    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where = torch.tensor(positions)
        audio = torch.index_select(clips, 0, where, out=empty_batch(len(positions)))
        return {"audio": audio, "target": target[where], "labels": labels[where]}


loader = DataLoader(
    Clips(),
    batch_size=$batch_size,
    shuffle=True,
    generator=torch.Generator().manual_seed($seed),
    collate_fn=lambda batch: batch,  # it is gathered already
    $worker_arguments
)

for batch in loader:  # an epoch, each time in another order
    batch = {name: tensor.to($device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
""",
    "clip": """
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
# a plain array, of which clips are taken much faster than of a numpy.memmap
clips = np.load(data / "audio.npy", mmap_mode="r").view(np.ndarray)  # float32 (clips, 1, samples)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


class Clips(Dataset):
    def __len__(self):
        return len(clips)

    def __getitem__(self, position):
        audio = torch.from_numpy(clips[position].copy())
        return {"audio": audio, "target": target[position], "labels": labels[position]}


loader = DataLoader(
    Clips(),
    batch_size=$batch_size,
    shuffle=True,
    generator=torch.Generator().manual_seed($seed),
    $worker_arguments
)

for batch in loader:  # an epoch, each time in another order
    batch = {name: tensor.to($device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
""",
}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the mapped array."""
    import numpy as np
    import torch

    from scripts.common.labels import read_labels

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
