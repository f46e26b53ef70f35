"""A worker pool that gathers items for the tensor micro-benchmarks and sends them, as a loader's workers do."""

import ctypes
import queue
import shutil
from contextlib import suppress
from typing import Any

import numpy as np
import torch

SHARED_BATCHES = 8  # that are in /dev/shm at once, at most
END_SECONDS = 10.0  # in which a worker must end
DIED = "a worker process died"


def give_back() -> None:
    """Give memory that was freed back to the kernel, see malloc_trim(3).

    glibc keeps it, and where blocks of several sizes come and go in turn, what it keeps grows to gigabytes.
    """
    with suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)


def cannot_share(batch_bytes: int, workers: int) -> str | None:
    """Return why worker processes cannot share batches of so many bytes, or None."""
    if not workers:
        return "no worker processes: --workers is 0"
    needed, free = SHARED_BATCHES * batch_bytes, shutil.disk_usage("/dev/shm").free
    if free < needed:  # writing more ends a process without a word
        return f"/dev/shm has {free / 1e6:,.0f} MB free, {needed / 1e6:,.0f} MB are needed"
    return None


def shares(batch_size: int, workers: int) -> list[slice]:
    """Return each worker's share of a batch; fewer than `workers` where there are fewer items."""
    parts = np.array_split(np.arange(batch_size), min(workers, batch_size))
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]


class WorkerPool:
    """Worker processes that gather items, and send them. They are forked, so that they find the items in memory.

    An order is the name of a method below and what belongs to it. It comes through the worker's own pipe; the answer
    goes through another one, or through a queue where the order is about that. In place of an answer comes the text of
    an error.
    """

    def __init__(self, data: torch.Tensor, shape: tuple[int, ...], workers: int) -> None:
        self.data = data
        self.shared, self.reused = (torch.empty(shape, dtype=data.dtype).share_memory_() for _ in range(2))
        self.shares = shares(shape[0], workers)
        self.source: torch.Tensor | None = None  # of the first worker: the batch that it will send
        self.orders: list[Any] = []  # a pipe to each worker
        self.answers: list[Any] = []  # a pipe from each
        self.processes: list[Any] = []

    def __enter__(self) -> "WorkerPool":
        context = torch.multiprocessing.get_context("fork")
        self.queue = context.Queue()
        for _ in self.shares:
            (order, self_order), (self_answer, answer) = context.Pipe(duplex=False), context.Pipe(duplex=False)
            self.orders.append(self_order)
            self.answers.append(self_answer)
            self.processes.append(context.Process(target=self._work, args=(order, answer), daemon=True))
            self.processes[-1].start()
            order.close()
            answer.close()
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self.orders:
            pipe.close()  # which tells the worker to end
        for process in self.processes:
            process.join(END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for channel in (*self.answers, self.queue):
            channel.close()

    def fill(self, positions: np.ndarray) -> torch.Tensor:
        """Have each worker gather its share into the shared buffer; return that."""
        self._order_shares("_fill", positions)
        for answer in [self._answer(number) for number in range(len(self.answers))]:
            _unless_error(answer)
        return self.shared

    def collect(self, positions: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Have each worker send its share through a queue, as DataLoader's do; put them into `out` and return it."""
        self._order_shares("_queue_share", positions)
        answers = [self._next() for _ in self.orders]
        for share, part in map(_unless_error, answers):
            out[share] = part
        return out

    def prepare(self, positions: np.ndarray) -> None:
        """Have the first worker gather the batch that it will send, into memory of its own."""
        self.orders[0].send(("_prepare", positions))
        _unless_error(self._answer(0))

    def receive(self, how: str) -> torch.Tensor:
        """Have the first worker send the prepared batch, and return it.

        `new`: through a queue, which moves it into new shared memory; `reused`: copied into one shared tensor,
        which goes through the queue; `pickled`: as bytes through a pipe.
        """
        if how == "pickled":
            self.orders[0].send(("_pickled",))
            return torch.from_numpy(_unless_error(self._answer(0)))
        self.orders[0].send((f"_queue_{how}",))
        return _unless_error(self._next())

    def _order_shares(self, name: str, positions: np.ndarray) -> None:
        for pipe, share in zip(self.orders, self.shares, strict=True):
            pipe.send((name, share, positions[share]))

    def _answer(self, number: int) -> Any:
        """Return what comes next through a worker's pipe. Raises RuntimeError where it has died."""
        try:
            return self.answers[number].recv()
        except EOFError:
            raise RuntimeError(DIED) from None

    def _next(self) -> Any:
        """Return what comes next through the queue. Raises RuntimeError where a worker has died."""
        while True:
            try:
                return self.queue.get(timeout=1.0)
            except queue.Empty:
                if not all(process.is_alive() for process in self.processes):
                    raise RuntimeError(DIED) from None

    def _work(self, orders: Any, answers: Any) -> None:
        """Work in a worker process until the other end of its pipe is closed, or has gone."""
        torch.set_num_threads(1)
        for inherited in (*self.orders, *self.answers):
            inherited.close()  # so that a pipe ends when the process at its other end does
        last = "_prepare"
        with suppress(EOFError):
            while True:
                name, *given = orders.recv()
                if name not in ("_prepare", last):  # it is another method's turn, which begins untimed
                    give_back()
                    last = name
                try:
                    answer = getattr(self, name)(*given)
                except Exception as error:  # whatever it is, the other side waits for an answer
                    answer = f"{type(error).__name__}: {error}"
                (self.queue.put if name.startswith("_queue") else answers.send)(answer)

    def _fill(self, share: slice, positions: np.ndarray) -> None:
        torch.index_select(self.data, 0, torch.from_numpy(positions), out=self.shared[share])

    def _queue_share(self, share: slice, positions: np.ndarray) -> tuple[slice, torch.Tensor]:
        return share, self.data[torch.from_numpy(positions)]

    def _prepare(self, positions: np.ndarray) -> None:
        self.source = self.data[torch.from_numpy(positions)]

    def _queue_new(self) -> torch.Tensor:
        return self.source

    def _queue_reused(self) -> torch.Tensor:
        return self.reused.copy_(self.source)

    def _pickled(self) -> np.ndarray:
        return self.source.numpy()


def _unless_error(answer: Any) -> Any:
    if isinstance(answer, str):
        raise RuntimeError(f"a worker: {answer}")
    return answer
