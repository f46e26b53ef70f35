"""A tensor on a file-backed torch storage in a DataLoader: `torch.from_file`, a batch gathered at a time.

What numpy.memmap is to NumPy, without NumPy in the path of the data. `gather: batch` copies a batch by one
`index_select` (`__getitems__`), on torch's threads in the process of the training, in a worker straight into shared
memory; `gather: item` takes item by item and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.

The file is mapped private, so that nothing can write to it. The kernel refuses to map a file so that is larger than RAM
and swap, unless vm.overcommit_memory is 1.
"""

from scripts.loaders._torch import GATHER, SETTINGS, STAGES, Rows, Tensors, gathering, simplify, with_labels  # noqa: F401

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER
SNIPPET = """

$head
$labels
header = np.load(data / "$item.npy", mmap_mode="r")  # says where its rows begin: a multiple of 64 bytes
skipped = header.offset // header.itemsize
mapped = torch.from_file(str(data / "$item.npy"), shared=False, size=skipped + header.size, dtype=torch.$dtype)
items = mapped[skipped:].view(header.shape)  # $dtype (items, *shape)


$items_class

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where = torch.tensor(positions)
        $item = torch.index_select(items, 0, where, out=empty_batch(len(positions)))
        return {"$item": $item, "target": target[where], "labels": labels[where]}
    $when gather=item
    def __getitem__(self, position):  # mapped: collating copies it
        return {"$item": items[position], "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""


def open_epochs(request):
    """Return what opens the epoch function over the mapped tensor."""
    tensors = with_labels(request, _mapped(request.array, request.sample.dtype))
    return gathering(request, lambda _request: Rows(tensors), lambda _request: Tensors(tensors, request.sample))


def _mapped(path, dtype):
    """Return the array of an .npy file of type `dtype` as a tensor that the mapped file is the storage of."""
    import numpy as np
    import torch

    header = np.load(path, mmap_mode="r", allow_pickle=False)
    skipped, count = header.offset // header.itemsize, header.size  # an .npy header is a multiple of 64 bytes
    return torch.from_file(str(path), shared=False, size=skipped + count, dtype=getattr(torch, dtype))[skipped:].view(
        header.shape
    )
