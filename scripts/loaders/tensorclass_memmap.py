"""A memory-mapped tensorclass in a DataLoader: tensordict's files, a batch gathered at a time.

What tensordict's tutorials do with data that does not fit: files mapped by `load_memmap`. `gather: batch` gathers each
of its tensors at once (`__getitems__`), in a worker straight into shared memory: indexing the tensorclass itself is
slower; `gather: clip` indexes clip by clip and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

from contextlib import contextmanager

from scripts.loaders._torch import STAGES, epochs_of, gathered, simplify  # noqa: F401

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
from pathlib import Path

import numpy as np
import torch
from tensordict import TensorDict, tensorclass
from torch.utils.data import DataLoader, Dataset

data = Path($data)
samples = $samples  # of a clip


@tensorclass
class Clips:
    audio: torch.Tensor
    target: torch.Tensor
    labels: torch.Tensor
    clip: torch.Tensor  # its number


clips = Clips.from_tensordict(TensorDict.load_memmap(data, allow_pickle=False))  # mapped, not read
tensors = dict(clips.items())  # gathered one by one: indexing the tensorclass itself is slower


$empty_batch


class Batches(Dataset):
    def __len__(self):
        return len(clips)

    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where, audio = torch.tensor(positions), empty_batch(len(positions))
        rest = {name: torch.index_select(tensors[name], 0, where) for name in ("target", "labels", "clip")}
        return {"audio": torch.index_select(tensors["audio"], 0, where, out=audio), **rest}


loader = DataLoader(
    Batches(),
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

import torch
from tensordict import TensorDict, tensorclass
from torch.utils.data import DataLoader, Dataset

data = Path($data)


@tensorclass
class Clips:
    audio: torch.Tensor
    target: torch.Tensor
    labels: torch.Tensor
    clip: torch.Tensor  # its number


clips = Clips.from_tensordict(TensorDict.load_memmap(data, allow_pickle=False))  # mapped, not read


class Items(Dataset):
    def __len__(self):
        return len(clips)

    def __getitem__(self, position):
        return dict(clips[position].items())


loader = DataLoader(
    Items(),
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
    """Yield the epoch function over the mapped tensorclass."""
    import torch
    from tensordict import TensorDict, tensorclass

    @tensorclass
    class Clips:
        audio: torch.Tensor
        target: torch.Tensor
        labels: torch.Tensor
        clip: torch.Tensor

    clips = Clips.from_tensordict(TensorDict.load_memmap(request.data, allow_pickle=False))

    tensors = dict(clips.items())

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return dict(clips[position].items())

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return gathered(tensors, positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
