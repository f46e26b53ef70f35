"""The objects of the stand-in for S3: a folder a bucket and a file an object, which several processes may share."""

import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

HEAD = 64  # bytes of a file before those of its object: the ETag, and blanks


class Entry(NamedTuple):
    """One object."""

    key: str
    content: bytes
    etag: str  # MD5 of its bytes; of one that came in parts that of theirs, and their number
    changed: float  # seconds since 1970

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.content)


def md5_of(content: bytes) -> str:
    """Return the ETag of bytes that come by one request."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class Store:
    """Buckets and their objects below a folder. An object is replaced whole or not at all."""

    def __init__(self, root: Path) -> None:
        self.buckets = root / "buckets"

    def _path(self, bucket: str, key: str) -> Path:
        return self.buckets / bucket / quote(key, safe="")

    def make_bucket(self, name: str) -> None:
        """Make a bucket, which may be there already."""
        (self.buckets / name).mkdir(parents=True, exist_ok=True)

    def has_bucket(self, name: str) -> bool:
        """Return whether there is such a bucket."""
        return (self.buckets / name).is_dir()

    def find(self, bucket: str, key: str) -> Entry | None:
        """Return the object of this key, or None."""
        try:
            with open(self._path(bucket, key), "rb") as file:
                etag, content, changed = file.read(HEAD), file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        return Entry(key, content, etag.decode().strip(), changed)

    def put(self, bucket: str, key: str, content: bytes, etag: str = "") -> str:
        """Give bytes a key, in place of what had it before; return their ETag."""
        etag = etag or md5_of(content)
        aside = self.buckets.parent / secrets.token_hex(16)
        aside.write_bytes(etag.encode().ljust(HEAD) + content)
        aside.rename(self._path(bucket, key))
        return etag

    def join(self, bucket: str, key: str, parts: Sequence[bytes]) -> str:
        """Make one object of parts; return its ETag, which is that of Amazon's multipart uploads."""
        total = md5_of(b"".join(bytes.fromhex(md5_of(part)) for part in parts))
        return self.put(bucket, key, b"".join(parts), f"{total}-{len(parts)}")

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object, which may be gone already."""
        self._path(bucket, key).unlink(missing_ok=True)

    def listed(self, bucket: str, prefix: str, after: str = "", most: int | None = None) -> list[Entry]:
        """Return at most so many objects whose key begins with `prefix` and comes after `after`, in order of bytes."""
        keys = sorted(unquote(name) for name in os.listdir(self.buckets / bucket))
        wanted = [key for key in keys if key.startswith(prefix) and key > after][:most]
        return [found for key in wanted if (found := self.find(bucket, key))]
