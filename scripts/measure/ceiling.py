"""The in-memory ceiling: how fast the consumer reads batches that stream through memory, with nothing to load.

It is measured in the process of a run, right before and after its window. The batches are more than the last-level
caches hold, where a share of memory allows that and batches are not tiny, so that each comes from memory; the record
says both sizes. No loader can pass it, but by the noise between the two moments. On a GPU the batches are in its
memory: what crosses the bus as int16, on a stream of its own or not at all must not pass it either.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.common.sample import Sample
from scripts.machine import host
from scripts.measure.sink import Sink

POOL_BYTES = 256 << 20  # of batches, at least; all that is needed on a GPU
CACHES = 2  # times the last-level caches
MEMORY_SHARE = 1 / 16  # of the machine's memory, at most, for what is more than POOL_BYTES
LEAST_BATCHES, MOST_BATCHES = 3, 64
SECONDS = 0.06  # each of the two measurements


def pool_of(items: int, sample: Sample) -> Any:
    """Return an array (batches, items, ...) of what is delivered, touched, in huge pages where numpy asks for them.

    It is filled by one thread, so that a process which has no threads yet can be forked afterwards.
    """
    import numpy as np

    return np.full((_batches(items, sample), items, *sample.shape), 1, dtype=sample.dtype)


def pool_bytes(items: int, sample: Sample) -> int:
    """Return how much memory `pool_of` takes."""
    return _batches(items, sample) * items * sample.bytes


def _batches(items: int, sample: Sample) -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    caches = CACHES * (host.last_level_cache_bytes() or 0)
    wanted = max(POOL_BYTES, min(caches, int(MEMORY_SHARE * memory)))
    return min(MOST_BATCHES, max(LEAST_BATCHES, -(-wanted // (items * sample.bytes))))


def keep_from_workers(pool: Any) -> None:
    """Have the pool's pages left out of what this process forks: they are none of a loader's memory (madvise(2))."""
    page = mmap.PAGESIZE
    start = -(-pool.ctypes.data // page) * page
    size = (pool.ctypes.data + pool.nbytes) // page * page - start
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(max(0, size)), mmap.MADV_DONTFORK)


def ceiling(request: LoaderRequest, pool: Any, clock: Callable[[], float], seconds: float = SECONDS) -> float:
    """Return items/s of the consumer on the batches of `pool`, each read once in turn, for at least `seconds`."""
    import torch

    count = min(request.batch_size, pool.shape[1])
    if request.device != "cpu":
        pool = pool[: max(LEAST_BATCHES, -(-POOL_BYTES // pool[0].nbytes))]
    rest = {
        "target": torch.zeros(count, dtype=torch.int64),
        "labels": torch.zeros((count, request.classes)),
        "item": torch.arange(count),
    }
    batches = [{request.sample.key: torch.from_numpy(one[:count]), **rest} for one in pool]
    if request.device != "cpu":
        batches = [{name: tensor.to(request.device) for name, tensor in batch.items()} for batch in batches]
    return consumed(Sink(request.device), batches, clock, seconds)


def consumed(sink: Sink, batches: Sequence[Mapping[str, Any]], clock: Callable[[], float], seconds: float) -> float:
    """Return items/s of a sink on these batches, each at least once in turn, and for at least `seconds`."""
    sink.consume(batches[-1])
    sink.finish()
    turn, began = 0, clock()
    while clock() - began < seconds or turn < len(batches):
        sink.consume(batches[turn % len(batches)])
        turn += 1
    sink.finish()
    return turn * len(batches[0]["item"]) / (clock() - began)
