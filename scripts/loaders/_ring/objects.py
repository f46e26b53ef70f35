"""What the loaders share whose ring is filled from a bucket: requests that stay in flight from batch to batch."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._ring.epochs import Batch
from scripts.loaders._ring.fetching import COPIES, open_fetching, program
from scripts.loaders._s3 import IN_FLIGHT, Split, Wanted
from scripts.machine.objects import Getter

SETTINGS = ("prefetch", "pin_memory")
OPTIONS = {**IN_FLIGHT, **COPIES}

SNIPPET = """
import boto3
import urllib3
from botocore.config import Config
from ring_reader import FetchingRing

$head
$labels
$objects


config = Config(signature_version="s3v4", s3={"addressing_style": "path" if index["path_style"] else "virtual"})
client = boto3.client("s3", endpoint_url=endpoint, region_name=index["region"], config=config)  # it signs, no more
pool = urllib3.PoolManager(maxsize=$in_flight)


class Connection:  # of each thread, of which each has a request under way
    def read_into(self, position, row):
        key, first = place(position)
        url = client.generate_presigned_url("get_object", Params={"Bucket": index["bucket"], "Key": key})
        view, done = memoryview(row).cast("B"), 0
        wanted = {"Range": f"bytes={first}-{first + len(view) - 1}"}
        with pool.request("GET", url, headers=wanted, preload_content=False) as answer:
            if answer.status != 206:
                raise OSError(f"{key}: status {answer.status}")
            while done < len(view):
                count = answer.readinto(view[done:])
                if not count:
                    raise EOFError(f"{key}: the connection ended after {done} bytes")
                done += count

    def close(self):
        pool.clear()
""" + program("Connection", "$in_flight")


class Connection:
    """Reads items, by their position, over one connection."""

    def __init__(self, getter: Getter, wanted: Callable[[int], Wanted]) -> None:
        self.getter, self.wanted, self.close = getter, wanted, getter.close

    def read_into(self, position: int, row: Any) -> None:
        """Fill a row. Raises UserError, which names the object, where that cannot be."""
        wanted = self.wanted(position)
        self.getter.read_into(wanted.stored, row, wanted.first)


def buffered(request: LoaderRequest) -> int:
    """Return the items of the batches that are filled at once: with many requests under way more than are asked for."""
    ahead = max(request.prefetch, -(-2 * request.options["in_flight"] // request.batch_size) + 1)
    return request.batch_size * (ahead + 1)


def open_epochs(request: LoaderRequest) -> AbstractContextManager[Callable[[int], Iterator[Batch]]]:
    """Return what opens the epoch function over the objects of a split."""
    wanted = Split(request).wanted
    return open_fetching(request, lambda: Connection(Getter(request.location), wanted), request.options["in_flight"])
