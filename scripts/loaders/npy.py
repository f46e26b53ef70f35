"""Numbered .npy files in a DataLoader: one file per item, read straight into the batch.

For float32 that must be in a file an item. `gather: batch` reads each file's data into its row of the batch, beyond a
header that is of one length in all of them; `gather: item` calls `numpy.load` for each item and lets torch collate, as
most published code does. Its time goes into opening files and copying memory. Set workers to the number of cores.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._npy import BATCH_SNIPPET, Files, path_of
from scripts.loaders._torch import GATHER, STAGES, Items, gathering, simplify  # noqa: F401

FORMAT = "npy"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER
SNIPPET = (
    """

$head
$labels
$when gather=batch
header_bytes = np.load(data / "000000.npy", mmap_mode="r").offset  # of one length in all files
$end


"""
    + BATCH_SNIPPET
    + """\
    $when gather=item
    def __getitem__(self, position):
        $item = torch.from_numpy(np.load(data / f"{position:06d}.npy"))
        return {"$item": $item, "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""
)


class ByItem(Items):
    """The numbered files item by item."""

    def item(self, position):
        """Return an item."""
        import numpy as np
        import torch

        return torch.from_numpy(np.load(path_of(self.data, position), allow_pickle=False))


def open_epochs(request):
    """Return what opens the epoch function over numbered .npy files."""
    return gathering(request, ByItem, Files)
