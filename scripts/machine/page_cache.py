"""The page cache: a folder's files put out of it without root, and proof that an epoch read them from the device."""

import ctypes
import errno
import gc
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

CACHESTAT = 451  # number of cachestat(2), Linux 6.5 and later, the same on every architecture but alpha
PAGE = mmap.PAGESIZE
CHUNK_BYTES = 1 << 30  # of a file, looked at by mincore at a time
READ_BYTES, PIECE_BYTES = 1 << 20, 1 << 26  # that are read at a time, and by one thread in a row
READERS = 4  # threads that read files into the cache
WARM_SHARE = 0.99  # of the files that are in the cache: nothing is read again
COLD_PERCENT = 90.0  # of the files that a cold epoch must read from the device

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))  # length 0: to the end


class _Stat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


class Residency(NamedTuple):
    """How much of some files is in the page cache."""

    resident_bytes: int
    total_bytes: int
    method: str  # cachestat or mincore

    @property
    def share(self) -> float:
        """The resident part, 0 to 1; 0 of no bytes at all."""
        return self.resident_bytes / self.total_bytes if self.total_bytes else 0.0


def files_of(place: Path) -> list[Path]:
    """Return every regular file below a folder, links followed; of a file itself."""
    if place.is_file():
        return [place]
    return sorted(Path(where, name) for where, _, names in os.walk(place, followlinks=True) for name in names)


def evict(files: Iterable[Path]) -> None:
    """Write what is dirty to the device and drop the files' pages from the cache; needs no root.

    Pages that a process has mapped stay: whoever has mapped the file must have unmapped it. See posix_fadvise(2).
    """
    for path in files:
        with _opened(path) as descriptor:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(files: Iterable[Path]) -> None:
    """Have the files in the cache, by reading them once: READERS pieces at a time, each read in one request.

    The kernel's own readahead would ask the device for 128 KB after the other: a third of what it gives.
    """
    pieces = ((path, start) for path in files for start in range(0, path.stat().st_size, PIECE_BYTES))
    with ThreadPoolExecutor(READERS) as pool:
        for _ in pool.map(lambda piece: _read_piece(*piece), pieces):
            pass


def _read_piece(path: Path, start: int) -> None:
    buffer = memoryview(bytearray(READ_BYTES))
    with _opened(path) as descriptor:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead: a request is as long as the read
        for offset in range(start, start + PIECE_BYTES, READ_BYTES):
            if not os.preadv(descriptor, [buffer], offset):
                return


def residency(files: Iterable[Path]) -> Residency:
    """Return how much of the files is in the page cache, in whole pages; a file's last page counts as its bytes.

    By cachestat(2) where the kernel has it, else by mincore(2), which tells of files that belong to somebody else only
    that all is there.
    """
    resident = total = 0
    method = "cachestat"
    for path in files:
        with _opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            pages = _cachestat(descriptor) if method == "cachestat" else None
            if pages is None:
                method = "mincore"
                pages = _mincore(descriptor, size)
        resident += min(size, pages * PAGE)
        total += size
    return Residency(resident, total, method)


def why_not_warm(files: Iterable[Path], available: int, in_ram: int) -> tuple[str, bool]:
    """Return why a run did not find its files in the cache, by what is there now, and what to do; and whether the same
    run may find them there, once they were read.

    `available` bytes of memory can be had, cached files included; `in_ram` are those of files in RAM (tmpfs).
    """
    found = residency(files)
    size, room = f"its files have {found.total_bytes / 1e9:,.2f} GB", f"{available / 1e9:,.2f} GB"
    if found.share >= WARM_SHARE:
        return "its files are in the page cache, so that it reads past that, or other files: measure it cold", False
    if found.total_bytes > available:
        return (
            f"{size}, and memory has room for {room} beside what processes use and {in_ram / 1e9:,.2f} GB of files in "
            "RAM. Measure it cold or limited, with fewer items, or without copies in RAM"
        ), False
    return (
        f"{size}, memory has room for {room}, and {100 * found.share:.0f} % of them stayed in the page cache. "
        "Other programs read files or used memory meanwhile; the same command tries it again"
    ), True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Yield a file's descriptor, for reading."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _cachestat(descriptor: int) -> int | None:
    """Return the number of a file's pages in the cache, or None where the kernel cannot say."""
    found = _Stat()
    if _LIBC.syscall(CACHESTAT, descriptor, ctypes.byref(_Range(0, 0)), ctypes.byref(found), 0) == 0:
        return found.cache
    if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP, errno.EBADF):
        return None
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _mincore(descriptor: int, size: int) -> int:
    """Return the number of a file's pages in the cache, by mapping it without touching it."""
    resident = 0
    for start in range(0, size, CHUNK_BYTES):
        length = min(CHUNK_BYTES, size - start)
        address = _LIBC.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            pages = (ctypes.c_ubyte * -(-length // PAGE))()
            if _LIBC.mincore(address, length, pages):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            resident += sum(page & 1 for page in pages)
        finally:
            _LIBC.munmap(address, length)
    return resident


class EpochCache(NamedTuple):
    """Where the bytes of one cold epoch came from."""

    resident_bytes: int  # of the files in the page cache when the epoch began
    read_bytes: int  # that the process tree had fetched from devices during the epoch
    payload_bytes: int  # of the files
    problem: str  # why it was not cold, or empty


class ColdCache:
    """Makes the files of a location cold before an epoch, and says afterwards whether it was.

    `read_bytes` returns what this process tree has had fetched from block devices so far. `share`: of the files, which
    an epoch reads at least, where it delivers pieces of them.
    """

    def __init__(self, held_in: Path | None, read_bytes: Callable[[], int], share: float = 1.0) -> None:
        self.files = files_of(held_in) if held_in else []
        self._read_bytes, self._share = read_bytes, share
        self._begun = 0
        self._resident = Residency(0, 0, "")

    def evict(self) -> None:
        """Put the files out of the cache, before the loader that is to read them is opened."""
        gc.collect()  # maps that nobody refers to any more keep their pages in the cache
        evict(self.files)

    def begin(self) -> None:
        """Note the state at the epoch's begin, when its clock starts: its loader is not open yet."""
        self._resident = residency(self.files)
        self._begun = self._read_bytes()

    def end(self, share: float = 1.0) -> EpochCache:
        """Return the bytes that the epoch read, and whether that was all but 10 % of its `share` of the files.

        Of a part of an epoch no more than 10 % of the files may have been in the cache: what was read may be others.
        """
        read = self._read_bytes() - self._begun
        resident, payload = self._resident.resident_bytes, share * self._share * self._resident.total_bytes
        problem = ""
        if read < payload * COLD_PERCENT / 100 or (share < 1 and 100 * self._resident.share > 100 - COLD_PERCENT):
            problem = (
                f"{read / 1e6:,.1f} of {payload / 1e6:,.1f} MB were read from the device, needed are "
                f"{COLD_PERCENT:.0f} %; {100 * self._resident.share:.0f} % was in the page cache when the epoch began"
            )
        return EpochCache(resident, read, round(payload), problem)
