"""TorchRL LazyMemmapStorage in a DataLoader: a TensorDict of memory-mapped tensors, a batch gathered at a time.

`gather: batch` gathers each of its tensors once a batch (`__getitems__`), in a worker straight into shared memory: the
storage's own indexing is slower; `gather: item` asks the storage item by item, and stacks. Its time goes into copying
memory. Workers need new shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
Without workers, on a CPU, `reuse: true` gathers every batch of `gather: batch` in one buffer: it is valid until the
next one is asked for.
"""

from contextlib import contextmanager

from scripts.loaders._tensordict import Items
from scripts.loaders._torch import (
    GATHER,
    REUSE,
    STAGES,  # noqa: F401
    Tensors,
    epochs_of,
    lifetime,
    reused,
    simplify_reuse,
)

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "torchrl", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = GATHER | REUSE
LIFETIME = lifetime
simplify = simplify_reuse
SNIPPET = """
import json
import torch
from torch.utils.data import Dataset
from torchrl.data import LazyMemmapStorage

$head
count = json.loads((data / "storage_metadata.json").read_text())["len"]
# scratch_dir must be the folder itself, a Path: elsewhere `loads` would copy every byte there
storage = LazyMemmapStorage(count, scratch_dir=data, existsok=True, auto_cleanup=False)
storage.loads(data)
$when gather=batch
tensors = dict(storage.get(slice(0, count)).items())  # views of the mapped files: the storage itself gathers slower
$end


$reused_batch


class Items(Dataset):
    def __len__(self):
        return count

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where, $item = torch.tensor(positions), empty_batch(len(positions))
        rest = {name: torch.index_select(tensors[name], 0, where) for name in ("target", "labels", "item")}
        return {"$item": torch.index_select(tensors["$item"], 0, where, out=$item), **rest}
    $when gather=item
    def __getitem__(self, position):
        return dict(storage.get(position).items())
    $end


$by_data_loader
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the storage."""
    from torchrl.data import LazyMemmapStorage

    # scratch_dir must be the folder itself: elsewhere `loads` would copy every byte away from the tier.
    storage = LazyMemmapStorage(request.items, scratch_dir=request.data, existsok=True, auto_cleanup=False)
    storage.loads(request.data)
    tensors = dict(storage.get(slice(0, request.items)).items())  # views of the mapped files
    by_batch = request.options["gather"] == "batch"
    with epochs_of(
        request, Tensors(tensors, request.sample, reused(request)) if by_batch else Items(storage.get)
    ) as epoch:
        yield epoch
