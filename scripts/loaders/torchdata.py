"""torchdata.nodes over .npy files: a batch's positions go to a thread, which reads the files straight into the batch.

The nodes stand in the order of torchdata's guide: the sampler's positions in batches, a mapper that reads and collates
a batch at a time, pinning, prefetching. With `method: thread` nothing is sent between processes, and threads help as
far as an item's work releases the GIL. Reading does: hence .npy files, without a decoder in the way. `method: process`
sends each batch through shared memory, by processes that are started again each epoch. `workers` are threads or
processes, `prefetch` the batches ahead for each; without workers a batch is read when it is asked for.

The threads of an epoch look every 0.1 s whether they are to end, and the next epoch waits for that: as long as 512
items of 10 s take. Two Loaders by turns would not wait, but a program with two was seen to crash at its end.
"""

from contextlib import contextmanager
from dataclasses import replace

from scripts.loaders._npy import Files
from scripts.loaders._torch import SETTINGS, STAGES, AgainByBatch, EpochBatches, received, sent_by, simplify  # noqa: F401

FORMAT = "npy"
REQUIRES = ("torch", "torchdata", "numpy")
LIFETIME = "lasting"
OPTIONS = {"method": {"enum": ["thread", "process"], "default": "thread"}}
SNIPPET = """
import atexit
import time

from torchdata import nodes

$head
$labels
pin = $pin_memory  # page-locked memory makes the copy to a GPU faster
header_bytes = np.load(data / "000000.npy", mmap_mode="r").offset  # of one length in all files


def read(positions):  # a batch at a time
    $item = np.empty((len(positions), *shape), dtype=np.$dtype)
    for position, row in zip(positions, $item, strict=True):
        with open(data / f"{position:06d}.npy", "rb", buffering=0) as file:
            file.seek(header_bytes)
            if file.readinto(row) != row.nbytes:
                raise EOFError(f"{file.name} ends within the item")
    return {"$item": torch.from_numpy($item), "target": target[positions], "labels": labels[positions]}


sampler = torch.utils.data.RandomSampler(target, generator=torch.Generator().manual_seed($seed))
positions = nodes.Batcher(nodes.SamplerWrapper(sampler), batch_size=batch_size, drop_last=False)
batches = nodes.ParallelMapper(
    positions,
    read,
    num_workers=$workers,
    method=$method,
    multiprocessing_context="fork",
)
batches = nodes.PinMemory(batches) if pin else batches
batches = nodes.Prefetcher(batches, prefetch_factor=$workers * $prefetch)
loader = nodes.Loader(batches)
atexit.register(time.sleep, 0.3)  # its threads look every 0.1 s whether they are to end; one left may crash at the end

$loop
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the numbered files."""
    files = Files(request)
    kept = None
    if "transfer" in request.without:
        kept = files.__getitems__(list(range(min(request.batch_size, request.items))))
    if "read" in request.without:
        files = AgainByBatch(files, sent=request.options["method"] == "process" and request.workers > 0)

    sending = request if request.options["method"] == "process" else replace(request, workers=0)
    read = sent_by(sending, files.__getitems__, kept)
    pipeline = _Pipeline(request, read)
    try:
        yield lambda number: received(pipeline.epoch(number), sending, kept)
    finally:
        pipeline.stop()


class _Pipeline:
    """A sampler, a mapper and what prefetches, as one Loader."""

    def __init__(self, request, read):
        from torchdata.nodes import IterableWrapper, Loader, ParallelMapper, PinMemory, Prefetcher

        self.batches = EpochBatches(request)
        self.mapper = ParallelMapper(
            IterableWrapper(self.batches),
            read,
            request.workers,
            method=request.options["method"],
            multiprocessing_context="fork",
        )
        self.ahead = []  # nodes with a thread of their own
        if request.pin_memory:
            self.ahead.append(PinMemory(self.mapper))
        if request.workers:
            self.ahead.append(Prefetcher([self.mapper, *self.ahead][-1], request.workers * request.prefetch))
        self.loader = Loader([self.mapper, *self.ahead][-1])

    def epoch(self, number):
        """Return an iterator over the batches of an epoch, which has begun to read them."""
        self.batches.epoch = number
        return iter(self.loader)

    def stop(self):
        """End the threads and processes of the last epoch, and wait for them; torchdata has no public call for it.

        The mapper's own shutdown tells all at once to end: a process could then be gone while the thread that puts the
        batches in order still fetches one from it.
        """
        iterator = self.mapper._it._it
        if hasattr(iterator, "_workers"):
            iterator._stop.set()
            iterator._read_thread.join()
            iterator._sort_thread.join()
            iterator._mp_stop.set()
            for worker in iterator._workers:
                worker.join()
        for node in self.ahead:
            if node._it is not None:
                node._it._stop_event.set()
                node._it._thread.join()
