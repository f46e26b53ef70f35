"""torchdata.nodes over .npy files: a batch's positions go to a thread, which reads the files straight into the batch.

The nodes stand in the order of torchdata's guide: the sampler's positions in batches, a mapper that reads and collates
a batch at a time, pinning, prefetching. With `method: thread` nothing is sent between processes, and threads help as
far as an item's work releases the GIL. Reading does: hence .npy files, without a decoder in the way. `method: process`
sends each batch through shared memory, by processes that are started again each epoch. `workers` are threads or
processes, `prefetch` the batches ahead for each; without workers a batch is read when it is asked for.

The threads of an epoch look every 0.1 s whether they are to end, and the next epoch waits for that: as long as 512
items of 10 s take. Two Loaders by turns would not wait, but a program with two was seen to crash at its end.
"""

import atexit
import time
from functools import partial

import numpy as np
from torchdata import nodes

from scripts.loaders._declared import SETTINGS, STAGES, simplify
from scripts.loaders._plain.epochs import Epochs, in_batches, shuffled
from scripts.loaders._plain.numbered import Files
from scripts.loaders._torch import AgainByBatch

FORMAT = "npy"
REQUIRES = ("torch", "torchdata", "numpy")
LIFETIME = "lasting"
OPTIONS = {"method": {"enum": ["thread", "process"], "default": "thread"}}
SENDS = "read"  # what workers send is what this function returns


class Positions:
    """The positions of the epoch `number`, in batches."""

    def __init__(self, order, batch_size):
        self.order, self.batch_size, self.number = order, batch_size, 0

    def __iter__(self):
        return (where.tolist() for where in in_batches(self.order(self.number), self.batch_size))


class Nodes(Epochs):
    """The nodes as a loader."""

    def __init__(self, positions, batches):
        super().__init__(self.epoch)
        self.positions, self.loader = positions, nodes.Loader(batches)

    def epoch(self, number):
        self.positions.number = number
        return iter(self.loader)


def read(files, positions):
    """Return a batch, in a thread or a process of the mapper."""
    return files.__getitems__(positions)


def make_loader(data, key, shape, dtype, method, workers, prefetch, pin_memory, batch_size, seed, order=None):
    """Return the nodes over numbered .npy files."""
    header_bytes = np.load(data / "000000.npy", mmap_mode="r").offset  # of one length in all files
    files = Files(data, key, shape, dtype, "npy", header_bytes)
    positions = Positions(order or shuffled(len(files), seed), batch_size)
    sampler = nodes.IterableWrapper(positions)  # whole batches: a Batcher takes one position after the other
    how = {"num_workers": workers, "method": method, "multiprocessing_context": "fork"}
    batches = nodes.ParallelMapper(sampler, partial(read, files), **how)
    if pin_memory:
        batches = nodes.PinMemory(batches)
    if workers:
        batches = nodes.Prefetcher(batches, workers * prefetch)
    atexit.register(time.sleep, 0.3)  # threads look every 0.1 s whether they are to end; one left may crash at the end
    return Nodes(positions, batches)


def without_read(_read, request):
    """Return a function that gives a process's first batch again and again."""
    again = AgainByBatch(None, sent=request.options["method"] == "process" and request.workers > 0)

    def read_again(files, positions):
        again.dataset = files
        return again.__getitems__(positions)

    return read_again


def close(loader):
    """End the threads and processes of the last epoch, and wait for them; torchdata has no public call for it.

    The mapper's own shutdown tells all at once to end: a process could then be gone while the thread that puts the
    batches in order still fetches one from it.
    """
    atexit.unregister(time.sleep)
    ahead, node = [], loader.loader.root
    while not isinstance(node, nodes.ParallelMapper):
        ahead, node = [node, *ahead], node.source
    iterator = node._it._it
    if hasattr(iterator, "_workers"):
        iterator._stop.set()
        iterator._read_thread.join()
        iterator._sort_thread.join()
        iterator._mp_stop.set()
        for worker in iterator._workers:
            worker.join()
    for one in ahead:
        if one._it is not None:
            one._it._stop_event.set()
            one._it._thread.join()
