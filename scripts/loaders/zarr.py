"""Zarr 3 in a DataLoader: a chunk, and so a file, for each item; the chunks of a batch are read concurrently.

`gather: batch` asks for all items of a batch at once through `zarr.api.asynchronous`, whose reads run on the threads of
an event loop, and stacks them. `gather: item` indexes the array item by item and lets torch collate, as most published
code does. An orthogonal index of the whole batch (`array.oindex`) is many times slower than either: it scatters sample
by sample. Its time goes into Python more than into reading: set workers to the number of cores.

Each process has an event loop of its own. Its threads do not survive a fork, and its descriptors are shared after one.
"""

import asyncio
import os

from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._torch import GATHER, STAGES, Batches, Items, gathering, simplify  # noqa: F401

FORMAT = "zarr"
REQUIRES = ("torch", "zarr", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER
SNIPPET = """
from torch.utils.data import Dataset

$head
$labels


class Items(Dataset):
    array = None  # each process has an event loop of its own: its threads do not survive a fork
    $when gather=batch
import asyncio
import zarr.api.asynchronous
from torch.utils.data import default_collate
    runner = None
    $end

    def __len__(self):
        return len(target)

    $when gather=batch
    def __getitems__(self, positions):  # a batch at once, its chunks read concurrently
        self.runner = self.runner or asyncio.Runner()
        $item = default_collate(self.runner.run(self.read(positions)))  # in a worker straight into shared memory
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}

    async def read(self, positions):
        if self.array is None:
            self.array = await zarr.api.asynchronous.open_array(store=data / "items.zarr", mode="r")
        return await asyncio.gather(*map(self.array.getitem, positions))
    $when gather=item
import zarr
    def __getitem__(self, position):
        if self.array is None:
            self.array = zarr.open_array(data / "items.zarr", mode="r")
        return {"$item": self.array[position], "target": target[position], "labels": labels[position]}
    $end


$by_data_loader
"""


class ByItem(Items):
    """The array item by item; it is opened by each process that reads."""

    array = None  # knows a path and what zarr.json says: nothing that stays open

    def item(self, position):
        """Return an item."""
        import zarr

        if self.array is None:
            self.array = zarr.open_array(self.data / "items.zarr", mode="r")
        return self.array[position]

    def close(self):
        """End the event loop and its thread, which indexing an array starts; the library has no public call for it."""
        from zarr.core.sync import cleanup_resources

        cleanup_resources()


class ByBatch(Batches):
    """The same, in whole batches; `runners` are the event loops by the process that started them.

    A child leaves its parent's as it is: closing it would change what the parent waits for.
    """

    array = None

    def __init__(self, request):
        super().__init__(request)
        self.runners = {}

    def __getstate__(self):
        return self.__dict__ | {"runners": {}}

    def gathered(self, positions):
        """Return (n, ...), in a worker copied straight into shared memory."""
        from torch.utils.data import default_collate

        runner = self.runners.setdefault(os.getpid(), asyncio.Runner())  # starts nothing before it runs
        return default_collate(runner.run(self.read(positions)))

    def close(self):
        """End the event loop and the threads of this process."""
        if runner := self.runners.pop(os.getpid(), None):
            runner.close()

    async def read(self, positions):
        """Return an item for each position."""
        import zarr.api.asynchronous

        if self.array is None:
            self.array = await zarr.api.asynchronous.open_array(store=self.data / "items.zarr", mode="r")
        return await asyncio.gather(*map(self.array.getitem, positions))


def open_epochs(request):
    """Return what opens the epoch function over the array."""
    return gathering(request, ByItem, ByBatch)
