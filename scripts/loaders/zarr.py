"""Zarr 3 in a DataLoader: a chunk, and so a file, for each clip; the chunks of a batch are read concurrently.

`gather: batch` asks for all clips of a batch at once through `zarr.api.asynchronous`, whose reads run on the threads of
an event loop, and stacks them. `gather: clip` indexes the array clip by clip and lets torch collate, as most published
code does. An orthogonal index of the whole batch (`array.oindex`) is many times slower than either: it scatters sample
by sample. Its time goes into Python more than into reading: set workers to the number of cores.

Each process has an event loop of its own. Its threads do not survive a fork, and its descriptors are shared after one.
"""

import asyncio
import os
from contextlib import contextmanager

from scripts.loaders._torch import STAGES, epochs_of, simplify  # noqa: F401

FORMAT = "zarr"
REQUIRES = ("torch", "zarr", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
import asyncio
from pathlib import Path

import numpy as np
import torch
import zarr.api.asynchronous
from torch.utils.data import DataLoader, Dataset, default_collate

data = Path($data)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


class Clips(Dataset):
    array = runner = None

    def __len__(self):
        return len(target)

    def __getitems__(self, positions):  # a batch at once, its chunks read concurrently
        if self.runner is None:  # each process has an event loop of its own: its threads do not survive a fork
            self.runner = asyncio.Runner()
        audio = default_collate(self.runner.run(self.read(positions)))  # in a worker straight into shared memory
        return {"audio": audio, "target": target[positions], "labels": labels[positions]}

    async def read(self, positions):
        if self.array is None:
            self.array = await zarr.api.asynchronous.open_array(store=data / "clips.zarr", mode="r")
        return await asyncio.gather(*map(self.array.getitem, positions))


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
import zarr
from torch.utils.data import DataLoader, Dataset

data = Path($data)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


class Clips(Dataset):
    array = None

    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        if self.array is None:  # each process has an event loop of its own: its threads do not survive a fork
            self.array = zarr.open_array(data / "clips.zarr", mode="r")
        return {"audio": self.array[position], "target": target[position], "labels": labels[position]}


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
    """The split as a map-style data set of clips; its array is opened by each process that reads."""

    def __init__(self, request):
        import torch

        from scripts.common.labels import read_labels

        self.path = request.data / "clips.zarr"
        self.clip, self.target, self.labels = map(torch.from_numpy, read_labels(request.data))
        self.array = None  # knows a path and what zarr.json says: nothing that stays open

    def __getitem__(self, position):
        import zarr

        if self.array is None:
            self.array = zarr.open_array(self.path, mode="r")
        return self.item(self.array[position], position)

    def item(self, audio, where):
        """Return one item, or batch, of the loader contract."""
        return {"audio": audio, "target": self.target[where], "labels": self.labels[where], "clip": self.clip[where]}

    def close(self):
        """End the event loop and its thread, which indexing an array starts; the library has no public call for it."""
        from zarr.core.sync import cleanup_resources

        cleanup_resources()


class ByBatch(ByClip):
    """The same, in whole batches; `runners` are the event loops by the process that started them.

    A child leaves its parent's as it is: closing it would change what the parent waits for.
    """

    def __init__(self, request):
        super().__init__(request)
        self.runners = {}

    def __getstate__(self):
        return self.__dict__ | {"runners": {}}

    def __getitems__(self, positions):
        from torch.utils.data import default_collate

        runner = self.runners.setdefault(os.getpid(), asyncio.Runner())  # starts nothing before it runs
        audio = default_collate(runner.run(self.read(positions)))  # in a worker copied straight into shared memory
        return self.item(audio, positions)

    def close(self):
        """End the event loop and the threads of this process."""
        if runner := self.runners.pop(os.getpid(), None):
            runner.close()

    async def read(self, positions):
        """Return float32 (1, samples) for each position."""
        import zarr.api.asynchronous

        if self.array is None:
            self.array = await zarr.api.asynchronous.open_array(store=self.path, mode="r")
        return await asyncio.gather(*map(self.array.getitem, positions))


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the array."""
    dataset = (ByBatch if request.options["gather"] == "batch" else ByClip)(request)
    try:
        with epochs_of(request, dataset) as epoch:
            yield epoch
    finally:
        dataset.close()
