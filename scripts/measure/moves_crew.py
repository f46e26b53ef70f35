"""Worker processes that gather clips for measure_moves.py and send them, as a loader's workers do."""

import ctypes
import queue
import shutil
from contextlib import suppress
from typing import Any

import numpy as np
import torch

SHARED_BATCHES = 8  # that lie in /dev/shm at once, at most
END_SECONDS = 10.0  # in which a worker must end
DIED = "a worker process died"


def give_back() -> None:
    """Give memory that was freed back to the kernel, see malloc_trim(3).

    glibc keeps it, and where blocks of several sizes come and go in turn, what it keeps grows to gigabytes.
    """
    with suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)


def cannot_share(shape: tuple[int, ...], workers: int) -> str | None:
    """Return why worker processes cannot share batches of this shape, or None."""
    if not workers:
        return "no worker processes: --workers is 0"
    needed, free = SHARED_BATCHES * 4 * int(np.prod(shape)), shutil.disk_usage("/dev/shm").free
    if free < needed:  # writing more ends a process without a word
        return f"/dev/shm has {free / 1e6:,.0f} MB free, {needed / 1e6:,.0f} MB are needed"
    return None


def shares(batch_size: int, workers: int) -> list[tuple[int, int]]:
    """Return (start, stop) of each worker's share of a batch; fewer than `workers` where there are fewer clips."""
    parts = np.array_split(np.arange(batch_size), min(workers, batch_size))
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]


class Crew:
    """Worker processes that gather clips, and send them. They are forked, so that they find the clips in memory.

    An order is a name and what belongs to it, sent through the worker's own pipe; what it answers comes through the
    channel that the order is about. The text of an error comes in place of an answer.
    """

    def __init__(self, data: torch.Tensor, shape: tuple[int, ...], workers: int) -> None:
        self.data = data
        self.shared, self.reused = torch.empty(shape).share_memory_(), torch.empty(shape).share_memory_()
        self.bounds = shares(shape[0], workers)
        self.source: torch.Tensor | None = None  # of the first worker: the batch that it will send
        self.lines: list[Any] = []
        self.processes: list[Any] = []

    def __enter__(self) -> "Crew":
        context = torch.multiprocessing.get_context("fork")
        self.parts, self.batches = context.Queue(), context.Queue()
        self.receiver, self.sender = context.Pipe(duplex=False)
        for number in range(len(self.bounds)):
            here, there = context.Pipe()
            self.lines.append(here)
            process = context.Process(target=self._obey, args=(there, number == 0), daemon=True)
            process.start()
            there.close()
            self.processes.append(process)
        self.sender.close()
        return self

    def __exit__(self, *_: object) -> None:
        for line in self.lines:
            with suppress(OSError):  # it has ended already
                line.send(None)
        for process in self.processes:
            process.join(END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for channel in (*self.lines, self.receiver, self.parts, self.batches):
            channel.close()

    def fill(self, positions: np.ndarray) -> torch.Tensor:
        """Have each worker gather its share into the shared buffer; return that."""
        for line, (start, stop) in zip(self.lines, self.bounds, strict=True):
            line.send(("fill", start, positions[start:stop]))
        for answer in [_received(line) for line in self.lines]:
            _unless_error(answer)
        return self.shared

    def collect(self, positions: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Have each worker send its share through a queue, as DataLoader's do; put them into `out` and return it."""
        for line, (start, stop) in zip(self.lines, self.bounds, strict=True):
            line.send(("share", start, positions[start:stop]))
        fault = None
        for _ in self.lines:
            answer = self._next(self.parts)
            if isinstance(answer, str):
                fault = answer
            else:
                start, part = answer
                out[start : start + len(part)] = part
        _unless_error(fault)
        return out

    def prepare(self, positions: np.ndarray) -> None:
        """Have the first worker gather the batch that it will send, into memory of its own."""
        self.lines[0].send(("prepare", positions))
        _unless_error(_received(self.lines[0]))

    def receive(self, manner: str) -> torch.Tensor:
        """Have the first worker send the prepared batch, and return it.

        `new`: through a queue, which moves it into new shared memory; `reused`: copied into one shared tensor, which
        goes through the queue; `pickled`: as bytes through a pipe.
        """
        self.lines[0].send((manner,))
        if manner == "pickled":
            return torch.from_numpy(_unless_error(_received(self.receiver)))
        return _unless_error(self._next(self.batches))

    def _next(self, channel: Any) -> Any:
        """Return what comes next through a queue. Raises RuntimeError where a worker has died."""
        while True:
            try:
                return channel.get(timeout=1.0)
            except queue.Empty:
                if not all(process.is_alive() for process in self.processes):
                    raise RuntimeError(DIED) from None

    def _obey(self, line: Any, sends: bool) -> None:
        """Work in a worker process until told to end, or the other end of the line has gone."""
        torch.set_num_threads(1)
        for inherited in (*self.lines, self.receiver, *(() if sends else (self.sender,))):
            inherited.close()  # so that a pipe ends when the process at its other end does
        by_queue, by_pipe = self.batches.put, self.sender.send
        answers = {"fill": line.send, "share": self.parts.put, "prepare": line.send}
        answers |= {"new": by_queue, "reused": by_queue, "pickled": by_pipe}
        last = "prepare"
        while True:
            try:
                order = line.recv()
            except EOFError:
                return
            if order is None:
                return
            name, *given = order
            if name not in ("prepare", last):  # it is another way's turn, which begins untimed
                give_back()
                last = name
            try:
                answer = getattr(self, f"_{name}")(*given)
            except Exception as error:  # whatever it is, the other side waits for an answer
                answer = f"{type(error).__name__}: {error}"
            answers[name](answer)

    def _fill(self, start: int, positions: np.ndarray) -> None:
        torch.index_select(self.data, 0, torch.from_numpy(positions), out=self.shared[start : start + len(positions)])

    def _share(self, start: int, positions: np.ndarray) -> tuple[int, torch.Tensor]:
        return start, self.data[torch.from_numpy(positions)]

    def _prepare(self, positions: np.ndarray) -> None:
        self.source = self.data[torch.from_numpy(positions)]

    def _new(self) -> torch.Tensor:
        return self.source

    def _reused(self) -> torch.Tensor:
        return self.reused.copy_(self.source)

    def _pickled(self) -> np.ndarray:
        return self.source.numpy()


def _received(line: Any) -> Any:
    """Return what comes next through a pipe. Raises RuntimeError where the worker at its other end has died."""
    try:
        return line.recv()
    except EOFError:
        raise RuntimeError(DIED) from None


def _unless_error(answer: Any) -> Any:
    if isinstance(answer, str):
        raise RuntimeError(f"a worker: {answer}")
    return answer
