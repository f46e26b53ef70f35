"""Amazon's connector for PyTorch in a DataLoader: whole objects by its native client, one at a time in each worker.

`dataset: map` reads each object of its S3MapDataset into the batch; `dataset: iterable` is its S3IterableDataset, which
shares objects among workers as they come, and whose items torch collates. A worker waits for each item before it asks
for the next: set workers to as many requests as are to be in flight. Its client takes a second or more to start in each
process.

It does not say which ETag an object had: one that was replaced by another of the same length is noticed by the gate
only.
"""

from multiprocessing.sharedctypes import RawValue
from pathlib import Path

import torch
from s3torchconnector import S3ClientConfig, S3IterableDataset, S3MapDataset, S3ReaderConstructor
from s3torchconnector._s3bucket_key_data import S3BucketKeyData
from s3torchconnectorclient._mountpoint_s3_client import join_all_managed_threads
from torch.utils.data import DataLoader

from scripts.loaders._declared import SETTINGS, STAGES, simplify
from scripts.loaders._plain.data_loader import data_loader
from scripts.loaders._plain.epochs import shuffled
from scripts.loaders._plain.labels import read_labels, rows_of
from scripts.loaders._plain.objects import ATTEMPTS, Objects, Split, read_into, tried
from scripts.loaders._s3 import READS

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "s3torchconnector")
LIFETIME = "lasting"
OPTIONS = {"dataset": {"enum": ["map", "iterable"], "default": "map"}}


def place_of(split):
    """Return the arguments of a data set that say where its objects are, and how they are read."""
    return {
        "region": split.region,
        "endpoint": split.endpoint,
        "s3client_config": S3ClientConfig(force_path_style=split.path_style, max_attempts=ATTEMPTS),
        "reader_constructor": S3ReaderConstructor.sequential(),
    }


def read_item(reader, part, row):
    """Read an item into its row, or raise what names its object; the library itself has tried again."""

    def read():
        reader.seek(part.first)
        read_into(row, reader.readinto)

    tried(read, part, ())


def end(dataset):
    """End a data set's client and wait for its threads: the library does so before a fork, and has no call for it."""
    client, dataset._client = dataset._client, None
    if client is not None and client._native_client is not None:  # without one, joining its threads crashes
        client._native_client = None
        join_all_managed_threads(5)  # seconds


class ByPosition:
    """Amazon's data set of all objects in the order of the items."""

    def __init__(self, split):
        uris = [split.part(position).uri for position in range(split.items)]
        self.objects = S3MapDataset.from_objects(uris, **place_of(split))

    def fill(self, parts, rows):
        for part, row in zip(parts, rows, strict=True):
            read_item(self.objects[int(Path(part.key).stem)], part, row)

    def close(self):
        end(self.objects)


class InOrder(S3IterableDataset):
    """Items in the order of an epoch; workers share the objects as they come."""

    def __init__(self, split, labels, key, shape, dtype, order):
        self.split, self.labels, self.order = split, labels, order
        self.key, self.shape, self.dtype = key, shape, getattr(torch, dtype)
        self.epoch = RawValue("q", 0)  # seen by workers that live for many epochs
        place = place_of(split)
        super().__init__(get_dataset_objects=self.in_order, transform=self.item, enable_sharding=True, **place)
        self._rank, self._world_size = 0, 1  # `order` is that of this process alone

    def in_order(self, _client):
        for position in self.order(self.epoch.value).tolist():
            part = self.split.part(position)
            yield S3BucketKeyData(part.bucket, part.key)

    def item(self, reader):
        position = int(Path(reader.key).stem)
        data = torch.empty(self.shape, dtype=self.dtype)
        read_item(reader, self.split.part(position), memoryview(data.numpy()).cast("B"))
        return {self.key: data, **rows_of(self.labels, position)}


class Numbered(DataLoader):
    """A DataLoader that tells its data set the number of the epoch which begins."""

    number = 0

    def __iter__(self):
        self.dataset.epoch.value, self.number = self.number, self.number + 1
        return super().__iter__()


def make_loader(data, key, shape, dtype, dataset, seed, order=None, **how):
    """Return a DataLoader over the objects of a bucket."""
    if dataset == "map":
        return data_loader(Objects(data, key, shape, dtype, ByPosition), seed, **how)
    split = Split(data, key, shape, dtype)
    order = order or shuffled(split.items, seed)
    return Numbered(InOrder(split, read_labels(data), key, shape, dtype, order), **how)


def close(loader):
    """End the client of the data set that gives the order itself; the other one is closed by the harness."""
    if isinstance(loader, Numbered):
        end(loader.dataset)
