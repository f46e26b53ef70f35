"""A file on a server, read in the ranges that are asked for: a segment of a long recording costs its own bytes.

Not fsspec's HTTPFile, which brings a network of its own (aiohttp) where yt-dlp's has the cookies, the proxy and the
headers that the address is valid for. Tried against a server that sends too few bytes, other bytes, or another file
than before, it takes all three for the recording; here they are errors.
"""

import io
from collections.abc import Callable
from functools import lru_cache

BLOCK_BYTES = 1 << 18  # some ten seconds of audio
BLOCKS_KEPT = 16


class NoRanges(Exception):
    """The server sends the whole file whatever range is asked for."""


class RangedFile(io.RawIOBase):
    """A readable, seekable binary file whose bytes `read_range(first, last)` fetches, both ends included.

    `read_range` returns (bytes, size of the whole file) and raises NoRanges where the server has none. After an error
    no more is read, and `fault` keeps it: FFmpeg takes an error for the file's end.
    """

    def __init__(self, read_range: Callable[[int, int], tuple[bytes, int]]) -> None:
        self._read_range = read_range
        self._block = lru_cache(BLOCKS_KEPT)(self._fetched)
        self._position = 0
        self.fault: Exception | None = None
        self.fetched_bytes = 0
        self.size = 0  # until the first block tells
        self._block(0)

    def _fetched(self, number: int) -> bytes:
        first = number * BLOCK_BYTES
        last = first + BLOCK_BYTES - 1
        block, size = self._read_range(first, min(last, self.size - 1) if self.size else last)
        if self.size and size != self.size:
            raise ConnectionError(f"the server's file had {self.size} bytes and now has {size}")
        self.size = size
        if len(block) != min(BLOCK_BYTES, self.size - first):
            raise ConnectionError(f"the server sent {len(block)} bytes of a range of {BLOCK_BYTES}")
        self.fetched_bytes += len(block)
        return block

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` and return the new position."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes from the position on; none at the end, and after an error."""
        try:
            return b"" if self.fault else self._read(size)
        except Exception as error:
            self.fault = error
            return b""

    def _read(self, size: int) -> bytes:
        end = self.size if size < 0 else min(self._position + size, self.size)
        parts = []
        while self._position < end:
            number, offset = divmod(self._position, BLOCK_BYTES)
            part = self._block(number)[offset : offset + end - self._position]
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)
