"""Arrow IPC file in a DataLoader: record batches mapped into memory by pyarrow, rows copied once into the batch.

`gather: batch` takes views of the mapped columns, without a copy, and stacks them; `gather: item` asks the table for
one value after the other and lets torch collate, as most published code does. Its time goes into copying memory, and
into the transfer from the workers: try `workers: [0]` first.

The map is made once, and worker processes inherit it: it is plain memory, without state that a fork could break.
"""

import warnings

from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._torch import GATHER, STAGES, Batches, Items, gathering, simplify, stacked  # noqa: F401

FORMAT = "arrow"
REQUIRES = ("torch", "pyarrow", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER
SNIPPET = """
import pyarrow as pa

$head
$labels
with pa.memory_map(str(data / "items.arrow")) as source, pa.ipc.open_file(source) as file:
    column = file.read_all()["$item"]  # mapped, not read
$when gather=batch
import warnings

warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
blocks = [torch.from_numpy(block.flatten().to_numpy().reshape(-1, *shape)) for block in column.chunks]
size = len(blocks[0])  # all but the last have as many items
$end


$items_class

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once, on torch's threads
        views = [blocks[position // size][position % size] for position in positions]
        $item = torch.stack(views, out=empty_batch(len(views)))
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}
    $when gather=item
    def __getitem__(self, position):
        $item = torch.tensor(column[position].values.to_numpy()).reshape(shape)
        return {"$item": $item, "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""


class ByItem(Items):
    """The file item by item; `column` is what is mapped."""

    def __init__(self, request):
        super().__init__(request)
        self.map()

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("column", "blocks")}

    def __setstate__(self, state):
        self.__dict__ |= state
        self.map()

    def map(self):
        """Map the file; the map lasts as long as what views it, the descriptor is not needed."""
        import pyarrow as pa

        with pa.memory_map(str(self.data / "items.arrow")) as source, pa.ipc.open_file(source) as file:
            self.column = file.read_all()[self.sample.key]

    def item(self, position):
        """Return an item."""
        import torch

        return torch.tensor(self.column[position].values.to_numpy()).reshape(self.sample.shape)


class ByBatch(Batches, ByItem):
    """The same, in whole batches; `blocks` are the record batches as tensors, (rows, ...)."""

    def map(self):
        """Map the file, and make a tensor of each record batch, never to be written to."""
        import torch

        super().map()
        arrays = [chunk.flatten().to_numpy().reshape(-1, *self.sample.shape) for chunk in self.column.chunks]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self.blocks = [torch.from_numpy(array) for array in arrays]

    def gathered(self, positions):
        """Return (n, ...)."""
        size = len(self.blocks[0])  # all but the last have as many rows
        return stacked([self.blocks[position // size][position % size] for position in positions], self.sample)


def open_epochs(request):
    """Return what opens the epoch function over the mapped file."""
    return gathering(request, ByItem, ByBatch)
