"""FFCV: a mapped beton copied into batches by compiled threads, without worker processes.

Made for images in one large file that the page cache holds. Threads of compiled code (the setting `workers`, at least
one and at most the cores) copy the clips of a batch out of the mapped file, `prefetch` batches ahead. Its own buffers
are used again after so many batches; here each batch becomes float32 in new memory, by torch, in the process that
trains. Its time goes into that and into the copying. Opening it takes seconds, in which the code is compiled.

The order is ours (a permutation of all clips): the library shares clips between ranks only by torch.distributed. It
sets the number of torch's threads to its own when an epoch begins; that is put back.
"""

from contextlib import contextmanager

from scripts.common.request import batches_of, epoch_order
from scripts.loaders._torch import empty_batch, to_device

FORMAT = "ffcv"
ENV = "ffcv"
REQUIRES = ("torch", "ffcv", "numpy")
LIFETIME = "lasting"
SETTINGS = ("workers", "prefetch")
STAGES = ("read", "decode")
SNIPPET = """
from ffcv.loader import Loader, OrderOption

$head
$labels
threads = torch.get_num_threads()
clips = Loader(
    str(data / "clips.beton"),
    batch_size=batch_size,
    num_workers=$workers,
    order=OrderOption.RANDOM,
    os_cache=True,
    drop_last=False,
    batches_ahead=$prefetch,
    seed=$seed,
)


class Batches:
    def __iter__(self):
        batches = iter(clips)
        torch.set_num_threads(threads)  # FFCV has set it to its own number
        for pcm, position in batches:  # int16 (clips, samples), in buffers that are used again
            audio = torch.from_numpy(np.empty((len(pcm), 1, samples), dtype=np.float32))
            where = position.flatten()
            torch.mul(pcm[:, None], 1 / 32768, out=audio)
            yield {"audio": audio, "target": target[where], "labels": labels[where]}


loader = Batches()

$loop
"""


def simplify(settings):
    """Return settings with at least one thread: to the library none means all cores."""
    return {**settings, "workers": max(1, settings["workers"])}


def unsuited(request):
    """Return why the library cannot have so many threads, or None."""
    import os

    cores = len(os.sched_getaffinity(0))
    if request.workers > cores:
        return f"{request.workers} threads: FFCV's compiled code takes at most one a core, and this process has {cores}"
    return None


@contextmanager
def open_epochs(request):
    """Yield the epoch function over this rank's clips."""
    import torch
    from ffcv.loader import Loader
    from ffcv.traversal_order.base import TraversalOrder

    from scripts.common.labels import read_labels

    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    class Order(TraversalOrder):
        def sample_order(self, epoch):
            return epoch_order(request, epoch).astype("uint64")

    loader = Loader(
        str(request.data / "clips.beton"),
        batch_size=request.batch_size,
        num_workers=max(1, request.workers),
        os_cache=True,
        drop_last=False,
        batches_ahead=request.prefetch,
        seed=request.seed,
    )
    loader.traversal_order = Order(loader)
    loader.first_traversal_order = loader.next_traversal_order()
    opened = []

    def raw(number):
        """Yield (int16 (batch, samples), positions (batch, 1)) in buffers that are used again."""
        loader.next_epoch = number
        opened.append(iter(loader))
        torch.set_num_threads(request.threads)
        try:
            yield from opened[-1]
        finally:
            _close(opened.pop())

    def batch(pcm, where):
        where = where.flatten()
        if "decode" in request.without:
            audio = torch.zeros(len(pcm), 1, request.samples)
        else:
            audio = torch.mul(pcm[:, None], 1 / 32768, out=empty_batch(len(pcm), request.sample))
        return {"audio": audio, "target": target[where], "labels": labels[where], "clip": clip[where]}

    again = None
    if "read" in request.without:
        again = tuple(part.clone() for part in next(raw(0)))

    def epoch(number):
        batches = raw(number)
        if again:
            order = epoch_order(request, number)
            batches = (tuple(part[: len(some)] for part in again) for some in batches_of(order, request.batch_size))
        return to_device((batch(*parts) for parts in batches), request)

    try:
        yield epoch
    finally:
        for iterator in opened:  # of epochs that were not taken to their end
            _close(iterator)
        loader.memory_manager.context.mmap = None


def _close(iterator):
    """End the thread of an epoch: it waits for room in its queue, at its end without looking whether it is to stop."""
    from contextlib import suppress
    from queue import Empty

    iterator.close()
    while iterator.is_alive():
        with suppress(Empty):
            iterator.output_queue.get(timeout=0.01)
    iterator.storage_state = None
