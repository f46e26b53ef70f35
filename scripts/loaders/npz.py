"""Numbered .npz files in a DataLoader: one archive per item, its array read straight into the batch.

What an .npz file costs beside an .npy file: with `gather: item`, as most published code has it, `numpy.load` opens a
zip archive for each item, reads it through Python's zipfile in pieces with their checksums, and torch collates.
`gather: batch` reads each array's data into its row of the batch, beyond headers that are of one length in all files:
they are not compressed. Its time goes into opening archives and copying memory. Set workers to the number of cores.
"""

import struct
import zipfile

import numpy as np
import torch

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import GATHER, STAGES, simplify
from scripts.loaders._plain.data_loader import Items, data_loader
from scripts.loaders._plain.numbered import Files

FORMAT = "npz"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


class ByItem(Items):
    """Numbered archives item by item."""

    def item(self, position):
        with np.load(self.data / f"{position:06d}.npz") as archive:
            return torch.from_numpy(archive[self.key])


def header_of(path, key):
    """Return the bytes before the array's data: of the archive, of its member and of the array itself."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{key}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{path}: its array is compressed; `gather: item` reads it")
        with archive.open(member) as array:
            np.lib.format.read_magic(array)
            np.lib.format.read_array_header_1_0(array)
            npy_bytes = array.tell()
    with open(path, "rb") as file:
        file.seek(member.header_offset + 26)  # the lengths of the name and of the extra field in the local header
        return member.header_offset + 30 + sum(struct.unpack("<HH", file.read(4))) + npy_bytes


def make_loader(data, key, shape, dtype, gather, **how):
    """Return a DataLoader over numbered .npz files."""
    if gather == "item":
        return data_loader(ByItem(data, key), **how)
    header_bytes = header_of(data / "000000.npz", key)  # of one length in all files
    return data_loader(Files(data, key, shape, dtype, "npz", header_bytes), **how)
