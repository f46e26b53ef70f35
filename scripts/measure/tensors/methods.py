"""The methods to create, copy, gather and send items that measure_tensors.py times, and what each of them must deliver.

A view, or memory that nobody has touched, costs nothing and delivers nothing: such methods are there to compare with,
and say so.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.common.corpus import Corpus
from scripts.machine import gpu
from scripts.measure.sink import WEIGHTS, checksum
from scripts.measure.tensors.items import PINNED_BATCHES, Bench, Lacking, MappedFile, OnGpu, difference, wrong_form
from scripts.measure.tensors.worker_pool import WorkerPool, cannot_share, shares

MAPPED = "mapped file"  # how the names of methods begin that read one
BELOW = 128  # random whole numbers are below it: every type holds them
_WEIGHTS = torch.tensor(WEIGHTS)

Problem = Callable[[torch.Tensor, int], str | None]


@dataclass(frozen=True)
class Method:
    """One method to make an operation, and how to tell whether it did."""

    operation: str
    name: str
    items: int  # moved at once
    run: Callable[[int], torch.Tensor]  # makes the operation of a turn (0, 1, ...) and returns what it delivered
    problem: Problem  # what is wrong with what a turn has delivered, or None
    device: str = "cpu"
    prepare: Callable[[int], None] | None = None  # before each operation, untimed
    finish: Callable[[], None] | None = None  # waits for a series of operations
    least: int = 1  # operations in a series
    delivers: bool = True  # False: only to compare with
    reused: torch.Tensor | None = None  # where it delivers to, so that a check can tell what was there before
    reason: str | None = None  # why it cannot run here


@contextmanager
def opened(bench: Bench, corpus: Corpus, data: Path | None, workers: int, device: str) -> Iterator[list[Method]]:
    """Yield every method, with the reason of those that cannot run; no process or file is left when the block ends."""
    with ExitStack() as stack:
        bench.reasons = {"cuda": f"the settings ask for {device}"} if device == "cpu" else {}
        lack = cannot_share(bench.buffer.nbytes, workers)
        if lack:
            bench.reasons["pool"] = lack
        else:  # before anything else is begun in this process, since it is forked
            bench.pool = stack.enter_context(WorkerPool(bench.data, bench.shape, workers))
        try:
            bench.file = MappedFile(data, corpus)
        except Lacking as reason:
            bench.reasons["file"] = str(reason)
        if device != "cpu":
            try:
                bench.gpu = OnGpu(bench)
            except Lacking as reason:
                bench.reasons["cuda"] = str(reason)
        threads = stack.enter_context(ThreadPoolExecutor(max(1, workers)))
        yield [
            *(*_create(bench, "cpu"), *_create(bench, "cuda"), *_copy(bench), *_cuda_copy(bench)),
            *(*_gather(bench), *_gather_together(bench, threads, max(1, workers))),
            *(*_file_gather(bench), *_cuda_gather(bench), *_send(bench)),
        ]


def _create(bench: Bench, device: str) -> Iterator[Method]:
    """Yield the methods to create a batch on a device."""
    shape, on_gpu = bench.shape, device == "cuda"
    buffer = (bench.gpu and bench.gpu.buffer) if on_gpu else bench.buffer
    method = partial(_on_gpu if on_gpu else _method, bench, "create")
    zeros, ones = (partial(_problem_of_one_value, bench, value) for value in (0, 1))
    uniform, shaped = partial(_problem_of_random, bench), partial(_problem_of_shape, bench)
    kind = {"dtype": bench.dtype}
    rand = torch.rand if bench.real else partial(torch.randint, BELOW)
    named = "rand" if bench.real else "randint"
    yield method("empty, untouched", lambda _: bench.empty(device), shaped, delivers=False)
    yield method("zeros", lambda _: torch.zeros(shape, device=device, **kind), zeros)
    yield method("ones", lambda _: torch.ones(shape, device=device, **kind), ones)
    yield method(named, lambda _: rand(shape, device=device, **kind), uniform)
    yield method("zeros, reused buffer", lambda _: buffer.zero_(), zeros, reused=buffer)
    if on_gpu:
        yield method("zeros on the CPU, copied", lambda _: torch.zeros(shape, **kind).to(device), zeros)
        yield method(f"{named} on the CPU, copied", lambda _: rand(shape, **kind).to(device), uniform)


def _copy(bench: Bench) -> Iterator[Method]:
    """Yield the methods to copy a batch in RAM."""
    rows, buffer, right = bench.rows, bench.buffer, _right(bench, bench.side_by_side)

    def copyto(turn: int) -> torch.Tensor:
        np.copyto(buffer.numpy(), rows(turn).numpy())
        return buffer

    method = partial(_method, bench, "copy", problem=right)
    yield method("torch clone, new tensor", lambda turn: rows(turn).clone())
    yield method("torch copy_, reused buffer", lambda turn: buffer.copy_(rows(turn)), reused=buffer)
    yield method("numpy copy, new array", lambda turn: torch.from_numpy(rows(turn).numpy().copy()))
    yield method("numpy copyto, reused buffer", copyto, reused=buffer)


def _cuda_copy(bench: Bench) -> Iterator[Method]:
    """Yield the methods to copy a batch from RAM to the GPU, into one reused buffer there, and to pin it for that."""
    method = partial(_on_gpu, bench, "copy")
    buffer, rows, right = bench.gpu and bench.gpu.buffer, bench.rows, _right(bench, bench.side_by_side)
    right_pinned = _right(bench, lambda turn: bench.batch(turn % PINNED_BATCHES))

    def copied(turn: int, **how: bool) -> torch.Tensor:
        return buffer.copy_(bench.gpu.pinned[turn % PINNED_BATCHES], **how)

    def is_pinned(got: torch.Tensor, turn: int) -> str | None:
        return right(got, turn) if got.is_pinned() else "delivers memory that is not pinned"

    yield method("pageable", lambda turn: buffer.copy_(rows(turn)), right, reused=buffer)
    yield method("pinned", copied, right_pinned, reused=buffer)
    queued = partial(copied, non_blocking=True)
    yield method("pinned, non_blocking", queued, right_pinned, reused=buffer, least=8)
    yield method("pin_memory, no copy", lambda turn: rows(turn).pin_memory(), is_pinned)


def _gather(bench: Bench) -> Iterator[Method]:
    """Yield the methods to take one random item out of RAM, and to gather a batch of them in one thread of Python."""
    data, array, buffer, item = bench.data, bench.data.numpy(), bench.buffer, bench.buffer[0]

    def single(turn: int) -> int:
        return int(bench.single(turn)[0])

    def select(turn: int) -> torch.Tensor:
        return torch.index_select(data, 0, bench.index(turn), out=buffer)

    one = partial(_method, bench, "one", problem=_right(bench, bench.single), items=1)
    yield one("torch index, untouched view", lambda turn: data[single(turn)], delivers=False)
    yield one("torch index, clone", lambda turn: data[single(turn)].clone())
    yield one("torch index, reused buffer", lambda turn: item.copy_(data[single(turn)]), reused=item)
    yield one("numpy index, copy", lambda turn: torch.from_numpy(array[single(turn)].copy()))
    many = partial(_method, bench, "many", problem=_right(bench, bench.batch))
    yield many("index_select, reused buffer", select, reused=buffer)
    yield many("fancy index, new tensor", lambda turn: data[bench.index(turn)])
    yield many("numpy take, reused buffer", lambda turn: _take(array, bench.batch(turn), buffer), reused=buffer)
    yield many("loop and stack", lambda turn: torch.stack([data[where] for where in bench.batch(turn).tolist()]))


def _gather_together(bench: Bench, threads: ThreadPoolExecutor, count: int) -> Iterator[Method]:
    """Yield the methods to gather a batch by threads and by processes, each of which gathers a share."""
    method = partial(_method, bench, "many", problem=_right(bench, bench.batch))
    array, buffer, parts = bench.data.numpy(), bench.buffer, shares(bench.shape[0], count)

    def by_threads(turn: int) -> torch.Tensor:
        where = bench.batch(turn)
        for done in [threads.submit(_take, array, where[part], buffer[part]) for part in parts]:
            done.result()
        return buffer

    yield method("threads, reused buffer", by_threads, reused=buffer)
    by_pool = partial(method, reason=bench.reasons.get("pool"))
    shared = bench.pool and bench.pool.shared
    yield by_pool("processes, shared buffer", lambda turn: bench.pool.fill(bench.batch(turn)), reused=shared)
    yield by_pool("processes, queue", lambda turn: bench.pool.collect(bench.batch(turn), buffer), reused=buffer)


def _file_gather(bench: Bench) -> Iterator[Method]:
    """Yield the methods to take items out of a mapped file that is in the page cache."""
    method, file = partial(_method, bench, reason=bench.reasons.get("file")), bench.file
    right = _right(bench, bench.batch, "file")

    def one(turn: int) -> torch.Tensor:
        return torch.from_numpy(np.array(file.array[int(bench.single(turn)[0]) % file.count]))

    def taken(turn: int) -> torch.Tensor:
        return _take(file.array, bench.batch(turn) % file.count, bench.buffer)

    def indexed(turn: int) -> torch.Tensor:
        return torch.from_numpy(file.array[bench.batch(turn) % file.count])

    yield method("one", f"{MAPPED}, copy", one, _right(bench, bench.single, "file"), items=1)
    yield method("many", f"{MAPPED}, numpy take, reused buffer", taken, right, reused=bench.buffer)
    yield method("many", f"{MAPPED}, fancy index, new array", indexed, right)


def _cuda_gather(bench: Bench) -> Iterator[Method]:
    """Yield the methods to take items out of a tensor on the GPU."""
    method, gpu, buffer = partial(_on_gpu, bench), bench.gpu, bench.gpu and bench.gpu.buffer

    def one(turn: int) -> torch.Tensor:
        return gpu.data[int(bench.single(turn)[0]) % gpu.count].clone()

    def many(turn: int) -> torch.Tensor:
        return torch.index_select(gpu.data, 0, gpu.indices[turn % len(gpu.indices)], out=buffer)

    yield method("one", "torch index, clone", one, _right(bench, bench.single, "gpu"), items=1)
    yield method("many", "index_select, reused buffer", many, _right(bench, bench.batch, "gpu"), reused=buffer)


def _send(bench: Bench) -> Iterator[Method]:
    """Yield the methods to send a batch from a worker process to this one, where each byte is read once.

    The worker gathers the batch beforehand, untimed. The reading by itself is there to compare with.
    """
    method, rows = partial(_method, bench, "send"), _right(bench, bench.side_by_side)
    yield method("not sent, only read", lambda turn: _read(bench.rows(turn)), rows, delivers=False)

    def prepare(turn: int) -> None:
        bench.pool.prepare(bench.batch(turn))

    by_pool = partial(method, problem=_right(bench, bench.batch), reason=bench.reasons.get("pool"), prepare=prepare)
    yield by_pool("queue, new shared memory", lambda _: _read(bench.pool.receive("new")))
    yield by_pool("queue, reused shared memory", lambda _: _read(bench.pool.receive("reused")))
    yield by_pool("pipe, pickled", lambda _: _read(bench.pool.receive("pickled")))


def _method(
    bench: Bench, operation: str, name: str, run: Callable[[int], Any], problem: Problem, items: int = 0, **rest: Any
) -> Method:
    return Method(operation, name, items or bench.shape[0], run, problem, **rest)


def _on_gpu(bench: Bench, *what: Any, **rest: Any) -> Method:
    """Return a method on the GPU, whose work is waited for at the end of each series."""
    return _method(bench, *what, device="cuda", finish=gpu.synchronize, reason=bench.reasons.get("cuda"), **rest)


def _take(array: np.ndarray, positions: np.ndarray, out: torch.Tensor) -> torch.Tensor:
    """Gather rows of `array` into `out`, and return it. It runs without the interpreter's lock."""
    np.take(array, positions, axis=0, out=out.numpy(), mode="clip")
    return out


def _read(batch: torch.Tensor) -> torch.Tensor:
    """Read every byte of a batch as the sink does, and return the batch."""
    checksum(batch, _WEIGHTS)
    return batch


def _right(bench: Bench, positions: Callable[[int], np.ndarray], place: str = "") -> Problem:
    """Return the check that the items at a turn's positions are delivered: those of the bench, its `file` or `gpu`."""

    def problem(got: torch.Tensor, turn: int) -> str | None:
        source = getattr(bench, place) if place else bench
        batch = got if got.dim() == len(bench.shape) else got[None]
        return difference(batch, source.truth(positions(turn) % source.count))

    return problem


def _problem_of_shape(bench: Bench, got: torch.Tensor, _turn: int) -> str | None:
    return wrong_form(got, bench.buffer)


def _problem_of_one_value(bench: Bench, value: int, got: torch.Tensor, _turn: int) -> str | None:
    return difference(got, torch.full(bench.shape, value, dtype=bench.dtype))


def _problem_of_random(bench: Bench, got: torch.Tensor, turn: int) -> str | None:
    lowest, highest, limit = got.min().item(), got.max().item(), 1 if bench.real else BELOW
    if not 0 <= lowest < highest < limit:
        return f"delivers values from {lowest:g} to {highest:g}, expected is from 0 to below {limit}"
    return _problem_of_shape(bench, got, turn)
