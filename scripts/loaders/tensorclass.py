"""A tensorclass of the whole split in RAM, in a DataLoader: a batch gathered at a time (tensordict).

For data sets that fit and code that is written against tensorclasses. Opening it reads the split. Its time goes into
copying memory. It has no worker processes, which would copy each batch twice more.
"""

from contextlib import contextmanager
from dataclasses import replace

from scripts.common.request import too_large
from scripts.loaders._torch import epochs_of, gathered

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
SETTINGS = ("pin_memory",)
STAGES = ("read",)
READS_ONCE = True
SNIPPET = """
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


clips = Clips.from_tensordict(TensorDict.load_memmap(data, allow_pickle=False).clone())  # all in RAM
tensors = dict(clips.items())  # gathered one by one: indexing the tensorclass itself is slower


class Batches(Dataset):
    def __len__(self):
        return len(clips)

    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where = torch.tensor(positions)
        audio = torch.from_numpy(np.empty((len(positions), 1, samples), np.float32))  # in huge pages if it is large
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
"""


def unsuited(request):
    """Return a reason where the split takes more than half of the RAM that is free, else None."""
    from scripts.machine.devices import available_ram

    return too_large(request, available_ram(), "RAM")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the split, which is read before."""
    import torch
    from tensordict import TensorDict, tensorclass

    @tensorclass
    class Clips:
        audio: torch.Tensor
        target: torch.Tensor
        labels: torch.Tensor
        clip: torch.Tensor

    clips = Clips.from_tensordict(TensorDict.load_memmap(request.data, allow_pickle=False).clone())

    tensors = dict(clips.items())

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return gathered(tensors, positions)

    with epochs_of(replace(request, workers=0), ByBatch()) as epoch:
        yield epoch
