"""What is outside of programs that read object storage: where it is, and what their errors say to users.

The objects are those of the index that placing has left (`index.json`, beside the label arrays): no loader lists a
bucket. A fetched object is held to the index: its ETag, and as many bytes as an item has. What fails for now is tried
again, `ATTEMPTS` times in all; whatever else is wrong is a `UserError` that names the object.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from scripts.common.errors import UserError
from scripts.common.location import Location
from scripts.machine.objects import StoredObject, bucket_of, changed, read_index
from scripts.machine.signing import TOKEN

READS = ("s3",)
ENDPOINT = "AWS_ENDPOINT_URL"
IN_FLIGHT = {"in_flight": {"enum": [20, 5, 64], "default": 20}}  # requests at a time, in each process that reads
ATTEMPTS = 5
SECONDS = 30  # in which a server must answer


@contextmanager
def served(location: Location) -> Iterator[None]:
    """Have a program find in the environment where objects are; what it says of one becomes a UserError."""
    if not location.endpoint:
        yield
        return
    from scripts.loaders._plain.objects import ObjectError

    if location.read_by == "s3":
        bucket_of(location)  # or an error that says which credentials are absent
        if not os.environ.get(TOKEN):
            os.environ.pop(TOKEN, None)  # one that is empty would be sent by obstore
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
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        read_index(location.index)  # where the index is not whole, it says so
        raise
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
