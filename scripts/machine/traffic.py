"""What a server or proxy that feedrate starts was asked for: two counters in a file, which other processes read."""

import mmap
import struct
import threading
from collections.abc import Iterable
from pathlib import Path

from scripts.common.files import whole_file

_COUNTS = struct.Struct("=qq")


class Traffic:
    """Requests and bytes of answers, counted from 0 in the file `path`; threads may share it.

    The file takes the place of another one as a whole: several proofs at a time serve one folder, each by a server of
    its own, and what one has mapped must not become shorter. The counters are those of the server that began last.
    """

    def __init__(self, path: Path) -> None:
        with whole_file(path, "w+b") as file:
            file.write(bytes(_COUNTS.size))
            file.flush()
            self._counts = mmap.mmap(file.fileno(), _COUNTS.size)
        self._lock, self._asked, self._sent = threading.Lock(), 0, 0

    def add(self, requests: int = 0, sent: int = 0) -> None:
        """Count requests, and bytes that answer them."""
        with self._lock:
            self._asked, self._sent = self._asked + requests, self._sent + sent
            _COUNTS.pack_into(self._counts, 0, self._asked, self._sent)


def counted(paths: Iterable[str]) -> tuple[int, int] | None:
    """Return (requests, bytes) of all counters together; None where there is none."""
    found = [_COUNTS.unpack(Path(path).read_bytes()) for path in paths]
    return (sum(asked for asked, _ in found), sum(sent for _, sent in found)) if found else None
