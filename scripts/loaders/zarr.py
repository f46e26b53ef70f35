"""Zarr 3 in a DataLoader: a chunk, and so a file, for each item; the chunks of a batch are read concurrently.

`gather: batch` asks for all items of a batch at once through `zarr.api.asynchronous`, whose reads run on the threads of
an event loop, and stacks them. `gather: item` indexes the array item by item and lets torch collate, as most published
code does. An orthogonal index of the whole batch (`array.oindex`) is many times slower than either: it scatters sample
by sample. Its time goes into Python more than into reading: set workers to the number of cores.

Each process has an event loop of its own. Its threads do not survive a fork, and its descriptors are shared after one.
"""

import asyncio
import os
from functools import cache

import zarr
import zarr.api.asynchronous
from torch.utils.data import default_collate

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import GATHER, STAGES, simplify
from scripts.loaders._plain.data_loader import Batches, Items, data_loader

FORMAT = "zarr"
REQUIRES = ("torch", "zarr", "numpy")
LIFETIME = "lasting"
OPTIONS = GATHER


class ByItem(Items):
    """The array item by item; it is opened by each process that reads."""

    array = None  # knows a path and what zarr.json says: nothing that stays open

    def item(self, position):
        if self.array is None:
            self.array = zarr.open_array(self.data / "items.zarr", mode="r")
        return self.array[position]


class ByBatch(Batches):
    """The same in whole batches, whose chunks are read concurrently."""

    array = None

    def batch(self, positions):
        return default_collate(runner_of(os.getpid()).run(self.read(positions)))  # in a worker into shared memory

    async def read(self, positions):
        if self.array is None:
            self.array = await zarr.api.asynchronous.open_array(store=self.data / "items.zarr", mode="r")
        return await asyncio.gather(*map(self.array.getitem, positions))


@cache
def runner_of(_process):
    """Return the event loop of a process; a child leaves its parent's as it is."""
    return asyncio.Runner()


def make_loader(data, key, gather, **how):
    """Return a DataLoader over the array."""
    if gather == "item":
        return data_loader(ByItem(data, key), **how)
    return data_loader(ByBatch(data, key), **how)


def close(_loader):
    """End the event loops and the threads of this process; the library has no public call for its own."""
    from zarr.core.sync import cleanup_resources

    runner_of(os.getpid()).close()
    runner_of.cache_clear()
    cleanup_resources()
