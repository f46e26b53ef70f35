"""A DataLoader over a map-style Dataset of numbered items, with the labels that are beside them."""

import math
import os

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from scripts.loaders._plain.labels import read_labels, rows_of


class Items(Dataset):
    """Items with their labels; a subclass has `item(position)`, which reads one."""

    def __init__(self, data, key):
        self.data, self.key, self.labels = data, key, read_labels(data)

    def __len__(self):
        return len(self.labels["target"])

    def __getitem__(self, position):
        return {self.key: self.item(position), **rows_of(self.labels, position)}


class Batches(Items):
    """The same in whole batches; a subclass has `batch(positions)`, which reads (n, ...)."""

    def __getitems__(self, positions):
        return {self.key: self.batch(positions), **rows_of(self.labels, positions)}


class OpenedByEach(Items):
    """Items of a library that cannot be used across a fork: each process opens the file itself, by `open()`."""

    file = opened_by = None

    def __getstate__(self):
        return self.__dict__ | {"file": None, "opened_by": None}

    def opened(self):
        if self.opened_by != os.getpid():
            self.close()  # a library may know a file that was open before the fork, and go on with its state
            self.file, self.opened_by = self.open(), os.getpid()
        return self.file

    def close(self):
        if self.file is not None:
            self.file.close()
        self.file = self.opened_by = None


class Rows(Dataset):
    """Tensors of all items, in memory or mapped, item by item: views, which collating copies."""

    def __init__(self, tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors["target"])

    def __getitem__(self, position):
        return {name: rows[position] for name, rows in self.tensors.items()}


class Tensors(Rows):
    """The same, a batch gathered at once by torch's threads: indexing with [] is slower.

    The data of every batch is gathered in `buffer`, where there is one: it is valid until the next batch.
    """

    def __init__(self, tensors, key, buffer=None):
        super().__init__(tensors)
        self.key, self.buffer = key, buffer

    def __getitems__(self, positions):
        where, rows = torch.tensor(positions), self.tensors[self.key]
        rest = {name: torch.index_select(rows, 0, where) for name, rows in self.tensors.items() if name != self.key}
        batch = empty_like(rows, len(positions)) if self.buffer is None else self.buffer[: len(positions)]
        return {self.key: torch.index_select(rows, 0, where, out=batch), **rest}


def empty_batch(items, shape, dtype):
    """Return an unfilled tensor (items, *shape). In a worker it is in shared memory: sending it copies nothing."""
    if get_worker_info() is None:
        return torch.from_numpy(np.empty((items, *shape), dtype))  # large arrays of numpy's are in huge pages
    return empty_shared((items, *shape), getattr(torch, dtype))


def empty_like(rows, items):
    """Return an unfilled tensor of so many items like those of `rows`, a tensor (n, ...)."""
    return empty_batch(items, rows.shape[1:], str(rows.dtype).removeprefix("torch."))


def stacked(views):
    """Return a copy of items, each a tensor, as a batch: by torch's threads."""
    return torch.stack(views, out=empty_like(views[0][None], len(views)))


def empty_shared(shape, dtype):
    """Return an unfilled tensor in shared memory, where torch's own collating puts a worker's batch."""
    like = torch.empty(0, dtype=dtype)
    return like.new(like._typed_storage()._new_shared(math.prod(shape), device="cpu")).resize_(shape)


def as_is(batch):
    """Return the batch: a Dataset with `__getitems__` has collated already."""
    return batch


def data_loader(dataset, seed, **arguments):
    """Return a DataLoader that gives every item once an epoch, each time in a new order."""
    arguments["collate_fn"] = as_is if hasattr(dataset, "__getitems__") else None
    return DataLoader(dataset, shuffle=True, generator=torch.Generator().manual_seed(seed), **arguments)
