"""How FFCV's loaders open a beton: compiled threads copy or decode a batch, which torch then puts into new memory.

The order is ours (a permutation of all items): the library shares items between ranks only by torch.distributed. It
sets the number of torch's threads to its own when an epoch begins; that is put back.
"""

from contextlib import contextmanager

from scripts.common.request import batches_of, epoch_order
from scripts.loaders._torch import empty_batch, labels_of, rows_of, to_device
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401

SETTINGS = ("workers", "prefetch")
_SNIPPET = """
from ffcv.loader import Loader, OrderOption

$head
$labels
threads = torch.get_num_threads()
items = Loader(
    str(data / "items.beton"),
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
        batches = iter(items)
        torch.set_num_threads(threads)  # FFCV has set it to its own number
        for values, position in batches:  # in buffers that are used again
            where = position.flatten()
            CHANNELS_FIRST
            $item = torch.from_numpy(np.empty((len(values), *shape), dtype=np.$dtype))
            $stored_rows
            yield {"$item": $item, "target": target[where], "labels": labels[where]}


loader = Batches()

$loop
"""
SNIPPET = _SNIPPET.replace("            CHANNELS_FIRST\n", "")
PIXELS_SNIPPET = _SNIPPET.replace(
    "CHANNELS_FIRST", "values = values.permute(0, 3, 1, 2)[:, : shape[0]]  # channels first"
)


def unsuited(request):
    """Return why the library cannot have so many threads or such numbers, or None."""
    import os

    if request.sample.stored == "float16":
        return "items of float16: Numba, which compiles FFCV's code, has no float16 on a CPU"
    cores = len(os.sched_getaffinity(0))
    if request.workers > cores:
        return f"{request.workers} threads: FFCV's compiled code takes at most one a core, and this process has {cores}"
    return None


def pixels_first(request, values):
    """Return pixels (batch, height, width, 3) as (batch, channels, height, width), which is no copy."""
    return values.permute(0, 3, 1, 2)[:, : request.sample.shape[0]]


@contextmanager
def epochs_of(request, shaped=None, pipelines=None):
    """Yield the epoch function over this rank's items.

    `shaped(request, values)` brings what the library gives into the shape of a batch; without it that is of one
    dimension an item. `pipelines` are those of the library, where they are not its usual ones.
    """
    import torch
    from ffcv.loader import Loader
    from ffcv.traversal_order.base import TraversalOrder

    labels = labels_of(request)

    class Order(TraversalOrder):
        def sample_order(self, epoch):
            return epoch_order(request, epoch).astype("uint64")

    loader = Loader(
        str(request.data / "items.beton"),
        batch_size=request.batch_size,
        num_workers=max(1, request.workers),
        os_cache=True,
        drop_last=False,
        batches_ahead=request.prefetch,
        seed=request.seed,
        pipelines=pipelines or {},
    )
    loader.traversal_order = Order(loader)
    loader.first_traversal_order = loader.next_traversal_order()
    opened = []

    def raw(number):
        """Yield (what the library gives of a batch, positions (batch, 1)) in buffers that are used again."""
        loader.next_epoch = number
        opened.append(iter(loader))
        torch.set_num_threads(request.threads)
        try:
            yield from opened[-1]
        finally:
            _close(opened.pop())

    def batch(values, where):
        where = where.flatten()
        data = empty_batch(len(values), request.sample)
        if "decode" in request.without:
            data.zero_()
        else:
            values = shaped(request, values) if shaped else values.view(data.shape)
            if request.sample.scale:
                torch.mul(values, request.sample.scale, out=data)
            else:
                data.copy_(values)
        return {request.sample.key: data, **rows_of(labels, where)}

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
