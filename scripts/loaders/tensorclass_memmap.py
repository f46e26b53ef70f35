"""A memory-mapped tensorclass in a DataLoader: tensordict's files, a batch gathered at a time.

What tensordict's tutorials do with data that does not fit: files mapped by `load_memmap`. `gather: batch` gathers each
of its tensors at once (`__getitems__`), in a worker straight into shared memory: indexing the tensorclass itself is
slower; `gather: item` indexes item by item and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

from scripts.loaders._tensordict import GATHER_SNIPPET, ITEMS_SNIPPET, SPLIT_SNIPPET, Items, split_of
from scripts.loaders._torch import GATHER, SETTINGS, STAGES, Tensors, epochs_of, simplify  # noqa: F401

FORMAT = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER
SNIPPET = (
    SPLIT_SNIPPET
    + """\
items = Split.from_tensordict(TensorDict.load_memmap(data, allow_pickle=False))  # mapped, not read
$when gather=batch
tensors = dict(items.items())  # gathered one by one: indexing the tensorclass itself is slower
$end
"""
    + ITEMS_SNIPPET
    + "    $when gather=batch\n"
    + GATHER_SNIPPET
    + """\
    $when gather=item
    def __getitem__(self, position):
        return dict(items[position].items())
    $end


$by_data_loader
"""
)


def open_epochs(request):
    """Return what opens the epoch function over the mapped tensorclass."""
    items = split_of(request)
    if request.options["gather"] == "batch":
        return epochs_of(request, Tensors(dict(items.items()), request.sample))
    return epochs_of(request, Items(items.__getitem__))
