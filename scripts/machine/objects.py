"""Reads objects of a bucket by ranged GETs: keep-alive sockets that receive into memory that the caller has.

The least that a read of object storage takes in Python, and so the ceiling that loaders are compared with. A read gives
exactly the bytes that were placed, or an error that says what to do: status, length and ETag are checked, what is
only for now (500, 503, a reset, a body that ends early) is asked for again, and nothing waits for ever.
"""

import contextlib
import json
import random
import re
import socket
import ssl
import time
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from scripts.common.errors import UserError, reading
from scripts.common.location import Location
from scripts.machine.signing import VALID_SECONDS, Credentials, credentials, presigned

INDEX = "index.json"
ATTEMPTS = 6
TIMEOUT_SECONDS = 20.0  # without a byte
LEAST_BYTES_PER_SECOND = 20_000  # of a body, beside the time above
BACKOFF_SECONDS = 0.1  # doubled with each attempt
LONGEST_PAUSE_SECONDS = 20.0
FOR_NOW = (429, 500, 502, 503, 504)
HEAD_BYTES = 16 * 1024  # an answer's head, and as much of the body as has come with it
ERROR_BYTES = 64 * 1024
SIGNED_SECONDS = VALID_SECONDS // 2  # after which a key is signed again
SIGNED_KEYS = 1 << 16  # that are kept, 0.4 kB each: to sign takes half as long as all else that a read takes of a CPU


class StoredObject(NamedTuple):
    """One object as it was placed."""

    key: str  # relative to the index's prefix
    size: int
    etag: str  # without quotation marks
    sha256: str


@dataclass(frozen=True)
class Index:
    """What was placed of one split: `index.json`."""

    bucket: str
    prefix: str
    objects: tuple[StoredObject, ...]
    region: str
    path_style: bool
    format: str = ""

    @cached_property
    def by_key(self) -> dict[str, StoredObject]:
        """The objects by their key."""
        return {one.key: one for one in self.objects}


def read_index(folder: Path) -> Index:
    """Return the index of a split's local folder (`Location.index`). Raises UserError where none is whole."""
    try:
        with reading(folder / INDEX, "place_format", delete=folder.parent):
            found = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            return Index(**{**found, "objects": tuple(StoredObject(**one) for one in found["objects"])})
    except FileNotFoundError:
        raise UserError(
            f"{folder}: found no {INDEX}; allowed is the folder of a split that was placed. To place it again, "
            "type the same command with --forcerun place_on_TIER at its end, with the name of its tier."
        ) from None


@dataclass(frozen=True)
class Bucket:
    """Where objects are asked for, and by whom."""

    name: str
    endpoint: str  # such as http://127.0.0.1:8333, without a path
    region: str
    path_style: bool
    who: Credentials = field(repr=False)

    @cached_property
    def host(self) -> str:
        """The Host header, as botocore signs it: the bucket is part of it where it is not part of the path."""
        url = urlsplit(self.endpoint)
        host = url.netloc.lower().removesuffix({"http": ":80", "https": ":443"}[url.scheme])
        return host if self.path_style else f"{self.name}.{host}"

    @property
    def origin(self) -> str:
        """What the URL of an object begins with."""
        return f"{urlsplit(self.endpoint).scheme}://{self.host}"

    def target(self, method: str, key: str) -> str:
        """Return the path and query of a request for the object of this whole key, signed."""
        return _signed(self, method, key, int(time.time() // SIGNED_SECONDS))

    def get(self, key: str, etag: str, start: int, stop: int) -> bytes:
        """Return the request for bytes `start` to `stop` of an object, as long as it has this ETag."""
        return (
            f"GET {self.target('GET', key)} HTTP/1.1\r\nHost: {self.host}\r\nRange: bytes={start}-{stop - 1}\r\n"
            f'If-Match: "{etag}"\r\nAccept-Encoding: identity\r\n\r\n'
        ).encode()


@lru_cache(SIGNED_KEYS)
def _signed(bucket: Bucket, method: str, key: str, _period: int) -> str:
    path = quote(f"/{bucket.name}/{key}" if bucket.path_style else f"/{key}")
    return presigned(method, f"{bucket.origin}{path}", bucket.who, bucket.region).removeprefix(bucket.origin)


def bucket_and_prefix(uri: str) -> tuple[str, str]:
    """Return ("BUCKET", "PREFIX/COPY") of s3://BUCKET/PREFIX/COPY."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return bucket, prefix.strip("/")


def bucket_of(location: Location) -> Bucket:
    """Return the bucket of a location that is served (`scripts.common.serving.reached`).

    Raises UserError without credentials.
    """
    assert location.endpoint, f"{location.uri} has no endpoint: nothing serves it"
    name, _ = bucket_and_prefix(location.uri)
    return Bucket(name, location.endpoint, location.region, location.path_style, credentials())


def connected(bucket: Bucket, timeout: float = TIMEOUT_SECONDS) -> socket.socket:
    """Return a connection to the bucket's host. Raises OSError."""
    url = urlsplit(bucket.endpoint)
    secure, host = url.scheme == "https", bucket.host.removesuffix(f":{url.port}")
    address = (host if secure else url.hostname, url.port or (443 if secure else 80))
    link = socket.create_connection(address, timeout)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ssl.create_default_context().wrap_socket(link, server_hostname=host) if secure else link


class Answer(NamedTuple):
    """The head of an answer."""

    status: int
    headers: dict[str, str]  # names in lower case


def parsed(head: bytes) -> Answer:
    """Return the head of an answer from its bytes, without the blank line. Raises ValueError where it is none."""
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines)
    return Answer(int(first.split(" ", 2)[1]), {name.strip().lower(): value.strip() for name, _, value in fields})


class Broken(OSError):
    """An answer that is to be asked for again."""

    def __init__(self, what: str, pause: float = 0.0) -> None:
        super().__init__(what)
        self.pause = pause  # seconds that the server asks for


class Getter:
    """One connection that reads objects of one split, one after the other; a context manager.

    For several reads in flight open as many, each in a thread of its own: receiving releases the interpreter's lock.
    """

    def __init__(self, location: Location, timeout: float = TIMEOUT_SECONDS, attempts: int = ATTEMPTS) -> None:
        self.bucket = bucket_of(location)
        _, self.prefix = bucket_and_prefix(location.uri)
        self.timeout, self.attempts = timeout, attempts
        self.retried = 0
        self._link: socket.socket | None = None
        self._head = bytearray(HEAD_BYTES)

    def __enter__(self) -> "Getter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next read opens another one."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.close()
            self._link = None

    def read_into(self, stored: StoredObject, into: Any, start: int = 0) -> None:
        """Fill `into`, writable bytes, with those of the object from `start` on.

        Raises UserError where the object has changed since it was placed, is gone, may not be read, or cannot be read
        after several attempts. Then the content of `into` is undefined.
        """
        view = memoryview(into).cast("B")
        if not view:
            return
        for attempt in range(self.attempts):
            try:
                self._read_once(stored, view, start)
                return
            except (OSError, ValueError, IndexError) as error:
                self.close()
                problem = error
                if attempt + 1 < self.attempts:
                    self.retried += 1
                    time.sleep(pause_after(attempt, error))
            except BaseException:
                self.close()
                raise
        raise UserError(
            f"object {stored.key!r} in s3://{self.bucket.name}/{self.prefix}: found {_words(problem)}, after "
            f"{self.attempts} attempts at {self.bucket.endpoint}; allowed is a whole answer. See whether the storage "
            "can be reached and is well, then type the same command again."
        ) from None

    def _read_once(self, stored: StoredObject, view: memoryview, start: int) -> None:
        if self._link is None:
            self._link = connected(self.bucket, self.timeout)
        link, stop = self._link, start + len(view)
        link.sendall(self.bucket.get(f"{self.prefix}/{stored.key}", stored.etag, start, stop))
        deadline = time.monotonic() + self.timeout + len(view) / LEAST_BYTES_PER_SECOND
        answer, came, end = self._receive_head(link)
        if answer.status not in (200, 206):
            self._refuse(answer, link, bytes(self._head[end:came]), stored)
        check(answer, stored, start, stop)
        done = came - end
        if done > len(view):
            raise Broken("more bytes than requested")
        view[:done] = memoryview(self._head)[end:came]
        while done < len(view):
            size = link.recv_into(view[done:])
            if not size:
                raise Broken(f"a body that ends after {done:,} of {len(view):,} bytes")
            done += size
            if time.monotonic() > deadline:
                raise Broken(f"a body of which {done:,} of {len(view):,} bytes came in time")
        if answer.headers.get("connection", "").lower() == "close":
            self.close()

    def _receive_head(self, link: socket.socket) -> tuple[Answer, int, int]:
        """Return (the head, how many bytes have come, where the body begins among them)."""
        came, view = 0, memoryview(self._head)
        while True:
            size = link.recv_into(view[came:])
            if not size:
                raise Broken("a connection that was closed" if came == 0 else "an answer that ends in its head")
            came += size
            end = self._head.find(b"\r\n\r\n", 0, came)
            if end >= 0:
                return parsed(bytes(self._head[:end])), came, end + 4
            if came == HEAD_BYTES:
                raise Broken("an answer whose head does not end")

    def _refuse(self, answer: Answer, link: socket.socket, body: bytes, stored: StoredObject) -> None:
        """Raise what an answer without the object's bytes means."""
        length = answer.headers.get("content-length", "")
        wanted = min(int(length), ERROR_BYTES) if length.isdigit() else 0
        with contextlib.suppress(OSError):
            while len(body) < wanted and (more := link.recv(wanted - len(body))):
                body += more
        self.close()
        raise refusal(answer, body, f"s3://{self.bucket.name}/{self.prefix}/{stored.key}")


def check(answer: Answer, stored: StoredObject, start: int, stop: int) -> None:
    """Raise Broken where an answer is not of the bytes that were asked for, UserError where the object is another."""
    if answer.headers.get("etag", "").strip('"') != stored.etag:
        raise changed(stored.key)
    if answer.status == 200 and (start, stop) != (0, stored.size):
        raise Broken("the whole object instead of a part")
    length = answer.headers.get("content-length")
    if length != str(stop - start):
        raise Broken(f"an answer of {length} bytes instead of {stop - start}")


def changed(key: str) -> UserError:
    """Return the error of an object that is not the one that was placed."""
    return UserError(
        f"object {key!r}: found another object than the placed one (its ETag has changed); allowed is that of the "
        "index. Nothing else may write below the tier's prefix. Place the format again: delete its record in "
        "results/placed and type the same command."
    )


def refusal(answer: Answer, body: bytes, uri: str) -> Exception:
    """Return what an answer that is an error means: Broken, to be asked for again, or a UserError.

    Only the code of the body is repeated: the rest may hold what was signed.
    """
    found = re.search(rb"<Code>(\w{1,64})</Code>", body)
    code = found[1].decode() if found else ""
    name = f"{answer.status}{f' {code}' if code else ''}"
    if answer.status in FOR_NOW or code in ("RequestTimeout", "SlowDown"):
        asked = answer.headers.get("retry-after", "")
        return Broken(f"status {name}", float(asked) if asked.isdigit() else 0.0)
    if answer.status == 412:
        return changed(uri)
    advice = {
        403: "Export credentials of a user who may read it (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
        "AWS_SESSION_TOKEN), and check the clock.",
        404: "It is gone: place the format again; delete its record in results/placed and type the same command.",
    }.get(answer.status, "See endpoint, bucket, region and path_style of the tier.")
    if code in ("ExpiredToken", "TokenRefreshRequired"):
        advice = "The credentials have expired: get new ones, export them, and type the same command again."
    return UserError(f"object {uri}: found status {name}; allowed is 200 or 206. {advice}")


def pause_after(attempt: int, error: Exception) -> float:
    """Return the seconds to wait before the next attempt: doubled each time, at random, or what the server asks for."""
    asked = getattr(error, "pause", 0.0)
    return min(LONGEST_PAUSE_SECONDS, max(asked, BACKOFF_SECONDS * 2**attempt * (0.5 + random.random() / 2)))


def _words(error: Exception) -> str:
    """Return what went wrong in words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return f"no address of the host ({error.strerror})"
    return str(error) or type(error).__name__
