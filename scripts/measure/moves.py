"""The ways to create, copy, gather and send clips that measure_moves.py times, and what each of them must deliver.

A view, or memory that nobody has touched, costs nothing and delivers nothing: such ways are there to compare with, and
say so.
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
from scripts.measure.moves_bench import PINNED_BATCHES, Bench, Lacking, MappedFile, OnGpu, difference, take
from scripts.measure.moves_crew import Crew, cannot_share, shares

MAPPED = "mapped file"  # how the names of ways begin that read one

Problem = Callable[[torch.Tensor, int], str | None]


@dataclass(frozen=True)
class Way:
    """One way to make a move, and how to tell whether it did."""

    move: str
    name: str
    clips: int  # moved at once
    run: Callable[[int], torch.Tensor]  # makes the move of a turn (0, 1, ...) and returns what it delivered
    problem: Problem  # what is wrong with what a turn has delivered, or None
    device: str = "cpu"
    prepare: Callable[[int], None] | None = None  # before each move, untimed
    finish: Callable[[], None] | None = None  # waits for a series of moves
    least: int = 1  # moves in a series
    delivers: bool = True  # False: only to compare with
    reused: torch.Tensor | None = None  # where it delivers to, so that a check can tell what lay there before
    reason: str | None = None  # why it cannot run here


@contextmanager
def opened(bench: Bench, corpus: Corpus, data: Path | None, workers: int, device: str) -> Iterator[list[Way]]:
    """Yield every way, with the reason of those that cannot run; no process or file is left when the block ends."""
    with ExitStack() as stack:
        bench.reasons = {"cuda": f"the settings ask for {device}"} if device == "cpu" else {}
        lack = cannot_share(bench.shape, workers)
        if lack:
            bench.reasons["crew"] = lack
        else:  # before anything else is begun in this process, since it is forked
            bench.crew = stack.enter_context(Crew(bench.data, bench.shape, workers))
        try:
            bench.file = MappedFile(data, corpus)
        except Lacking as reason:
            bench.reasons["file"] = str(reason)
        if device != "cpu":
            try:
                bench.gpu = OnGpu(bench)
            except Lacking as reason:
                bench.reasons["cuda"] = str(reason)
        pool = stack.enter_context(ThreadPoolExecutor(max(1, workers)))
        yield list(all_ways(bench, pool, max(1, workers)))


def all_ways(bench: Bench, pool: ThreadPoolExecutor, threads: int) -> Iterator[Way]:
    """Yield every way of every move."""
    yield from (*create_ways(bench, "cpu"), *create_ways(bench, "cuda"))
    yield from (*copy_ways(bench), *cuda_copy_ways(bench))
    yield from (*one_ways(bench), *many_ways(bench), *many_ways_together(bench, pool, threads))
    yield from (*file_ways(bench), *cuda_gather_ways(bench), *send_ways(bench))


def create_ways(bench: Bench, device: str) -> Iterator[Way]:
    """Yield the ways to create a batch on a device."""
    shape, on_gpu = bench.shape, device == "cuda"
    buffer = (bench.gpu and bench.gpu.buffer) if on_gpu else bench.buffer
    way = partial(_gpu_way if on_gpu else _way, bench, "create")
    yield way("empty, untouched", lambda _: torch.empty(shape, device=device), _shaped(shape), delivers=False)
    yield way("zeros", lambda _: torch.zeros(shape, device=device), _filled(shape, 0))
    yield way("ones", lambda _: torch.ones(shape, device=device), _filled(shape, 1))
    yield way("rand", lambda _: torch.rand(shape, device=device), _uniform(shape))
    yield way("zeros, reused buffer", lambda _: buffer.zero_(), _filled(shape, 0), reused=buffer)
    if on_gpu:
        yield way("zeros on the CPU, copied", lambda _: torch.zeros(shape).to(device), _filled(shape, 0))
        yield way("rand on the CPU, copied", lambda _: torch.rand(shape).to(device), _uniform(shape))


def copy_ways(bench: Bench) -> Iterator[Way]:
    """Yield the ways to copy a batch in RAM."""
    way, buffer = partial(_way, bench, "copy", problem=bench.right_rows), bench.buffer

    def copyto(turn: int) -> torch.Tensor:
        np.copyto(buffer.numpy(), bench.rows(turn).numpy())
        return buffer

    yield way("torch clone, new tensor", lambda turn: bench.rows(turn).clone())
    yield way("torch copy_, reused buffer", lambda turn: buffer.copy_(bench.rows(turn)), reused=buffer)
    yield way("numpy copy, new array", lambda turn: torch.from_numpy(bench.rows(turn).numpy().copy()))
    yield way("numpy copyto, reused buffer", copyto, reused=buffer)


def cuda_copy_ways(bench: Bench) -> Iterator[Way]:
    """Yield the ways to copy a batch from RAM to the GPU, into one reused buffer there, and to pin it for that."""
    way = partial(_gpu_way, bench, "copy", reused=bench.gpu and bench.gpu.buffer)

    def pinned(turn: int, **how: bool) -> torch.Tensor:
        return bench.gpu.buffer.copy_(bench.gpu.pinned[turn % PINNED_BATCHES], **how)

    def right(got: torch.Tensor, turn: int) -> str | None:
        return difference(got, bench.truth(bench.batch(turn % PINNED_BATCHES)))

    def right_pinned(got: torch.Tensor, turn: int) -> str | None:
        return bench.right_rows(got, turn) if got.is_pinned() else "delivers memory that is not pinned"

    yield way("pageable", lambda turn: bench.gpu.buffer.copy_(bench.rows(turn)), bench.right_rows)
    yield way("pinned", pinned, right)
    yield way("pinned, non_blocking", lambda turn: pinned(turn, non_blocking=True), right, least=8)
    yield _gpu_way(bench, "copy", "pin_memory, no copy", lambda turn: bench.rows(turn).pin_memory(), right_pinned)


def one_ways(bench: Bench) -> Iterator[Way]:
    """Yield the ways to take one random clip out of RAM."""
    way = partial(_way, bench, "one", problem=bench.right_clip, clips=1)
    data, array, buffer = bench.data, bench.data.numpy(), bench.buffer[0]
    yield way("torch index, untouched view", lambda turn: data[bench.single(turn)], delivers=False)
    yield way("torch index, clone", lambda turn: data[bench.single(turn)].clone())
    yield way("torch index, reused buffer", lambda turn: buffer.copy_(data[bench.single(turn)]), reused=buffer)
    yield way("numpy index, copy", lambda turn: torch.from_numpy(array[bench.single(turn)].copy()))


def many_ways(bench: Bench) -> Iterator[Way]:
    """Yield the ways to gather a batch of random clips in one thread of Python."""
    way = partial(_way, bench, "many", problem=bench.right_batch)
    data, buffer = bench.data, bench.buffer

    def select(turn: int) -> torch.Tensor:
        return torch.index_select(data, 0, bench.index(turn), out=buffer)

    yield way("index_select, reused buffer", select, reused=buffer)
    yield way("fancy index, new tensor", lambda turn: data[bench.index(turn)])
    yield way("numpy take, reused buffer", lambda turn: take(data.numpy(), bench.batch(turn), buffer), reused=buffer)
    yield way("loop and stack", lambda turn: torch.stack([data[where] for where in bench.batch(turn).tolist()]))


def many_ways_together(bench: Bench, pool: ThreadPoolExecutor, threads: int) -> Iterator[Way]:
    """Yield the ways to gather a batch by threads and by processes, each of which gathers a share."""
    way = partial(_way, bench, "many", problem=bench.right_batch)
    array, buffer, bounds = bench.data.numpy(), bench.buffer, shares(bench.shape[0], threads)

    def by_threads(turn: int) -> torch.Tensor:
        where = bench.batch(turn)
        for done in [pool.submit(take, array, where[start:stop], buffer[start:stop]) for start, stop in bounds]:
            done.result()
        return buffer

    yield way("threads, reused buffer", by_threads, reused=buffer)
    by_crew = partial(way, reason=bench.reasons.get("crew"))
    shared = bench.crew and bench.crew.shared
    yield by_crew("processes, shared buffer", lambda turn: bench.crew.fill(bench.batch(turn)), reused=shared)
    yield by_crew("processes, queue", lambda turn: bench.crew.collect(bench.batch(turn), buffer), reused=buffer)


def file_ways(bench: Bench) -> Iterator[Way]:
    """Yield the ways to take clips out of a mapped file that lies in the page cache."""
    way = partial(_way, bench, reason=bench.reasons.get("file"))

    def right_clip(got: torch.Tensor, turn: int) -> str | None:
        return difference(got[None], bench.file.truth([bench.single(turn)]))

    def right_batch(got: torch.Tensor, turn: int) -> str | None:
        return difference(got, bench.file.truth(bench.batch(turn)))

    def taken(turn: int) -> torch.Tensor:
        return bench.file.taken(bench.batch(turn), bench.buffer)

    def indexed(turn: int) -> torch.Tensor:
        return bench.file.indexed(bench.batch(turn))

    yield way("one", f"{MAPPED}, copy", lambda turn: bench.file.one(bench.single(turn)), right_clip, clips=1)
    yield way("many", f"{MAPPED}, numpy take, reused buffer", taken, right_batch, reused=bench.buffer)
    yield way("many", f"{MAPPED}, fancy index, new array", indexed, right_batch)


def cuda_gather_ways(bench: Bench) -> Iterator[Way]:
    """Yield the ways to take clips out of a tensor that lies on the GPU."""
    way, buffer = partial(_gpu_way, bench), bench.gpu and bench.gpu.buffer

    def right_clip(got: torch.Tensor, turn: int) -> str | None:
        return difference(got[None], bench.truth(np.array([bench.single(turn) % len(bench.gpu.data)])))

    def right_batch(got: torch.Tensor, turn: int) -> str | None:
        return difference(got, bench.truth(bench.batch(turn) % len(bench.gpu.data)))

    yield way("one", "torch index, clone", lambda turn: bench.gpu.one(bench.single(turn)), right_clip, clips=1)
    yield way("many", "index_select, reused buffer", lambda turn: bench.gpu.many(turn), right_batch, reused=buffer)


def send_ways(bench: Bench) -> Iterator[Way]:
    """Yield the ways to send a batch from a worker process to this one, where each byte is read once.

    The worker gathers the batch beforehand, untimed. The reading alone is there to compare with.
    """
    way = partial(_way, bench, "send", problem=bench.right_batch)
    yield way("not sent, only read", lambda turn: read(bench.rows(turn)), problem=bench.right_rows, delivers=False)

    def prepare(turn: int) -> None:
        bench.crew.prepare(bench.batch(turn))

    by_crew = partial(way, reason=bench.reasons.get("crew"), prepare=prepare)
    yield by_crew("queue, new shared memory", lambda _: read(bench.crew.receive("new")))
    yield by_crew("queue, reused shared memory", lambda _: read(bench.crew.receive("reused")))
    yield by_crew("pipe, pickled", lambda _: read(bench.crew.receive("pickled")))


def _way(
    bench: Bench, move: str, name: str, run: Callable[[int], Any], problem: Problem, clips: int = 0, **rest: Any
) -> Way:
    return Way(move, name, clips or bench.shape[0], run, problem, **rest)


def _gpu_way(bench: Bench, *what: Any, **rest: Any) -> Way:
    """Return a way on the GPU, whose work is waited for at the end of each series."""
    return _way(bench, *what, device="cuda", finish=torch.cuda.synchronize, reason=bench.reasons.get("cuda"), **rest)


def read(batch: torch.Tensor) -> torch.Tensor:
    """Read every byte of a batch as the sink does, and return the batch."""
    batch.view(torch.int32).sum(dim=(1, 2), dtype=torch.int32)
    return batch


def _shaped(shape: tuple[int, ...]) -> Problem:
    return lambda got, _: None if got.shape == shape else f"delivers {tuple(got.shape)}, expected is {shape}"


def _filled(shape: tuple[int, ...], value: float) -> Problem:
    return lambda got, _: difference(got, torch.full(shape, float(value)))


def _uniform(shape: tuple[int, ...]) -> Problem:
    def problem(got: torch.Tensor, turn: int) -> str | None:
        lowest, highest = got.min().item(), got.max().item()
        if not 0 <= lowest < highest < 1:
            return f"delivers values from {lowest:g} to {highest:g}, expected is from 0 to below 1"
        return _shaped(shape)(got, turn)

    return problem
