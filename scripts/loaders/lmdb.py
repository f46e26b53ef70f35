"""LMDB in a DataLoader: a clip's bytes found by key in one mapped file, and copied once into the batch.

`gather: batch` takes views of mapped memory within one transaction and stacks them; `gather: clip` has a transaction
and a copy for each clip, and lets torch collate, as most published code does. Its time goes into copying memory, and
into the transfer from the workers: try `workers: [0]` first.

`readahead: false` is LMDB's advice for random reads of a file larger than memory, since nothing is read that was not
asked for. It is meant for small values: of a clip each page of 4 KiB would be a read of its own, hundreds of them, so
`true` is the default here. With a warm cache it makes no difference.

Nothing is locked, since nobody writes to the file. Each process opens the environment itself, since LMDB forbids using
one across a fork.
"""

import os
import warnings
from contextlib import contextmanager

from scripts.loaders._torch import STAGES, epochs_of, simplify, stacked  # noqa: F401

FORMAT = "lmdb"
REQUIRES = ("torch", "lmdb", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {
    "gather": {"enum": ["batch", "clip"], "default": "batch"},
    "readahead": {"enum": [True, False], "default": True},
}
SNIPPET = {
    "batch": """
import warnings
from pathlib import Path

import lmdb
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
samples = $samples  # of a clip
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)
warnings.filterwarnings("ignore", "The given buffer is not writable")  # nobody writes to it


$empty_batch


class Clips(Dataset):
    environment = None

    def __len__(self):
        return len(target)

    def begin(self):
        if self.environment is None:  # each process opens it itself: LMDB forbids to use it across a fork
            self.environment = lmdb.open(
                str(data / "clips.mdb"), subdir=False, readonly=True, lock=False, readahead=$readahead, meminit=False
            )
        return self.environment.begin(buffers=True)

    def view(self, transaction, position):  # of mapped memory, valid within the transaction
        value = transaction.get(position.to_bytes(8, "big"))
        return torch.frombuffer(value, dtype=torch.float32).view(1, samples)

    def __getitems__(self, positions):  # a batch at once, copied on torch's threads
        with self.begin() as transaction:
            views = [self.view(transaction, position) for position in positions]
            audio = torch.stack(views, out=empty_batch(len(views)))
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
import warnings
from pathlib import Path

import lmdb
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
samples = $samples  # of a clip
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)
warnings.filterwarnings("ignore", "The given buffer is not writable")  # nobody writes to it


class Clips(Dataset):
    environment = None

    def __len__(self):
        return len(target)

    def begin(self):
        if self.environment is None:  # each process opens it itself: LMDB forbids to use it across a fork
            self.environment = lmdb.open(
                str(data / "clips.mdb"), subdir=False, readonly=True, lock=False, readahead=$readahead, meminit=False
            )
        return self.environment.begin(buffers=True)

    def view(self, transaction, position):  # of mapped memory, valid within the transaction
        value = transaction.get(position.to_bytes(8, "big"))
        return torch.frombuffer(value, dtype=torch.float32).view(1, samples)

    def __getitem__(self, position):
        with self.begin() as transaction:
            audio = self.view(transaction, position).clone()
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


class ByClip:
    """The split as a map-style data set of clips; its file is open in the process that reads, and in no other."""

    def __init__(self, request):
        import torch

        from scripts.common.labels import read_labels

        self.path = request.data / "clips.mdb"
        self.samples = request.samples
        self.readahead = request.options["readahead"]
        self.clip, self.target, self.labels = map(torch.from_numpy, read_labels(request.data))
        self.environment = self.opened_by = None

    def __getstate__(self):
        return self.__dict__ | {"environment": None, "opened_by": None}

    def begin(self):
        """Return a transaction in this process's own environment; one that was open before a fork is closed here.

        The library would take the file for open already: it notes which are, and does not forget them in a fork.
        """
        if self.opened_by != os.getpid():
            import lmdb

            self.close()
            self.environment = lmdb.open(
                str(self.path), subdir=False, readonly=True, lock=False, readahead=self.readahead, meminit=False
            )
            self.opened_by = os.getpid()
        return self.environment.begin(buffers=True)

    def close(self):
        """Close the environment in this process, if it is open; py-lmdb leaves a parent's alone, and forgets it."""
        if self.environment is not None:
            self.environment.close()
        self.environment = self.opened_by = None

    def __getitem__(self, position):
        with self.begin() as transaction:
            return self.item(self.view(transaction, position).clone(), position)

    def view(self, transaction, position):
        """Return float32 (1, samples) of mapped memory, valid within the transaction, never to be written to."""
        import torch

        value = transaction.get(position.to_bytes(8, "big"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given buffer is not writable")
            return torch.frombuffer(value, dtype=torch.float32).view(1, self.samples)

    def item(self, audio, where):
        """Return one item, or batch, of the loader contract."""
        return {"audio": audio, "target": self.target[where], "labels": self.labels[where], "clip": self.clip[where]}


class ByBatch(ByClip):
    """The same, in whole batches."""

    def __getitems__(self, positions):
        with self.begin() as transaction:
            audio = stacked([self.view(transaction, position) for position in positions])
        return self.item(audio, positions)


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the environment."""
    dataset = (ByBatch if request.options["gather"] == "batch" else ByClip)(request)
    try:
        with epochs_of(request, dataset) as epoch:
            yield epoch
    finally:
        dataset.close()
