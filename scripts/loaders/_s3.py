"""What the loaders of object storage share: which bytes of which object an item is, and what is done where they fail.

The objects are those of the index that placing has left (`index.json`, beside the label arrays): no loader lists a
bucket. A fetched object is held to the index: its ETag, and as many bytes as an item has. What fails for now is tried
again, `ATTEMPTS` times in all; whatever else is wrong is a `UserError` that names the object.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from scripts.common.errors import UserError
from scripts.common.location import Location
from scripts.common.request import LoaderRequest
from scripts.loaders._torch import SETTINGS, Batches, OpenedByEach, empty_batch  # noqa: F401
from scripts.machine.objects import StoredObject, bucket_of, changed, read_index

READS = ("s3",)
ENDPOINT = "AWS_ENDPOINT_URL"
IN_FLIGHT = {"in_flight": {"enum": [20, 5, 64], "default": 20}}  # requests at a time, in each process that reads
ATTEMPTS = 5
SECONDS = 30  # in which a server must answer

# Of the programs whose threads fetch items one by one: what stands above `open` and `fetch`, and below.
HEAD_SNIPPET = """
from concurrent.futures import ThreadPoolExecutor
from torch.utils.data import Dataset

$head
$labels
$objects


$empty_batch


class Items(Dataset):
    client = None  # each process opens its own

    def __len__(self):
        return len(target)

"""
BATCH_SNIPPET = """
    def __getitems__(self, positions):  # a batch at a time
        if self.client is None:
            self.open()
        $item = empty_batch(len(positions))
        list(self.pool.map(self.fetch, positions, $item.numpy()))
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}


$by_data_loader
"""


@contextmanager
def served(location: Location) -> Iterator[None]:
    """Have a program find in the environment where objects are; what it says of one becomes a UserError."""
    if not location.endpoint:
        yield
        return
    from scripts.loaders._plain.objects import ObjectError

    if location.read_by == "s3":
        bucket_of(location)  # or an error that says which credentials are absent
    before = os.environ.get(ENDPOINT)
    os.environ[ENDPOINT] = location.endpoint
    try:
        yield
    except ObjectError as error:
        raise UserError(
            f"object {_named(str(error))}; allowed is the object of the index, whole. See whether the storage can be "
            "reached, and whether the credentials in the environment are valid. If the object has changed or is gone, "
            "place the format again: delete its record in results/placed and type the same command."
        ) from None
    finally:
        os.environ.pop(ENDPOINT)
        if before is not None:
            os.environ[ENDPOINT] = before


def _named(text: str) -> str:
    """Return the name of an object and what is wrong with it, out of an ObjectError's text.

    Of a worker's that is the end of a traceback. A server's own text and a signed query are left out: they may hold
    what was signed.
    """
    name, _, found = text.rpartition("object s3://")[2].partition(": ")
    code = re.search(r"<Code>(\w{1,64})</Code>", found)
    said = re.sub(r"\?\S*X-Amz-\S*", "", found.partition("<")[0]).strip()
    return " ".join(filter(None, (f"s3://{name}: found {said}", code and code[1])))


class Wanted(NamedTuple):
    """The bytes of one item."""

    bucket: str
    key: str  # whole
    stored: StoredObject
    first: int  # byte
    bytes: int

    @property
    def uri(self) -> str:
        """The object's name, for people."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def range(self) -> str:
        """The header Range of a request for these bytes."""
        return f"bytes={self.first}-{self.first + self.bytes - 1}"

    def check(self, etag: str, length: int) -> None:
        """Raise UserError where the object is another than was placed, EOFError where not all its bytes will come."""
        if etag.strip('"') != self.stored.etag:
            raise changed(self.uri)
        if length != self.bytes:
            raise EOFError(f"an answer of {length} bytes instead of {self.bytes}")


class Split:
    """Where the items of a split are in a bucket: one object each (npy), or rows of one object (memmap)."""

    def __init__(self, request: LoaderRequest) -> None:
        self.folder = request.location.index
        self.index = read_index(self.folder)
        self.items, self.bytes, self.array = request.items, request.sample.bytes, f"{request.sample.key}.npy"

    def wanted(self, position: int) -> Wanted:
        """Return the item at `position`: a row of the array of all items, or the one of an array of its own.

        The header of an array is of any length, and what is behind it of a known one.
        """
        one = self.index.by_key.get(self.array)
        name, rows = (self.array, self.items - position) if one else (f"{position:06d}.npy", 1)
        stored = one or self.index.by_key.get(name)
        if stored is None:
            raise UserError(
                f"{self.folder}/index.json: found no object {name!r}; allowed is the index of all items. Delete "
                f"{self.folder.parent}, then type the same command again."
            )
        key = f"{self.index.prefix}/{name}".lstrip("/")
        return Wanted(self.index.bucket, key, stored, stored.size - rows * self.bytes, self.bytes)


def pause(error: Exception, wanted: Wanted, attempt: int, transient: tuple[type[Exception], ...]) -> float:
    """Return the seconds to wait until a failed attempt, counted from 1, is made again.

    Raises UserError, which names the object, for an error that is not `transient`, and after the last attempt.
    """
    if isinstance(error, UserError):
        raise error
    if attempt == ATTEMPTS or not isinstance(error, transient):
        raise UserError(
            f"object {wanted.uri}: found {_words(error)} (attempt {attempt}); allowed is the whole "
            "object. See whether the storage can be reached, and whether the credentials in the environment are valid."
        ) from None
    return 0.05 * 2**attempt


def tried(call: Callable[[], Any], wanted: Wanted, transient: tuple[type[Exception], ...]) -> Any:
    """Return what `call` returns, which is tried again as `pause` has it. Raises UserError as that does."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except Exception as error:
            seconds = pause(error, wanted, attempt, transient)
        time.sleep(seconds)


def _words(error: Exception) -> str:
    """Return what went wrong, without a server's own text or a signed query: they may hold what was signed."""
    text = str(error)
    code = re.search(r"<Code>(\w{1,64})</Code>", text)
    said = re.sub(r"\?\S*X-Amz-\S*", "", text.partition("<")[0]).strip()
    return " ".join(filter(None, (f"{type(error).__name__}: {said}", code and code[1])))


def client_arguments(bucket: Any, config: Callable[..., Any], connections: int) -> dict[str, Any]:
    """Return the arguments of a client of botocore's; `config` is the class of its configuration."""
    return {
        "service_name": "s3",
        "endpoint_url": bucket.endpoint,
        "region_name": bucket.region,
        "aws_access_key_id": bucket.who.access_key,
        "aws_secret_access_key": bucket.who.secret_key,
        "aws_session_token": bucket.who.token,
        "config": config(
            max_pool_connections=connections,
            connect_timeout=SECONDS,
            read_timeout=SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            s3={"addressing_style": "path" if bucket.path_style else "virtual"},
            response_checksum_validation="when_required",
        ),
    }


def read_into(read: Callable[[memoryview], int], row: memoryview) -> None:
    """Fill a row by a stream's `readinto`. Raises EOFError for a stream that ends before."""
    done = 0
    while done < len(row):
        count = read(row[done:])
        if not count:
            raise EOFError(f"a body that ends after {done} of {len(row)} bytes")
        done += count


class Fetchers:
    """A client and the threads that fetch by it; without threads each item is fetched when the last one has come."""

    def __init__(
        self,
        threads: int,
        fetch: Callable[[Wanted, memoryview], None],
        transient: tuple[type[Exception], ...],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.fetch, self.transient, self.close_client = fetch, (EOFError, *transient), close
        self.pool = ThreadPoolExecutor(threads) if threads else None

    def fill(self, rows: Sequence[memoryview], wanted: Iterable[Wanted]) -> None:
        """Fetch each of `wanted` into its row; return when all are there."""
        list((self.pool.map if self.pool else map)(self._whole, rows, wanted))

    def close(self) -> None:
        """End threads and connections."""
        if self.pool:
            self.pool.shutdown()
        self.close_client()

    def _whole(self, row: memoryview, wanted: Wanted) -> None:
        tried(lambda: self.fetch(wanted, row), wanted, self.transient)


class Objects(OpenedByEach, Batches):
    """The items of a split in a bucket, in whole batches, each fetched into its row of the batch.

    A subclass has `open()`, which returns what has `fill(rows, wanted)` and `close()`: each process has its own.
    """

    def __init__(self, request: LoaderRequest) -> None:
        super().__init__(request)
        self.wanted = Split(request).wanted

    def gathered(self, positions: list[int]) -> Any:
        """Return (n, ...)."""
        batch = empty_batch(len(positions), self.sample)
        rows = [memoryview(row).cast("B") for row in batch.numpy()]
        self.opened().fill(rows, map(self.wanted, positions))
        return batch
