"""HDF5 by h5py in a DataLoader: one file, each clip a chunk, read straight into its row of the batch.

`gather: batch` reads each chunk by `read_direct_chunk` into the batch's memory: one read of the file, and no copy by
HDF5's chunk cache or its selections. An index of many clips at once must be sorted in h5py, and is slower than a loop.
`gather: clip` indexes the data set clip by clip and lets torch collate, as most published code does. Its time goes
into reading, one clip at a time, since HDF5 has one lock for all threads: set workers to the number of cores.

Each process opens the file itself: HDF5 keeps state beside the descriptor, which a fork would copy half used. Locking
is off: readers need none, and on many network file systems and read-only media taking the lock is an error.
"""

import os
from contextlib import contextmanager

from scripts.loaders._torch import STAGES, empty_batch, epochs_of, simplify  # noqa: F401

FORMAT = "hdf5"
REQUIRES = ("torch", "h5py", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
from pathlib import Path

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
samples = $samples  # of a clip
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


$empty_batch


class Clips(Dataset):
    file = None

    def __len__(self):
        return len(target)

    def __getitems__(self, positions):  # a batch at once: each chunk, a clip, straight into its row
        if self.file is None:  # each process opens the file itself: HDF5 cannot be used across a fork
            self.file = h5py.File(data / "clips.h5", locking=False)
        chunks, audio = self.file["audio"].id, empty_batch(len(positions))
        for position, row in zip(positions, audio.view(-1, samples).numpy().view("u1"), strict=True):
            chunks.read_direct_chunk((position, 0, 0), out=row)
        return {"audio": audio, "target": target[positions], "labels": labels[positions]}


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

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


class Clips(Dataset):
    file = None

    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        if self.file is None:  # each process opens the file itself: HDF5 cannot be used across a fork
            self.file = h5py.File(data / "clips.h5", locking=False)
        return {"audio": self.file["audio"][position], "target": target[position], "labels": labels[position]}


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


class ByClip:
    """The split as a map-style data set of clips; its file is open in the process that reads, and in no other."""

    def __init__(self, request):
        import torch

        from scripts.common.labels import read_labels

        self.path = request.data / "clips.h5"
        self.samples = request.samples
        self.clip, self.target, self.labels = map(torch.from_numpy, read_labels(request.data))
        self.file = self.opened_by = None

    def __getstate__(self):
        return self.__dict__ | {"file": None, "opened_by": None}

    def opened(self):
        """Return the dataset `audio` of this process's own file; a file that was open before a fork is closed here.

        HDF5 would recognise the file as one that is open, and go on with the state that the parent left.
        """
        if self.opened_by != os.getpid():
            import h5py

            self.close()
            self.file, self.opened_by = h5py.File(self.path, locking=False), os.getpid()
        return self.file["audio"]

    def close(self):
        """Close the file in this process, if it is open."""
        if self.file is not None:
            self.file.close()
        self.file = self.opened_by = None

    def __getitem__(self, position):
        return self.item(self.opened()[position], position)

    def item(self, audio, where):
        """Return one item, or batch, of the loader contract."""
        return {"audio": audio, "target": self.target[where], "labels": self.labels[where], "clip": self.clip[where]}


class ByBatch(ByClip):
    """The same, in whole batches."""

    def __getitems__(self, positions):
        chunks, audio = self.opened().id, empty_batch(len(positions), self.samples)
        rows = audio.view(-1, self.samples).numpy().view("u1")
        for row, position in zip(rows, positions, strict=True):
            chunks.read_direct_chunk((position, 0, 0), out=row)
        return self.item(audio, positions)


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the file."""
    dataset = (ByBatch if request.options["gather"] == "batch" else ByClip)(request)
    try:
        with epochs_of(request, dataset) as epoch:
            yield epoch
    finally:
        dataset.close()
