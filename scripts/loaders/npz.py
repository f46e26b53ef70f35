"""Numbered .npz files in a DataLoader: one archive per item, its array read straight into the batch.

What an .npz file costs beside an .npy file: with `gather: item`, as most published code has it, `numpy.load` opens a
zip archive for each item, reads it through Python's zipfile in pieces with their checksums, and torch collates.
`gather: batch` reads each array's data into its row of the batch, beyond headers that are of one length in all files:
they are not compressed. Its time goes into opening archives and copying memory. Set workers to the number of cores.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._npy import BATCH_SNIPPET, Files
from scripts.loaders._torch import GATHER, STAGES, Items, gathering, simplify  # noqa: F401

FORMAT = "npz"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER
SNIPPET = (
    """

$head
$labels
$when gather=batch
import struct
import zipfile
with zipfile.ZipFile(data / "000000.npz") as archive:  # its one array is not compressed
    member = archive.infolist()[0]
    with archive.open(member) as array:
        np.lib.format.read_magic(array)
        np.lib.format.read_array_header_1_0(array)
        npy_bytes = array.tell()
with open(data / "000000.npz", "rb") as file:
    file.seek(member.header_offset + 26)
    header_bytes = member.header_offset + 30 + sum(struct.unpack("<HH", file.read(4))) + npy_bytes  # alike in all files
$end


"""
    + BATCH_SNIPPET.replace(".npy", ".npz")
    + """\
    $when gather=item
    def __getitem__(self, position):
        with np.load(data / f"{position:06d}.npz") as archive:
            $item = torch.from_numpy(archive["$item"])
        return {"$item": $item, "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""
)


class ByItem(Items):
    """The numbered archives item by item."""

    def item(self, position):
        """Return an item."""
        import numpy as np
        import torch

        with np.load(self.data / f"{position:06d}.npz", allow_pickle=False) as archive:
            return torch.from_numpy(archive[self.sample.key])


class Archives(Files):
    """The numbered archives, in whole batches, beyond the headers of the archive and of the array in it."""

    ENDING = "npz"

    def header_of(self, path):
        """Return the bytes before the array's data. Raises ValueError for an archive that is compressed."""
        import struct
        import zipfile

        import numpy as np

        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(f"{self.sample.key}.npy")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{path}: its array is compressed; `gather: item` reads it")
            with archive.open(member) as array:
                np.lib.format.read_magic(array)
                np.lib.format.read_array_header_1_0(array)
                npy_bytes = array.tell()
        with open(path, "rb") as file:
            file.seek(member.header_offset + 26)  # the lengths of the name and of the extra field in the local header
            return member.header_offset + 30 + sum(struct.unpack("<HH", file.read(4))) + npy_bytes


def open_epochs(request):
    """Return what opens the epoch function over numbered .npz files."""
    return gathering(request, ByItem, Archives)
