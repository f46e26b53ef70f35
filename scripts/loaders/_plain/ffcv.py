"""FFCV: compiled threads copy or decode a batch out of a mapped beton; torch then puts it into new memory."""

import threading
from contextlib import suppress
from functools import partial
from queue import Empty

import numpy as np
import torch
from ffcv.loader import Loader
from ffcv.loader.epoch_iterator import EpochIterator
from ffcv.traversal_order.base import TraversalOrder

from scripts.loaders._plain.epochs import Epochs, shuffled
from scripts.loaders._plain.labels import read_labels, rows_of


class Order(TraversalOrder):
    """An order of FFCV's by a function of the number of an epoch."""

    def __init__(self, order):
        self.order = order

    def __call__(self, _loader):  # FFCV calls what it is given as an order
        return self

    def sample_order(self, epoch):
        return self.order(epoch).astype("uint64")


def read(items, number, threads):
    """Yield (values, positions (n, 1)) of the batches of an epoch, in buffers that are used again."""
    items.next_epoch = number
    batches = iter(items)
    torch.set_num_threads(threads)  # FFCV has set it to its own number
    try:
        yield from batches
    finally:
        end(batches)


def end(batches):
    """End the thread of an epoch: it waits for room in its queue, at its end without looking whether it is to stop."""
    batches.close()
    while batches.is_alive():
        with suppress(Empty):
            batches.output_queue.get(timeout=0.01)
    batches.storage_state = None  # the mapped file


def close(items):
    """End the threads of epochs that were not taken to their end, and let go of the file."""
    for thread in threading.enumerate():
        if isinstance(thread, EpochIterator) and thread.loader is items:
            end(thread)
    items.memory_manager.context.mmap = None


def decode(values, scale, batch):
    """Write what FFCV gives of a batch into its own memory, of audio as float32."""
    if scale:
        torch.mul(values, scale, out=batch)
    else:
        batch.copy_(values)


def flat(values, shape):
    """Return items that FFCV has as arrays of one dimension, in their shape."""
    return values.view(len(values), *shape)


def channels_first(values, shape):
    """Return images (n, height, width, 3) as (n, channels, height, width), which is no copy."""
    return values.permute(0, 3, 1, 2)[:, : shape[0]]


def from_beton(data, key, shape, dtype, scale, shaped, batch_size, workers, prefetch, seed, order, pipelines=None):
    """Return a loader of a beton. `shaped(values, shape)` brings what FFCV gives of a batch into its shape."""
    labels, threads = read_labels(data), torch.get_num_threads()
    items = Loader(
        f"{data}/items.beton",
        batch_size=batch_size,
        num_workers=workers,
        order=Order(order or shuffled(len(labels["target"]), seed)),
        os_cache=True,
        drop_last=False,
        batches_ahead=prefetch,
        pipelines=pipelines or {},
    )

    def batches(number):
        for values, where in read(items, number, threads):
            batch = torch.from_numpy(
                np.empty((len(values), *shape), dtype)
            )  # large arrays of numpy's are in huge pages
            decode(shaped(values, shape), scale, batch)
            yield {key: batch, **rows_of(labels, where.flatten())}

    return Epochs(batches, partial(close, items))
