"""Arrow IPC file in a DataLoader: record batches mapped into memory by pyarrow, rows copied once into the batch.

`gather: batch` takes views of the mapped columns, without a copy, and stacks them; `gather: item` asks the table for
one value after the other and lets torch collate, as most published code does. Its time goes into copying memory, and
into the transfer from the workers: try `workers: [0]` first.

The map is made once, and worker processes inherit it: it is plain memory, without state that a fork could break.
"""

import warnings

import pyarrow as pa
import torch

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import GATHER, STAGES, simplify
from scripts.loaders._plain.data_loader import Batches, Items, data_loader, stacked

FORMAT = "arrow"
REQUIRES = ("torch", "pyarrow", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


class ByItem(Items):
    """The mapped column item by item."""

    def __init__(self, data, key, shape):
        super().__init__(data, key)
        self.shape = shape
        self.map()

    def __getstate__(self):  # a worker that is no fork maps the file itself
        return {name: value for name, value in self.__dict__.items() if name not in ("column", "blocks")}

    def __setstate__(self, state):
        self.__dict__ |= state
        self.map()

    def map(self):
        with pa.memory_map(str(self.data / "items.arrow")) as source, pa.ipc.open_file(source) as file:
            self.column = file.read_all()[self.key]  # lasts without the descriptor

    def item(self, position):
        return torch.tensor(self.column[position].values.to_numpy()).reshape(self.shape)


class ByBatch(Batches, ByItem):
    """The same in whole batches; `blocks` are the record batches as tensors, (rows, ...)."""

    def map(self):
        super().map()
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
        arrays = (block.flatten().to_numpy().reshape(-1, *self.shape) for block in self.column.chunks)
        self.blocks = [torch.from_numpy(array) for array in arrays]

    def batch(self, positions):
        size = len(self.blocks[0])  # all but the last have as many rows
        return stacked([self.blocks[position // size][position % size] for position in positions])


def make_loader(data, key, shape, gather, **how):
    """Return a DataLoader over the mapped file."""
    if gather == "item":
        return data_loader(ByItem(data, key, shape), **how)
    return data_loader(ByBatch(data, key, shape), **how)
