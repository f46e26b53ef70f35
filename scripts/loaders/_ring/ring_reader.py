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
To ask for a batch that is ready is to be handed it: looking for what comes next, and labels, is the threads' work too.

With a GPU the ring is page-locked, copies to the device have a stream of their own beside what it computes, and the
buffer that was just handed out is filled last, when its copy is over. Items of int16 can be turned into float32 where
they arrive, which halves what is read and sent.

`FetchingRing` is the same for items that are fetched one by one, such as objects in a bucket, with many requests in
flight.
"""

import ctypes
import errno
import mmap
import os
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from queue import SimpleQueue
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
    beside: tuple[torch.Tensor, ...]
    batch: list[torch.Tensor] = field(default_factory=list)  # the items' rows of the buffer, and of what is beside
    parts: int = 0  # that threads fill
    ended: list[BaseException | None] = field(default_factory=list)  # for each part that is over: what went wrong
    all_ended: threading.Event = field(default_factory=threading.Event)
    unwanted: bool = False  # parts that are not begun need not be

    @property
    def over(self) -> bool:
        """Whether no thread has, or comes to, a part of it any more."""
        return len(self.ended) == self.parts

    def end(self, error: BaseException | None) -> None:
        """Note that a part is over."""
        self.ended.append(error)
        if self.over:
            self.all_ended.set()

    def wait(self) -> None:
        """Return when all parts are over; raise what went wrong with any."""
        if not self.over:
            self.all_ended.wait()
        for error in filter(None, self.ended):
            raise error


@dataclass(eq=False)
class _Begun:
    """An epoch that has begun: its buffers, and the batches that are on their way into some of them."""

    beside: tuple[torch.Tensor, ...]
    free: deque[_Buffer | None]  # None for each that is to be new
    ring: list[_Buffer] = field(default_factory=list)  # all of its buffers
    under_way: deque[_Filling] = field(default_factory=deque)
    items: np.ndarray | None = None  # int64 (items,), of an epoch that was begun ahead
    sent: deque[_Buffer | None] = field(default_factory=deque)  # handed out last: the copy may be under way


class Ring:
    """A ring of reused buffers that threads fill with batches: what a reader of any source shares.

    A reader sets `shape` and `dtype` of the array whose rows are its items, and has `_fill_rows(filling, start, stop)`;
    one that works without threads has `_fill_now(filling)` too.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    scale: float | None = None
    _whole_pages = False  # whether batches must begin on a page
    _at_once = 0  # items that a thread takes at a time; 0: its share of a batch

    def __init__(
        self, name: str, batch_size: int, threads: int, ahead: int, device: str, pin: bool, copies: bool
    ) -> None:
        self.name, self.batch_size, self.threads, self.device, self.pin = name, batch_size, threads, device, pin
        self.ahead = ahead if threads else 0
        self._kept_back = int(pin and device != "cpu")  # buffers that wait for their copy while others are filled
        self._stream: Any = None  # for copies to the device
        self._new_for_each = copies and device == "cpu"  # on another device a batch is a tensor of its own anyway
        self._work: SimpleQueue = SimpleQueue()  # parts of batches, for whichever thread comes first
        crew = [threading.Thread(target=_serve, args=[self._work], name="ring", daemon=True) for _ in range(threads)]
        self._end = weakref.finalize(self, _dismiss, self._work, crew)  # also when nobody has the reader any more
        for thread in crew:
            thread.start()
        self._rings: list[list[_Buffer]] = []  # given back by iterators that have ended
        self._next: _Begun | None = None  # the epoch that was begun ahead
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        return self.shape[0]

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads and give back memory; batches that were handed out stay where they are."""
        self._closed = True
        self._end()
        self._next = None
        self._rings.clear()

    def batches(
        self,
        items: Sequence[int] | np.ndarray,
        *beside: torch.Tensor,
        then: Sequence[int] | np.ndarray | None = None,
    ) -> Iterator[Any]:
        """Yield the items, in this order, as batches (batch, ...) on the device; the last one may be shorter.

        beside: tensors in memory with a row for each item, such as targets: the threads gather them too, and what is
        yielded is a tuple of the batch and its rows of each, on the device.
        then: the items of the epoch that follows. While the last batches of this one are used its first ones are
        read, and the next call with just these items hands them out; any other call drops them.

        On a CPU a batch is valid until the next one is taken from this iterator (unless `copies`): it is in the
        ring. On another device it is a tensor of its own. Several iterators at once have a ring each. To break off
        waits for the reads of that moment. Raises IndexError for an item that is not there.
        """
        items, following = self._checked(items), self._checked([] if then is None else then)
        begun = self._begun(items, beside)
        free, under_way = begun.free, begun.under_way
        starts = range(len(under_way) * self.batch_size, len(items), self.batch_size)
        wanted = (items[start : start + self.batch_size] for start in starts)
        coming = (following[start : start + self.batch_size] for start in range(0, len(following), self.batch_size))
        wanted = chain(wanted, coming)
        try:
            for _ in range(0, len(items), self.batch_size):
                if not under_way or not under_way[0].over:  # else what is ready is handed out first
                    self._start(wanted, begun)
                under_way[0].wait()
                filling = under_way.popleft()
                batch, buffer = self._handed_out(filling), None if self._new_for_each else filling.buffer
                del filling
                self._start(wanted, begun)  # last: threads that wake may take this core
                yield batch
                del batch  # and with it memory that nobody keeps
                begun.sent.append(buffer)
                if len(begun.sent) > self._kept_back:
                    free.append(begun.sent.popleft())
            if under_way:
                begun.items = following
                self._drop(self._exchange(begun))
                begun = None
        finally:
            self._drop(begun)

    def _checked(self, items: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the items as int64 (items,); IndexError for one that is not there."""
        items = np.ascontiguousarray(items, dtype=np.int64)
        if items.size and not 0 <= items.min() <= items.max() < len(self):
            raise IndexError(f"{self.name}: items {items.min()} to {items.max()}, allowed are 0 to {len(self) - 1}")
        return items

    def _begun(self, items: np.ndarray, beside: tuple[torch.Tensor, ...]) -> "_Begun":
        """Return the epoch of these items, of which some batches may be under way, with a ring that is its own."""
        begun = self._exchange(None)
        if (
            begun is not None
            and np.array_equal(begun.items, items)
            and list(map(id, begun.beside)) == list(map(id, beside))
        ):
            return begun
        self._drop(begun)
        if self._new_for_each:  # a buffer is made for each batch, when it is
            return _Begun(beside, deque([None] * (self.ahead + 1)))
        with self._lock:
            ring = self._rings.pop() if self._rings else None
        ring = ring or [self._buffer(self.batch_size) for _ in range(self.ahead + 1 + self._kept_back)]
        return _Begun(beside, deque(ring), ring)

    def _exchange(self, begun: "_Begun | None") -> "_Begun | None":
        """Keep this for the next call; return what was kept."""
        with self._lock:
            kept, self._next = self._next, begun
        return kept

    def _drop(self, begun: "_Begun | None") -> None:
        """Wait until nobody writes to its ring any more, and give that back."""
        if begun is None:
            return
        for filling in begun.under_way:
            filling.unwanted = True
        for filling in begun.under_way:
            with suppress(Exception):
                filling.wait()
        if begun.ring:
            with self._lock:
                self._rings.append(begun.ring)

    def _buffer(self, count: int) -> _Buffer:
        """Return a place for so many items."""
        convert = self.scale is not None and self.device == "cpu"
        shape = (count, *self.shape[1:])
        if self._new_for_each and not self._whole_pages:  # from malloc, which may keep it when it is freed
            array = np.empty(shape, np.float32 if convert else self.dtype)
            return _Buffer(torch.from_numpy(array), array)
        dtype = torch.float32 if convert else torch.from_numpy(np.empty(0, self.dtype)).dtype
        if self.pin and not self._new_for_each:
            rows = torch.empty(shape, dtype=dtype, pin_memory=True)
        else:
            rows = torch.from_numpy(_pages(shape, dtype))
        return _Buffer(rows, rows.numpy())

    def _start(self, wanted: Iterator[np.ndarray], begun: "_Begun") -> None:
        """Begin as many batches as there are free buffers; where threads read, this only tells them."""
        if self._closed:
            raise ValueError(f"{self.name}: the reader is closed")
        while begun.free:
            items = next(wanted, None)
            if items is None:
                return
            parts = -(-len(items) // self._at_once) if self._at_once else self.threads
            buffer = begun.free.popleft() or self._buffer(len(items))
            filling = _Filling(buffer, items, begun.beside, parts=parts)
            begun.under_way.append(filling)
            for number in range(filling.parts):
                self._work.put(partial(self._fill_part, filling, number))
            if not self.threads:
                self._fill_now(filling)

    def _fill_part(self, filling: _Filling, number: int) -> None:
        """Fill some rows of a batch, in a thread; note that it is over, or what went wrong."""
        start, stop = (len(filling.items) * edge // filling.parts for edge in (number, number + 1))
        try:
            if not filling.unwanted:
                if number == 0:
                    filling.batch = self._batch(filling)
                if filling.buffer.copied is not None:
                    filling.buffer.copied.synchronize()
                self._fill_rows(filling, start, stop)
        except BaseException as error:
            filling.end(error)
        else:
            filling.end(None)

    def _batch(self, filling: _Filling) -> list[torch.Tensor]:
        """Return the rows of the buffer that are to be filled, and the items' rows of what is beside them."""
        where = torch.from_numpy(filling.items)
        beside = (tensor[where] for tensor in filling.beside)
        return [filling.buffer.rows[: len(where)], *(part.pin_memory() if self.pin else part for part in beside)]

    def _handed_out(self, filling: _Filling) -> Any:
        """Return the filled rows on the device, with those beside it where there are such."""
        batch = filling.batch
        if self.device != "cpu" and self.pin:
            batch = self._sent(filling)
        elif self.device != "cpu":
            batch = self._on_device(batch)
        return tuple(batch) if len(batch) > 1 else batch[0]

    def _sent(self, filling: _Filling) -> list[torch.Tensor]:
        """Begin to copy a filled batch on the stream of copies; the caller's stream waits for it from now on."""
        self._stream = self._stream or torch.cuda.Stream()
        with torch.cuda.stream(self._stream):
            batch = self._on_device(filling.batch)
            filling.buffer.copied = torch.cuda.Event()
            filling.buffer.copied.record()
        current = torch.cuda.current_stream()
        current.wait_event(filling.buffer.copied)
        for tensor in batch:
            tensor.record_stream(current)  # its memory is of the other stream, which must not reuse it before
        return batch

    def _on_device(self, batch: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return a batch on the device, its items as they are to be delivered."""
        rows, *others = (tensor.to(self.device, non_blocking=self.pin) for tensor in batch)
        return [rows if self.scale is None else rows.to(torch.float32).mul_(self.scale), *others]


class RingReader(Ring):
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
        self.path, self.source = os.fspath(path), source
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
        self._scratch = threading.local()
        self._nowait = True  # whether the file system knows RWF_NOWAIT
        self._resident = 0  # probes in a row that found their item in the page cache
        self.scale = scale
        super().__init__(self.path, batch_size, threads, ahead, device, pin, copies)
        if source == "direct":
            self._open_direct()

    def _open_direct(self) -> None:
        """Open the file once more, past the page cache; ValueError where that cannot be."""
        try:
            if self.offset % BLOCK or self.item_bytes % BLOCK:
                raise OSError(f"items of {self.item_bytes} bytes from byte {self.offset}; {BLOCK} must divide both")
            self._unbuffered = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
            self._whole_pages = True
            last = self.offset + (len(self) - 1) * self.item_bytes
            os.preadv(self._unbuffered, [_pages(self.shape[1:], self._tensor.dtype)], last)
        except OSError as error:
            self.close()
            raise ValueError(f"{self.path}: cannot be read past the page cache: {error}") from None

    def close(self) -> None:
        """End the threads and give back file and memory; batches that were handed out stay where they are."""
        super().close()
        for file in (self._file, self._unbuffered):
            if file >= 0:
                os.close(file)
        self._file = self._unbuffered = -1
        self._array = self._tensor = None

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
        if not self._nowait:
            return self._mapped(where)
        try:
            return os.preadv(self._file, [bytearray(1)], where, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False
        except OSError as error:  # tmpfs and some network file systems do not know RWF_NOWAIT
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._nowait = False
            return self._mapped(where)

    def _mapped(self, where: int) -> bool:
        """Return whether the page with this byte of the file is in memory: mincore(2). Not known is no."""
        address = self._array.ctypes.data - self.offset + where
        page, told = ctypes.c_void_p(address - address % mmap.PAGESIZE), ctypes.c_ubyte()
        return LIBC.mincore(page, ctypes.c_size_t(1), ctypes.byref(told)) == 0 and bool(told.value & 1)

    def _fill_now(self, filling: _Filling) -> None:
        """Fill a batch in the caller: torch gathers with all its threads."""
        filling.batch = self._batch(filling)
        if filling.buffer.copied is not None:
            filling.buffer.copied.synchronize()
        warm = self._warm(filling.items)
        if not (warm and filling.buffer.rows.dtype == self._tensor.dtype):
            self._fill(filling, 0, len(filling.items), warm)
            return
        torch.index_select(self._tensor, 0, torch.from_numpy(filling.items), out=filling.batch[0])

    def _fill_rows(self, filling: _Filling, start: int, stop: int) -> None:
        """Copy some items of a batch to their rows, from where they can be had."""
        self._fill(filling, start, stop, self._warm(filling.items[start:stop]))

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


class FetchingRing(Ring):
    """Reads batches of items that are fetched one by one, such as objects in a bucket, with many requests in flight.

    connect: called in each thread; returns what has `read_into(item, row)`, which fills a row, and `close()`.
    items, shape, dtype: how many there are, and what each of them is.
    in_flight: threads, each with a connection of its own and a request under way. They do not wait for the end of a
        batch: beside the one handed out the ring has `ahead` batches, and at least twice as many items as threads.
    device, pin, copies: as of a RingReader. An error of a connection is raised where the batch is taken.
    at_once: items that a thread takes at a time, one after another: more than 1 where an item takes little time.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        items: int,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        batch_size: int,
        in_flight: int = 20,
        ahead: int = 2,
        device: str = "cpu",
        pin: bool = False,
        copies: bool = False,
        at_once: int = 1,
    ) -> None:
        if min(in_flight, ahead, batch_size, at_once) < 1:
            raise ValueError(f"{in_flight=} {ahead=} {batch_size=} {at_once=}: allowed is 1 or more")
        self.shape, self.dtype = (items, *shape), np.dtype(dtype)
        self._connect, self._connections, self._of_thread = connect, [], threading.local()
        self._at_once = at_once
        ahead = max(ahead, -(-2 * in_flight * at_once // batch_size) + 1)
        super().__init__("objects", batch_size, in_flight, ahead, device, pin, copies)

    def close(self) -> None:
        """End threads and connections, and give back memory; batches that were handed out stay where they are."""
        super().close()
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def _fill_rows(self, filling: _Filling, start: int, stop: int) -> None:
        """Fetch some items of a batch into their rows, by this thread's connection."""
        if not hasattr(self._of_thread, "connection"):
            self._of_thread.connection = self._connect()
            self._connections.append(self._of_thread.connection)
        for item, row in zip(filling.items[start:stop].tolist(), filling.buffer.array[start:stop], strict=True):
            self._of_thread.connection.read_into(item, row)


def _serve(work: SimpleQueue) -> None:
    """Fill parts of batches until there are no more: what a thread does. Between them it holds nothing of a reader."""
    while (part := work.get()) is not None:
        part()
        del part


def _dismiss(work: SimpleQueue, crew: list[threading.Thread]) -> None:
    """End the threads."""
    for _ in crew:
        work.put(None)
    for thread in crew:
        if thread is not threading.current_thread():
            thread.join()


def _pages(shape: Sequence[int], dtype: torch.dtype) -> np.ndarray:
    """Return an unfilled array that begins on a page, in huge pages if it is large."""
    wanted = torch.empty(0, dtype=dtype).numpy().dtype
    memory = mmap.mmap(-1, max(1, wanted.itemsize * int(np.prod(shape))))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, wanted, int(np.prod(shape))).reshape(shape)


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
