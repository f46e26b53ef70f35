"""Items in object storage: which bytes of which object each is, and what fetches them into a batch.

A fetched object is held to the index that placing has left: its ETag, and as many bytes as an item has.
"""

import json
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from scripts.loaders._plain.data_loader import Batches, OpenedByEach, empty_batch

ATTEMPTS = 5  # at an item
SECONDS = 30  # in which a server must answer


class ObjectError(OSError):
    """What is wrong with an object, which its text names."""


class Part(NamedTuple):
    """Bytes of an object: an item."""

    bucket: str
    key: str
    etag: str  # without quotation marks
    first: int  # byte
    length: int

    @property
    def uri(self):
        return f"s3://{self.bucket}/{self.key}"

    @property
    def range(self):
        return f"bytes={self.first}-{self.first + self.length - 1}"

    def check(self, etag, length):
        """Raise ValueError where the object is another than was placed, EOFError where not all bytes will come."""
        if etag.strip('"') != self.etag:
            raise ValueError("another object than the placed one (its ETag has changed)")
        if length != self.length:
            raise EOFError(f"an answer of {length} bytes instead of {self.length}")


class Bucket:
    """What was placed of a split, as `index.json` has it."""

    def __init__(self, data):
        index = json.loads((data / "index.json").read_text(encoding="utf-8"))
        self.name, self.prefix = index["bucket"], index["prefix"]
        self.region, self.path_style = index["region"], index["path_style"]  # of requests
        self.endpoint = os.environ.get("AWS_ENDPOINT_URL")  # None: Amazon's; credentials are in the environment too
        self.objects = {one["key"]: (one["size"], one["etag"]) for one in index["objects"]}

    def last_bytes(self, name, length=None):
        """Return so many bytes at the end of an object, or all."""
        if name not in self.objects:
            raise ObjectError(f"object s3://{self.name}/{self.prefix}/{name}: not in index.json")
        size, etag = self.objects[name]
        first = 0 if length is None else size - length
        return Part(self.name, f"{self.prefix}/{name}".lstrip("/"), etag, first, size - first)


class Split(Bucket):
    """Where items are: in an object each (format npy), or in rows of one array of all (memmap)."""

    def __init__(self, data, key, shape, dtype):
        super().__init__(data)
        self.array, self.items = f"{key}.npy", len(np.load(data / "target.npy"))
        self.item_bytes = math.prod(shape) * np.dtype(dtype).itemsize

    def part(self, position):
        """Return the bytes of an item. They are counted from the end: an array's header has any length."""
        if self.array not in self.objects:
            return self.last_bytes(f"{position:06d}.npy", self.item_bytes)
        rest = self.last_bytes(self.array, (self.items - position) * self.item_bytes)
        return rest._replace(length=self.item_bytes)


def pause(error, part, attempt, transient):
    """Return the seconds until another attempt. Raise what names the object if there is to be none."""
    if isinstance(error, ObjectError):
        raise error
    if attempt == ATTEMPTS or not isinstance(error, transient):
        raise ObjectError(f"object {part.uri}: attempt {attempt}: {type(error).__name__}: {error}") from None
    return 0.05 * 2**attempt


def tried(call, part, transient):
    """Return what `call` returns, which is tried again as long as `pause` says so."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except Exception as error:
            seconds = pause(error, part, attempt, transient)
        time.sleep(seconds)


def copy_into(row, content):
    """Copy an item's bytes into its row."""
    if len(content) != len(row):
        raise EOFError(f"a body that ends after {len(content)} of {len(row)} bytes")
    row[:] = content


def read_into(row, readinto):
    """Fill a row from a stream."""
    done = 0
    while done < len(row):
        count = readinto(row[done:])
        if not count:
            raise EOFError(f"a body that ends after {done} of {len(row)} bytes")
        done += count


class Fetchers:
    """Threads that fetch items; without any, one follows the other. A subclass has `fetch(part, row)`."""

    transient = (EOFError, OSError)  # after which an item is asked for again

    def __init__(self, threads):
        self.pool = ThreadPoolExecutor(threads) if threads else None

    def fill(self, parts, rows):
        list((self.pool.map if self.pool else map)(self.whole, parts, rows))

    def whole(self, part, row):
        tried(lambda: self.fetch(part, row), part, self.transient)

    def close(self):
        if self.pool:
            self.pool.shutdown()


class Objects(Batches, OpenedByEach):
    """Items of a bucket in whole batches, each fetched into its row.

    Each process has its own `client(split)`, which has `fill(parts, rows)` and `close()`.
    """

    def __init__(self, data, key, shape, dtype, client):
        super().__init__(data, key)
        self.split, self.client, self.shape, self.dtype = Split(data, key, shape, dtype), client, shape, dtype

    def open(self):
        return self.client(self.split)

    def batch(self, positions):
        batch = empty_batch(len(positions), self.shape, self.dtype)
        rows = [memoryview(row) for row in batch.flatten(1).numpy().view("u1")]
        self.opened().fill([self.split.part(position) for position in positions], rows)
        return batch


def client_arguments(split, config, connections):
    """Return the arguments of a client of botocore's; `config` is the class of its configuration."""
    return {
        "service_name": "s3",
        "endpoint_url": split.endpoint,
        "region_name": split.region,
        "config": config(
            max_pool_connections=connections,
            connect_timeout=SECONDS,
            read_timeout=SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            s3={"addressing_style": "path" if split.path_style else "virtual"},
            response_checksum_validation="when_required",
        ),
    }
