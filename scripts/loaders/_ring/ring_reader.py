"""Random batches out of one big .npy file, gathered by threads into a small ring of reused buffers.

    with RingReader("audio.npy", batch_size=32, threads=2, ahead=2) as reader:
        for batch in reader.batches(np.random.default_rng(epoch).permutation(len(reader))):
            step(batch)  # a tensor (32, ...), valid until the next one is taken

This file stands alone: to use it in a project of your own, copy it. It needs Linux, numpy and torch.

Why it is fast. A batch is copied once, from the page cache to where it is used. A fresh buffer for each batch costs
as much again, since the kernel must find and clear its pages; a ring costs that once. Threads copy without Python's
lock: no worker process, no shared memory, no pickling. While the file is in the page cache its mapping is read from;
where it does not, page faults would wait for one another, and whole items are read by `preadv`, several at a time.
Which of the two is found out by asking for one byte of some items without waiting (RWF_NOWAIT, preadv2(2)).

With a GPU the ring is page-locked, the copy to the device runs beside what the device computes, and a buffer is reused
only when its copy is over. Items of int16 can be turned into float32 where they arrive, which halves what is read and
sent.
"""

import ctypes
import errno
import mmap
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

LIBC = ctypes.CDLL(None, use_errno=True)
SOURCES = ("auto", "map", "read", "direct")
BLOCK = 512  # bytes: what O_DIRECT reads in, open(2); some devices want 4096
PROBES = 64  # items that must be found in the page cache, the last so many, for the mapping to be read from


@dataclass(eq=False)
class _Buffer:
    """One place of the ring: a batch, and what has to be over before it may be written again."""

    rows: torch.Tensor
    array: np.ndarray  # the same memory
    copied: Any = None  # CUDA's event: the copy to the device is over


@dataclass(eq=False)
class _Filling:
    """A batch on its way into a buffer."""

    buffer: _Buffer
    items: np.ndarray  # int64 (batch,)
    parts: list[Future] = field(default_factory=list)


class RingReader:
    """Reads batches of items, the rows of an array of any shape in a .npy file, in any order that is asked for.

    threads: that read ahead; 0: the caller gathers when it asks, with torch's own threads, and nothing is ahead.
    ahead: batches in the making beside the one handed out; the ring has one buffer more.
    device, pin: where batches are wanted; a ring of page-locked memory (pin) makes the copy there asynchronous.
    scale: items are delivered as float32, times this, converted on the device; None: as they are.
    source: `map` or `read` to insist, `auto` to choose by what is in the page cache; `direct` reads past the page
        cache (O_DIRECT), for a file larger than memory: the kernel copies nothing and keeps nothing for later.
    copies: each batch is gathered into memory of its own, which lasts, for a consumer that keeps batches; on a CPU
        that memory is new for each batch, and costs what the allocator asks for it.

    Raises ValueError for a file that is no such array, or cannot be read as `source` says. An
    error while reading is raised where the batch is taken.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        batch_size: int,
        threads: int = 2,
        ahead: int = 2,
        device: str = "cpu",
        pin: bool = False,
        scale: float | None = None,
        source: str = "auto",
        copies: bool = False,
    ) -> None:
        if source not in SOURCES or threads < 0 or ahead < 1 or batch_size < 1:
            raise ValueError(f"{source=} {threads=} {ahead=} {batch_size=}: allowed are {SOURCES}, 0, 1 and 1 or more")
        self.path, self.batch_size, self.threads, self.device = os.fspath(path), batch_size, threads, device
        self.ahead = ahead if threads else 0
        self.pin, self.scale, self.source = pin, scale, source
        self._new_for_each = copies and device == "cpu"  # on another device a batch is a tensor of its own anyway
        with open(self.path, "rb") as file:
            self.shape, self.dtype, self.offset = _header(file)
            if os.fstat(file.fileno()).st_size < self.offset + self.dtype.itemsize * int(np.prod(self.shape)):
                raise ValueError(f"{self.path}: shorter than its header says, {self.shape} of {self.dtype}")
            self._file = os.dup(file.fileno())
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)  # or it reads ahead what nobody asked for
        self._unbuffered = -1
        flat = np.frombuffer(mapped, self.dtype, int(np.prod(self.shape)), self.offset)
        self._array = flat.reshape(self.shape)
        with warnings.catch_warnings(action="ignore"):  # torch warns of memory that cannot be written to
            self._tensor = torch.from_numpy(self._array)
        self.item_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        self._pool = ThreadPoolExecutor(threads, "ring") if threads else None
        self._rings: list[list[_Buffer]] = []  # given back by iterators that have ended
        self._lock = threading.Lock()
        self._scratch = threading.local()
        self._resident = 0  # probes in a row that found their item in the page cache
        if source == "direct":
            self._open_direct()

    def _open_direct(self) -> None:
        """Open the file once more, past the page cache; ValueError where that cannot be."""
        try:
            if self.offset % BLOCK or self.item_bytes % BLOCK:
                raise OSError(f"items of {self.item_bytes} bytes from byte {self.offset}; {BLOCK} must divide both")
            self._unbuffered = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
            last = self.offset + (len(self) - 1) * self.item_bytes
            os.preadv(self._unbuffered, [_pages(self.shape[1:], self._tensor.dtype)], last)
        except OSError as error:
            self.close()
            raise ValueError(f"{self.path}: cannot be read past the page cache: {error}") from None

    def __len__(self) -> int:
        return self.shape[0]

    def __enter__(self) -> "RingReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads and give back file and memory; batches that were handed out stay where they are."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
        for file in (self._file, self._unbuffered):
            if file >= 0:
                os.close(file)
        self._file = self._unbuffered = -1
        self._rings.clear()
        self._array = self._tensor = None

    def batches(self, items: Sequence[int] | np.ndarray) -> Iterator[torch.Tensor]:
        """Yield the items, in this order, as batches (batch, ...) on the device; the last one may be shorter.

        On a CPU a batch is valid until the next one is taken from this iterator (unless `copies`): it is in the
        ring. On another device it is a tensor of its own. Several iterators at once have a ring each. To break off
        waits for the reads of that moment. Raises IndexError for an item that is not there.
        """
        items = np.ascontiguousarray(items, dtype=np.int64)
        if items.size and not 0 <= items.min() <= items.max() < len(self):
            raise IndexError(f"{self.path}: items {items.min()} to {items.max()}, allowed are 0 to {len(self) - 1}")
        wanted = iter([items[start : start + self.batch_size] for start in range(0, len(items), self.batch_size)])
        with self._ring() as free:
            under_way: deque[_Filling] = deque()
            try:
                self._start(wanted, free, under_way)
                while under_way:
                    filling = under_way.popleft()
                    for part in filling.parts:
                        part.result()
                    yield self._handed_out(filling)
                    free.append(None if self._new_for_each else filling.buffer)
                    del filling  # and with it memory that nobody keeps
                    self._start(wanted, free, under_way)
            finally:
                parts = [part for filling in under_way for part in filling.parts]
                for part in parts:
                    part.cancel()
                wait(parts)  # nobody writes to the ring after it is given back

    @contextmanager
    def _ring(self) -> Iterator[deque[_Buffer | None]]:
        """Yield buffers that nobody else writes to, and take them back; None for each that is to be new."""
        if self._new_for_each:
            yield deque([None] * (self.ahead + 1))
            return
        with self._lock:
            ring = self._rings.pop() if self._rings else None
        ring = ring or [self._buffer(self.batch_size) for _ in range(self.ahead + 1)]
        try:
            yield deque(ring)
        finally:
            with self._lock:
                self._rings.append(ring)

    def _buffer(self, count: int) -> _Buffer:
        """Return a place for so many items."""
        convert = self.scale is not None and self.device == "cpu"
        dtype = torch.float32 if convert else self._tensor.dtype
        shape = (count, *self.shape[1:])
        if self._new_for_each:
            rows = torch.from_numpy(_allocated(shape, dtype))
        elif self.pin:
            rows = torch.empty(shape, dtype=dtype, pin_memory=True)
        else:
            rows = torch.from_numpy(_pages(shape, dtype))
        return _Buffer(rows, rows.numpy())

    def _start(self, wanted: Iterator[np.ndarray], free: deque[_Buffer | None], under_way: deque[_Filling]) -> None:
        """Begin as many batches as there are free buffers."""
        while free:
            items = next(wanted, None)
            if items is None:
                return
            filling = _Filling(free.popleft() or self._buffer(len(items)), items)
            if filling.buffer.copied is not None:
                filling.buffer.copied.synchronize()
            warm = self._warm(items)
            if self._pool is None:
                self._fill_now(filling, warm)
            else:
                cuts = np.linspace(0, len(items), min(len(items), self.threads) + 1).astype(int)
                spans = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
                filling.parts = [self._pool.submit(self._fill, filling, *span, warm) for span in spans]
            under_way.append(filling)

    def _warm(self, items: np.ndarray) -> bool:
        """Return whether to read from the mapping: the items are in the page cache, as far as a few of them tell."""
        if self.source != "auto":
            return self.source == "map"
        for item in items[: 1 if self._resident >= PROBES else PROBES].tolist():
            self._resident = self._resident + 1 if self._cached(item) else 0
        return self._resident >= min(PROBES, len(items))

    def _cached(self, item: int) -> bool:
        """Return whether the last byte of an item can be had without waiting."""
        where = self.offset + (item + 1) * self.item_bytes - 1
        try:
            return os.preadv(self._file, [bytearray(1)], where, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False
        except OSError as error:  # tmpfs and some network file systems do not know RWF_NOWAIT
            if error.errno != errno.EOPNOTSUPP:
                raise
            return self._mapped(where)

    def _mapped(self, where: int) -> bool:
        """Return whether the page with this byte of the file is in memory: mincore(2). Not known is no."""
        address = self._array.ctypes.data - self.offset + where
        page, told = ctypes.c_void_p(address - address % mmap.PAGESIZE), ctypes.c_ubyte()
        return LIBC.mincore(page, ctypes.c_size_t(1), ctypes.byref(told)) == 0 and bool(told.value & 1)

    def _fill_now(self, filling: _Filling, warm: bool) -> None:
        """Fill a batch in the caller: torch gathers with all its threads."""
        if warm and filling.buffer.rows.dtype == self._tensor.dtype:
            rows = filling.buffer.rows[: len(filling.items)]
            torch.index_select(self._tensor, 0, torch.from_numpy(filling.items), out=rows)
        else:
            self._fill(filling, 0, len(filling.items), warm)

    def _fill(self, filling: _Filling, start: int, stop: int, warm: bool) -> None:
        """Copy some items of a batch to their rows; without Python's lock while bytes move."""
        items, rows = filling.items[start:stop], filling.buffer.array[start:stop]
        if warm and rows.dtype == self.dtype:
            np.take(self._array, items, axis=0, out=rows, mode="clip")  # of the modes the one that needs no copy
            return
        for item, row in zip(items.tolist(), rows, strict=True):
            if warm:
                self._convert(self._array[item], row)
            elif row.dtype == self.dtype:
                self._read(item, row)
            else:
                raw = self._raw()
                self._read(item, raw)
                self._convert(raw, row)

    def _convert(self, raw: np.ndarray, row: np.ndarray) -> None:
        np.multiply(raw, np.float32(self.scale), out=row, dtype=np.float32)

    def _raw(self) -> np.ndarray:
        """Return this thread's place for one item as it is in the file."""
        if not hasattr(self._scratch, "item"):
            self._scratch.item = _pages(self.shape[1:], self._tensor.dtype)
        return self._scratch.item

    def _read(self, item: int, into: np.ndarray) -> None:
        """Read one item. A read may be short; what a signal interrupts Python takes up again (PEP 475)."""
        view = memoryview(into).cast("B")
        done = 0
        while done < self.item_bytes:
            file = self._file if self._unbuffered < 0 or done % BLOCK else self._unbuffered
            count = os.preadv(file, [view[done:]], self.offset + item * self.item_bytes + done)
            if count == 0:
                raise EOFError(f"{self.path}: ends within item {item}: it was cut short while it was open")
            done += count

    def _handed_out(self, filling: _Filling) -> torch.Tensor:
        """Return the filled rows on the device."""
        rows = filling.buffer.rows[: len(filling.items)]
        if self.device == "cpu":
            return rows
        sent = rows.to(self.device, non_blocking=self.pin)
        if self.pin:
            filling.buffer.copied = torch.cuda.Event()
            filling.buffer.copied.record()
        return sent if self.scale is None else sent.to(torch.float32).mul_(self.scale)


def _pages(shape: Sequence[int], dtype: torch.dtype) -> np.ndarray:
    """Return an unfilled array that begins on a page, in huge pages if it is large."""
    wanted = torch.empty(0, dtype=dtype).numpy().dtype
    memory = mmap.mmap(-1, max(1, wanted.itemsize * int(np.prod(shape))))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, wanted, int(np.prod(shape))).reshape(shape)


def _allocated(shape: Sequence[int], dtype: torch.dtype) -> np.ndarray:
    """Return the same in memory from malloc, which may keep it when it is freed, for the next one."""
    wanted = torch.empty(0, dtype=dtype).numpy().dtype
    size = wanted.itemsize * int(np.prod(shape))
    memory = np.empty(size + mmap.PAGESIZE, np.uint8)
    start = -memory.ctypes.data % mmap.PAGESIZE
    return memory[start : start + size].view(wanted).reshape(shape)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return (shape, dtype, offset of the first byte) of a .npy file; ValueError for what cannot be read by rows."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{file.name}: found version {version} of the .npy format, allowed are 1.0 and 2.0")
    shape, fortran, dtype = read(file)
    if fortran or dtype.hasobject or not shape or 0 in shape:
        raise ValueError(f"{file.name}: found {shape} of {dtype}, allowed are rows of numbers in C order")
    return shape, dtype, file.tell()
