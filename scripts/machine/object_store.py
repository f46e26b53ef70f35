"""Objects in files: a folder of data and an index of keys in SQLite, which several server processes may share."""

import hashlib
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = 1024 * 1024
LAST_CHARACTER = "\U0010ffff"
_TABLES = """
create table if not exists buckets (name text primary key);
create table if not exists objects (bucket text, key text, size integer, etag text, file text, changed real,
                                    primary key (bucket, key)) without rowid;
"""


class Entry(NamedTuple):
    """One object."""

    key: str
    size: int
    etag: str  # MD5 of its bytes; of one that came in parts that of theirs, and their number
    file: str  # below the folder of data
    changed: float  # seconds since 1970


class Part(NamedTuple):
    """Bytes that have come and have no key yet."""

    path: Path
    size: int
    md5: bytes
    sha256: str


class Store:
    """Buckets and their objects below a folder. An object is replaced whole or not at all."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self._file, self._of_thread = root / "objects.sqlite", threading.local()
        self._base.executescript(_TABLES)

    @property
    def _base(self) -> sqlite3.Connection:
        if not hasattr(self._of_thread, "base"):
            self._of_thread.base = sqlite3.connect(self._file, timeout=60, isolation_level=None)
            # Not flushed: a killed process loses nothing, and of a machine that fails the copies are placed again.
            self._of_thread.base.execute("pragma synchronous = off")
        return self._of_thread.base

    def close(self) -> None:
        """Close what this thread has open."""
        if hasattr(self._of_thread, "base"):
            self._of_thread.base.close()
            del self._of_thread.base

    def make_bucket(self, name: str) -> None:
        """Make a bucket, which may be there already."""
        self._base.execute("insert or ignore into buckets values (?)", (name,))

    def has_bucket(self, name: str) -> bool:
        """Return whether there is such a bucket."""
        return bool(self._base.execute("select 1 from buckets where name = ?", (name,)).fetchone())

    def find(self, bucket: str, key: str) -> Entry | None:
        """Return the object of this key, or None."""
        asked = "select key, size, etag, file, changed from objects where bucket = ? and key = ?"
        found = self._base.execute(asked, (bucket, key)).fetchone()
        return Entry(*found) if found else None

    def open(self, bucket: str, key: str) -> tuple[Entry, int] | None:
        """Return an object and a file descriptor of its bytes, or None."""
        while entry := self.find(bucket, key):
            try:
                return entry, os.open(self.data / entry.file, os.O_RDONLY)
            except FileNotFoundError:  # it was replaced in between
                if self.find(bucket, key) == entry:
                    raise
        return None

    def receive(self, blocks: Iterable[bytes]) -> Part:
        """Write bytes that come to a file of their own."""
        name = secrets.token_hex(16)
        path = self.data / name[:2] / name
        path.parent.mkdir(exist_ok=True)
        size, md5, sha256 = 0, hashlib.md5(usedforsecurity=False), hashlib.sha256()
        try:
            with open(path, "wb") as file:
                for block in blocks:
                    size += file.write(block)
                    md5.update(block)
                    sha256.update(block)
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
        whole = self.receive(block for part in parts for block in _blocks(part.path))
        for part in parts:
            part.path.unlink()
        total = hashlib.md5(b"".join(part.md5 for part in parts), usedforsecurity=False).hexdigest()
        return self._put(bucket, key, whole, f"{total}-{len(parts)}")

    def _put(self, bucket: str, key: str, part: Part, etag: str) -> Entry:
        entry = Entry(key, part.size, etag, str(part.path.relative_to(self.data)), time.time())
        self._base.execute("begin immediate")
        before = self.find(bucket, key)
        self._base.execute("insert or replace into objects values (?, ?, ?, ?, ?, ?)", (bucket, *entry))
        self._base.execute("commit")
        if before:
            (self.data / before.file).unlink(missing_ok=True)
        return entry

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object, which may be gone already."""
        entry = self.find(bucket, key)
        if entry:
            self._base.execute("delete from objects where bucket = ? and key = ?", (bucket, key))
            (self.data / entry.file).unlink(missing_ok=True)

    def listed(self, bucket: str, prefix: str, after: str, most: int) -> list[Entry]:
        """Return at most so many objects whose key begins with `prefix` and comes after `after`, in order of bytes."""
        asked = (
            "select key, size, etag, file, changed from objects "
            "where bucket = ? and key >= ? and key < ? and key > ? order by key limit ?"
        )
        values = (bucket, prefix, prefix + LAST_CHARACTER, after, most)
        return [Entry(*row) for row in self._base.execute(asked, values)]


def _blocks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield block
