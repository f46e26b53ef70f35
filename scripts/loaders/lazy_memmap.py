"""TorchRL LazyMemmapStorage in a DataLoader: a TensorDict of memory-mapped tensors, a batch gathered at a time.

`gather: batch` gathers each of its tensors once a batch (`__getitems__`), in a worker straight into shared memory: the
storage's own indexing is slower; `gather: clip` asks the storage clip by clip, and stacks. Its time goes into copying
memory. Workers need new shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

from contextlib import contextmanager

from scripts.loaders._torch import STAGES, epochs_of, gathered, simplify  # noqa: F401

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "torchrl", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
import json
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torchrl.data import LazyMemmapStorage

data = Path($data)
samples = $samples  # of a clip
count = json.loads((data / "storage_metadata.json").read_text())["len"]
# scratch_dir must be the folder itself, a Path: elsewhere `loads` would copy every byte there
storage = LazyMemmapStorage(count, scratch_dir=data, existsok=True, auto_cleanup=False)
storage.loads(data)
clips = dict(storage.get(slice(0, count)).items())  # views of the mapped files: the storage itself gathers slower


$empty_batch


class Clips(Dataset):
    def __len__(self):
        return count

    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where, audio = torch.tensor(positions), empty_batch(len(positions))
        rest = {name: torch.index_select(clips[name], 0, where) for name in ("target", "labels", "clip")}
        return {"audio": torch.index_select(clips["audio"], 0, where, out=audio), **rest}


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
import json
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from torchrl.data import LazyMemmapStorage

data = Path($data)
count = json.loads((data / "storage_metadata.json").read_text())["len"]
# scratch_dir must be the folder itself, a Path: elsewhere `loads` would copy every byte there
storage = LazyMemmapStorage(count, scratch_dir=data, existsok=True, auto_cleanup=False)
storage.loads(data)


class Clips(Dataset):
    def __len__(self):
        return count

    def __getitem__(self, position):
        return dict(storage.get(position).items())


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
    """Yield the epoch function over the storage."""
    import torch
    from torchrl.data import LazyMemmapStorage

    # scratch_dir must be the folder itself: elsewhere `loads` would copy every byte away from the tier.
    storage = LazyMemmapStorage(request.clips, scratch_dir=request.data, existsok=True, auto_cleanup=False)
    storage.loads(request.data)

    tensors = dict(storage.get(slice(0, request.clips)).items())  # views of the mapped files

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return dict(storage.get(position).items())

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return gathered(tensors, positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
