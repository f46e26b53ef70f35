"""The objects of the stand-in for S3: a folder a bucket and a file an object, which several processes may share."""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

ROUND = 1024 * 1024
HEAD = 64  # bytes of a file before those of its object: the ETag, and blanks


class Entry(NamedTuple):
    """One object."""

    key: str
    size: int
    etag: str  # MD5 of its bytes; of one that came in parts that of theirs, and their number
    changed: float  # seconds since 1970


class Part(NamedTuple):
    """Bytes that have come and have no key yet, in a file below a blank head."""

    path: Path
    size: int
    md5: bytes
    sha256: str

    def rounds(self) -> Iterator[bytes]:
        """Yield the bytes."""
        with open(self.path, "rb") as file:
            file.seek(HEAD)
            while round_number := file.read(ROUND):
                yield round_number


class Store:
    """Buckets and their objects below a folder. An object is replaced whole or not at all."""

    def __init__(self, root: Path) -> None:
        self.parts, self.buckets = root / "parts", root / "buckets"
        self.parts.mkdir(parents=True, exist_ok=True)

    def _path(self, bucket: str, key: str) -> Path:
        return self.buckets / bucket / quote(key, safe="")

    def make_bucket(self, name: str) -> None:
        """Make a bucket, which may be there already."""
        (self.buckets / name).mkdir(parents=True, exist_ok=True)

    def has_bucket(self, name: str) -> bool:
        """Return whether there is such a bucket."""
        return (self.buckets / name).is_dir()

    def open(self, bucket: str, key: str) -> tuple[Entry, int] | None:
        """Return an object and a file descriptor, whose first HEAD bytes are not the object's; or None."""
        try:
            file = os.open(self._path(bucket, key), os.O_RDONLY)
        except FileNotFoundError:
            return None
        about = os.fstat(file)
        return Entry(key, about.st_size - HEAD, os.pread(file, HEAD, 0).decode().strip(), about.st_mtime), file

    def find(self, bucket: str, key: str) -> Entry | None:
        """Return the object of this key, or None."""
        found = self.open(bucket, key)
        if found is None:
            return None
        os.close(found[1])
        return found[0]

    def read(self, bucket: str, key: str) -> bytes:
        """Return the bytes of an object that is there."""
        return self._path(bucket, key).read_bytes()[HEAD:]

    def receive(self, rounds: Iterable[bytes]) -> Part:
        """Write bytes that come to a file of their own."""
        path = self.parts / secrets.token_hex(16)
        size, md5, sha256 = 0, hashlib.md5(usedforsecurity=False), hashlib.sha256()
        try:
            with open(path, "wb") as file:
                file.write(b" " * HEAD)
                for round_number in rounds:
                    size += file.write(round_number)
                    md5.update(round_number)
                    sha256.update(round_number)
        except BaseException:
            path.unlink()
            raise
        return Part(path, size, md5.digest(), sha256.hexdigest())

    def put(self, bucket: str, key: str, part: Part) -> Entry:
        """Give bytes a key, in place of what had it before."""
        return self._put(bucket, key, part, part.md5.hex())

    def join(self, bucket: str, key: str, parts: Iterable[Part]) -> Entry:
        """Make one object of parts, which are deleted; its ETag is that of Amazon's multipart uploads."""
        parts = list(parts)
        whole = self.receive(round_number for part in parts for round_number in part.rounds())
        for part in parts:
            part.path.unlink()
        total = hashlib.md5(b"".join(part.md5 for part in parts), usedforsecurity=False).hexdigest()
        return self._put(bucket, key, whole, f"{total}-{len(parts)}")

    def _put(self, bucket: str, key: str, part: Part, etag: str) -> Entry:
        with open(part.path, "r+b") as file:
            file.write(etag.encode())
        part.path.rename(self._path(bucket, key))
        return self.find(bucket, key)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object, which may be gone already."""
        self._path(bucket, key).unlink(missing_ok=True)

    def listed(self, bucket: str, prefix: str, after: str = "", most: int | None = None) -> list[Entry]:
        """Return at most so many objects whose key begins with `prefix` and comes after `after`, in order of bytes."""
        keys = sorted(unquote(name) for name in os.listdir(self.buckets / bucket))
        wanted = [key for key in keys if key.startswith(prefix) and key > after][:most]
        return [found for key in wanted if (found := self.find(bucket, key))]
