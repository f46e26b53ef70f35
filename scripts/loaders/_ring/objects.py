"""What the loaders share whose ring is filled from a bucket: requests that stay in flight from batch to batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._ring.epochs import Batch, device_of, epochs_of_ring
from scripts.loaders._s3 import IN_FLIGHT, Split, Wanted
from scripts.machine.objects import Getter

SETTINGS = ("prefetch", "pin_memory")
OPTIONS = {**IN_FLIGHT, "copies": {"enum": [False, True], "default": False}}

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


random = np.random.default_rng($seed)
reader = FetchingRing(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
    Connection,
    len(target),
    shape,
    "$dtype",
    batch_size,
    in_flight=$in_flight,
    ahead=$prefetch,
    device=device,
    pin=$pin_memory,
    copies=$copies,  # False: on a CPU a batch is valid until the next one is taken
)


class Loader:
    def __iter__(self):
        order = random.permutation(len(target))
        for $item, targets, hot in reader.batches(order, target, labels):
            yield {"$item": $item, "target": targets, "labels": hot}


loader = Loader()

$loop
"""


class Connection:
    """Reads clips, by their position, over one connection."""

    def __init__(self, getter: Getter, wanted: Callable[[int], Wanted]) -> None:
        self.getter, self.wanted, self.close = getter, wanted, getter.close

    def read_into(self, position: int, row: Any) -> None:
        """Fill a row. Raises UserError, which names the object, where that cannot be."""
        wanted = self.wanted(position)
        self.getter.read_into(wanted.stored, row, wanted.first)


@contextmanager
def open_ring(request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over the objects of a split."""
    from scripts.loaders._ring.ring_reader import FetchingRing

    wanted = Split(request).wanted
    with FetchingRing(
        lambda: Connection(Getter(request.location), wanted),
        request.clips,
        request.sample.shape,
        request.sample.dtype,
        request.batch_size,
        in_flight=request.options["in_flight"],
        ahead=request.prefetch,
        device=device_of(request),
        pin=request.pin_memory,
        copies=request.options["copies"],
    ) as reader:
        yield epochs_of_ring(request, reader)
