"""SPDL's pipelines: threads that go on with the next epoch while the last batches of this one are taken.

As its guide advises, the source is continuous, so that nothing is built again between epochs. Each read that fails is
an error: by default SPDL leaves such items out.
"""

from functools import partial

import numpy as np
import torch
from spdl.pipeline import Pipeline, PipelineBuilder
from torch.utils.data import default_collate

from scripts.loaders._plain.data_loader import Batches
from scripts.loaders._plain.epochs import Epochs, in_batches, shuffled
from scripts.loaders._plain.images import content_of


class Files(Batches):
    """Numbered files in whole batches: `fill(paths, rows)` reads them into the rows of a batch, which `empty` makes."""

    def __init__(self, data, key, shape, dtype, ending, fill, empty):
        super().__init__(data, key)
        self.shape, self.dtype, self.ending, self.fill, self.empty = shape, dtype, ending, fill, empty

    def batch(self, positions):
        batch = self.empty(len(positions), self.shape, self.dtype)
        self.fill([f"{self.data}/{position:06d}.{self.ending}" for position in positions.tolist()], batch.numpy())
        return batch


class Source:
    """Gives an epoch of positions each time it is iterated, from epoch `number` on."""

    def __init__(self, positions, number):
        self.positions, self.number = positions, number

    def __iter__(self):
        self.number += 1
        return iter(self.positions(self.number - 1))


def empty_paged(items, shape, dtype):
    """Return an unfilled batch. Large arrays of numpy's are in huge pages, those of torch are not."""
    return torch.from_numpy(np.empty((items, *shape), dtype))


def empty_pinned(items, shape, dtype):
    """Return an unfilled batch in page-locked memory, which makes the copy to a GPU faster."""
    return torch.empty((items, *shape), dtype=getattr(torch, dtype), pin_memory=True)


def empty_of(pin_memory):
    """Return the function that makes an unfilled batch."""
    if pin_memory:
        return empty_pinned
    return empty_paged


def read(decode, paths, rows):
    """Read files, each decoded into its row of the batch."""
    for path, row in zip(paths, rows, strict=True):
        decode(content_of(path), row)


def read_by_item(dataset, position):
    """Return an item of a Dataset."""
    return dataset[position]


def collate_pinned(items):
    """Return a batch in page-locked memory, which makes the copy to a GPU faster."""
    return {name: tensor.pin_memory() for name, tensor in default_collate(items).items()}


def collate_of(pin_memory):
    """Return the function that makes a batch of items."""
    if pin_memory:
        return collate_pinned
    return default_collate


def running_on(start, stop=Pipeline.stop):
    """Return a loader. `start(number)` gives a pipeline whose passes are epochs number, number + 1, ...

    It starts with the first epoch that is asked for, and anew after an epoch that was left before its end.
    """
    passes = ready = None  # `ready` is the epoch whose pass comes next

    def batches(number):
        nonlocal passes, ready
        if number != ready:
            close()
            passes = start(number)
        ready = None
        yield from passes
        ready = number + 1

    def close():
        if passes is not None:
            stop(passes)

    return Epochs(batches, close)


def by_batch(dataset, batch_size, workers, prefetch, seed, order):
    """Return a loader of a Dataset with `__getitems__`: each thread makes a whole batch."""
    order = order or shuffled(len(dataset), seed)

    def start(number):
        source = Source(lambda epoch: in_batches(order(epoch), batch_size), number)
        builder = PipelineBuilder().add_source(source, continuous=True)
        builder.pipe(dataset.__getitems__, concurrency=workers, output_order="input").add_sink(prefetch)
        return builder.build(num_threads=workers, max_failures=0)

    return running_on(start)


def by_item(dataset, collate, batch_size, workers, prefetch, seed, order):
    """Return a loader of a map-style Dataset: threads make items, one of them collates."""
    order = order or shuffled(len(dataset), seed)

    def start(number):
        source = Source(lambda epoch: order(epoch).tolist(), number)
        builder = PipelineBuilder().add_source(source, continuous=True)
        builder.pipe(partial(read_by_item, dataset), concurrency=workers, output_order="input")
        builder.aggregate(batch_size).pipe(collate).add_sink(prefetch)
        return builder.build(num_threads=workers, max_failures=0)

    return running_on(start)
