"""Emulated distance and width of a network: how long a server or proxy waits, and how many bytes a second it passes."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

CHUNK = 256 * 1024  # bytes that are passed at a time where their rate is limited


class Pace:
    """A line of so many MB/s (10^6 bytes a second) that threads share."""

    def __init__(self, megabytes_per_second: float) -> None:
        self.rate = megabytes_per_second * 1e6
        self._lock, self._free = threading.Lock(), 0.0

    def wait(self, size: int) -> None:
        """Return once the line has taken `size` bytes, after those that others have asked for."""
        with self._lock:
            self._free = max(self._free, time.monotonic()) + size / self.rate
            until = self._free
        time.sleep(max(0.0, until - time.monotonic()))


@dataclass(frozen=True)
class Emulated:
    """What is emulated; 0 means that it is not."""

    latency_ms: float = 0.0  # before the first byte of each answer
    stream_mbps: float = 0.0  # MB/s of one connection
    total_mbps: float = 0.0  # MB/s of all connections

    def __bool__(self) -> bool:
        return any((self.latency_ms, self.stream_mbps, self.total_mbps))

    def total(self) -> Sequence[Pace]:
        """Return the line that all connections share, none where it is not limited."""
        return [Pace(self.total_mbps)] if self.total_mbps else []

    def stream(self) -> Sequence[Pace]:
        """Return the line of one connection, none where it is not limited."""
        return [Pace(self.stream_mbps)] if self.stream_mbps else []
