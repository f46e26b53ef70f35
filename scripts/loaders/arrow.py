"""Arrow IPC file in a DataLoader: record batches mapped into memory by pyarrow, rows copied once into the batch.

`gather: batch` takes views of the mapped columns, without a copy, and stacks them; `gather: clip` asks the table for
one value after the other and lets torch collate, as most published code does. Its time goes into copying memory, and
into the transfer from the workers: try `workers: [0]` first.

The map is made once, and worker processes inherit it: it is plain memory, without state that a fork could break.
"""

import warnings
from contextlib import contextmanager

from scripts.loaders._torch import STAGES, epochs_of, simplify, stacked  # noqa: F401

FORMAT = "arrow"
REQUIRES = ("torch", "pyarrow", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
samples = $samples  # of a clip
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)
with pa.memory_map(str(data / "clips.arrow")) as source, pa.ipc.open_file(source) as file:
    column = file.read_all()["audio"]  # mapped, not read
warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
blocks = [torch.from_numpy(block.flatten().to_numpy().reshape(-1, 1, samples)) for block in column.chunks]
size = len(blocks[0])  # all but the last have as many clips


$empty_batch


class Clips(Dataset):
    def __len__(self):
        return len(target)

    def __getitems__(self, positions):  # a batch at once, on torch's threads
        views = [blocks[position // size][position % size] for position in positions]
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
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)
with pa.memory_map(str(data / "clips.arrow")) as source, pa.ipc.open_file(source) as file:
    column = file.read_all()["audio"]  # mapped, not read


class Clips(Dataset):
    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        audio = torch.tensor(column[position].values.to_numpy())[None]
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
    """The split as a map-style data set of clips; `column` is the mapped audio."""

    def __init__(self, request):
        import torch

        from scripts.common.labels import read_labels

        self.path = request.data / "clips.arrow"
        self.samples = request.samples
        self.clip, self.target, self.labels = map(torch.from_numpy, read_labels(request.data))
        self.map()

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("column", "blocks")}

    def __setstate__(self, state):
        self.__dict__ |= state
        self.map()

    def map(self):
        """Map the file; the map lasts as long as what views it, the descriptor is not needed."""
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
            self.column = file.read_all()["audio"]

    def __getitem__(self, position):
        import torch

        return self.item(torch.tensor(self.column[position].values.to_numpy())[None], position)

    def item(self, audio, where):
        """Return one item, or batch, of the loader contract."""
        return {"audio": audio, "target": self.target[where], "labels": self.labels[where], "clip": self.clip[where]}


class ByBatch(ByClip):
    """The same, in whole batches; `blocks` are the record batches as tensors, float32 (rows, 1, samples)."""

    def map(self):
        """Map the file, and make a tensor of each record batch, never to be written to."""
        import torch

        super().map()
        arrays = [chunk.flatten().to_numpy().reshape(-1, 1, self.samples) for chunk in self.column.chunks]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self.blocks = [torch.from_numpy(array) for array in arrays]

    def __getitems__(self, positions):
        size = len(self.blocks[0])  # all but the last have as many rows
        views = [self.blocks[position // size][position % size] for position in positions]
        return self.item(stacked(views), positions)


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the mapped file."""
    with epochs_of(request, (ByBatch if request.options["gather"] == "batch" else ByClip)(request)) as epoch:
        yield epoch
