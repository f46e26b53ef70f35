"""TorchRL LazyMemmapStorage in a DataLoader: a TensorDict of memory-mapped tensors, a batch gathered at a time.

`gather: batch` gathers each of its tensors once a batch (`__getitems__`), in a worker straight into shared memory: the
storage's own indexing is slower; `gather: item` asks the storage item by item, and stacks. Its time goes into copying
memory. Workers need new shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
Without workers, on a CPU, `reuse: true` gathers every batch of `gather: batch` in one buffer: it is valid until the
next one is asked for.
"""

from scripts.loaders._tensordict import GATHER_SNIPPET, ITEMS_SNIPPET, Items
from scripts.loaders._torch import GATHER, REUSE, SETTINGS, STAGES, Tensors, epochs_of, lifetime, reused, simplify_reuse  # noqa: F401

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "torchrl", "numpy")
OPTIONS = GATHER | REUSE
LIFETIME = lifetime
simplify = simplify_reuse
SNIPPET = (
    """
import json
import torch
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
"""
    + ITEMS_SNIPPET.replace("len(items)", "count")
    + "    $when gather=batch\n"
    + GATHER_SNIPPET
    + """\
    $when gather=item
    def __getitem__(self, position):
        return dict(storage.get(position).items())
    $end


$by_data_loader
"""
)


def open_epochs(request):
    """Return what opens the epoch function over the storage."""
    from torchrl.data import LazyMemmapStorage

    # scratch_dir must be the folder itself: elsewhere `loads` would copy every byte away from the tier.
    storage = LazyMemmapStorage(request.items, scratch_dir=request.data, existsok=True, auto_cleanup=False)
    storage.loads(request.data)
    tensors = dict(storage.get(slice(0, request.items)).items())  # views of the mapped files
    if request.options["gather"] == "batch":
        return epochs_of(request, Tensors(tensors, request.sample, reused(request)))
    return epochs_of(request, Items(storage.get))
