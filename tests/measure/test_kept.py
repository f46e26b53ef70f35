"""Checksums are kept apart from the heap: they are the same, and what a loader frees, its next batch can have."""

import subprocess
import sys
from statistics import median

import pytest
import torch

from scripts.measure.sink import ROWS, Checksums, Kept, PlainLoop, Sink
from tests.support.programs import PROJECT

HEAP = """
import psutil, torch
from scripts.machine import allocator
from scripts.measure.sink import Kept, Sink

assert allocator.chosen("keep") is None
sink = Sink("cpu")
keep = Kept().add

def batch():  # of 16 MB, in new memory
    count = torch.arange(32)
    return {"audio": torch.ones(32, 125_000), "item": count, "target": count, "labels": torch.ones(32, 5)}

for number in range(60):
    keep(sink.consume(batch()))
    if number == 9:
        before = psutil.Process().memory_info().rss
print((psutil.Process().memory_info().rss - before) // 1_000_000)
"""


def batch(items: list[int]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(len(items))
    count = len(items)
    return {
        "audio": torch.rand((count, 96), generator=generator),
        "item": torch.tensor(items, dtype=torch.int64),
        "target": torch.arange(count),
        "labels": torch.rand((count, 5), generator=generator),
    }


@pytest.mark.parametrize("sizes", [[3, 3, 1], [], [ROWS - 1, 2, 2], [2 * ROWS, 1]])
@pytest.mark.parametrize("sink", [Sink("cpu"), PlainLoop()], ids=["sums", "no sums"])
def test_what_is_kept_comes_back_as_it_was(sink, sizes):
    if not isinstance(sink, PlainLoop):
        sink = Sink("cpu")
    taken = [sink.consume(batch(list(range(size)))) for size in sizes]
    kept = Kept()
    for checksum in taken:
        kept.add(checksum)
    assert kept.sizes == sizes
    for again in (list(kept), list(kept)):
        assert len(again) == len(taken)
        for found, right in zip(again, taken, strict=True):
            for one, other in zip(found, right, strict=True):
                assert (one is None) == (other is None)
                assert one is None or (one.dtype == other.dtype and torch.equal(one, other))


def test_a_checksum_whose_tensors_differ_in_length_is_kept_for_the_gate_to_name():
    odd = Checksums(torch.arange(4), torch.arange(3), torch.arange(4), torch.arange(4))
    kept = Kept()
    kept.add(odd)
    assert list(kept) == [odd] and kept.sizes == [4]


def grown() -> int:
    """Return by how many MB a process grew in 50 batches of 16 MB, of which it keeps the checksums alone."""
    done = subprocess.run([sys.executable, "-c", HEAP], cwd=PROJECT, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_the_heap_does_not_grow_with_the_batches():
    """Mostly by 0 to 32 MB of 800; in one process of many by a few batches more.

    With a list of the tensors in place of `Kept` it grows by 400 to 800 MB, at times by less.
    """
    assert median(grown() for _ in range(3)) < 130
