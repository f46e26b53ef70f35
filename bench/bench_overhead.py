"""What the instrument costs: the timed loop of a run against a bare loop over the same loader, side by side.

Four loops over one opened loader take turns by the epoch, in an order drawn again for each round: `bare` (for batch in
loader: consume it), `again` (the same once more: how far it is from `bare` is what this bench cannot tell apart),
`timed` (the protocol's own), and `idle` (for batch in loader: pass). The sampler, which watches a run from another
process, is measured by its CPU time: were it to take every moment of that from the loader, it would add just so much.

Goal: timed over bare, and the sampler's share of one core on top, at most 1 %, for the worst of the loaders that this
machine is calm enough for: where the 95 % interval is wider than 1 % either way, nothing is said. What consuming
costs, timed over idle, is shown too: it is no overhead but the work that every loader is asked for.

By hand: python -m bench.bench_overhead
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from scripts.common import plugins
from scripts.common.vocabulary import SPIN_COUNT
from scripts.machine.cores import cores_allowed
from scripts.measure import protocol
from scripts.measure.sink import Sink
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus

SECONDS = 60  # of turns, of each case
WATCHED_SECONDS = 10
RESOLVED = 0.01
ITEMS = 256  # turns must be short beside the machine's own ups and downs
WATCH = """
import sys, time
from scripts.measure.sampler import Sampler
sampler = Sampler(int(sys.argv[1]), gpu=False)
while True:
    time.sleep(sampler.take())
"""
CASES = (("numpy_memmap", 0), ("lazy_memmap", 0), ("dali_npy", 2), ("webdataset", 2))


def loops(sink: Sink) -> dict:
    """Return the loops: each takes (epoch function, number) and goes through one epoch."""

    def bare(epoch, number):
        for batch in epoch(number):
            sink.consume(batch)

    def idle(epoch, number):
        for _ in epoch(number):
            pass

    def timed(epoch, number):
        protocol.time_epochs(lambda _: epoch(number), sink, 1, time.perf_counter, 0.0, [])

    return {"bare": bare, "again": bare, "timed": timed, "idle": idle}


def measure(epoch: Callable[[int], Any]) -> dict[str, list[float]]:
    """Return the seconds of an epoch of each loop, round by round, the loops taking turns in changing order."""
    ways = loops(Sink("cpu"))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    numbers = itertools.count()
    names = list(ways)
    for name in names:  # warm
        ways[name](epoch, next(numbers))
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        random.shuffle(names)
        for name in names:
            began = time.perf_counter()
            ways[name](epoch, next(numbers))
            seconds[name].append(time.perf_counter() - began)
    return seconds


def watched_share(epoch: Callable[[int], Any]) -> float:
    """Return the share of one core that the sampler takes while it watches epochs of this process."""
    timed = loops(Sink("cpu"))["timed"]
    watch = subprocess.Popen([sys.executable, "-c", WATCH, str(os.getpid())])
    try:
        time.sleep(2)  # until it has begun
        process = psutil.Process(watch.pid)
        used, began = _cpu_seconds(process), time.perf_counter()
        for number in itertools.count():
            timed(epoch, number)
            if time.perf_counter() - began > WATCHED_SECONDS:
                break
        return (_cpu_seconds(process) - used) / (time.perf_counter() - began)
    finally:
        watch.kill()
        watch.wait()


def _cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process, from its scheduler's account in nanoseconds, of all its threads."""
    tasks = Path(f"/proc/{process.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def ratio(seconds: dict[str, list[float]], over: str, under: str) -> tuple[float, float, float]:
    """Return the median over rounds of one loop's seconds over another's, and its 95 % interval (order statistics)."""
    ratios = sorted(a / b for a, b in zip(seconds[over], seconds[under], strict=True))
    reach = 0.98 * len(ratios) ** 0.5
    low, high = round(len(ratios) / 2 - reach), round(len(ratios) / 2 + reach)
    return statistics.median(ratios), ratios[max(0, low)], ratios[min(len(ratios) - 1, high)]


def main() -> None:
    """Print the ratios for a few loaders in RAM, items of 10 s."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # before OpenMP is loaded: as runs have it
    import torch

    torch.set_num_threads(cores_allowed())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        corpus = make_corpus(Path(folder) / "corpus", items=ITEMS, seconds=10, validation=0)
        resolved = []
        for name, workers in CASES:
            module = plugins.load("loaders", name)
            data = Path(folder) / module.FORMAT
            if not data.exists():
                write_format(corpus, module.FORMAT, data, readers=2)
            request = request_for(corpus, name, data, batch_size=32, workers=workers, prefetch=2)
            with module.open_epochs(request) as epoch:
                seconds, share = measure(epoch), watched_share(epoch)
            middle, low, high = ratio(seconds, "timed", "bare")
            whole, calm = middle + share, high - low <= 2 * RESOLVED
            resolved += [whole] if calm else []
            bare, rounds = statistics.median(seconds["bare"]) * 1e3, len(seconds["bare"])
            print(
                f"{name}, {workers} workers: {rounds} rounds, an epoch {bare:.1f} ms; with the sampler {whole:.4f}",
                end="",
            )
            print("" if calm else ", which is not resolved here")
            for over, under in (("timed", "bare"), ("again", "bare"), ("timed", "idle")):
                middle, low, high = ratio(seconds, over, under)
                print(f"    {over} / {under}: {middle:.4f} (95 %: {low:.4f} to {high:.4f})")
            print(f"    the sampler: {share:.2%} of one core", flush=True)
    bench = "timed loop / bare loop, and the sampler's share"
    print(
        json.dumps(
            {"bench": bench, "ratio": max(resolved, default=float("nan")), "goal": 1.01, "lower_is_better": True}
        )
    )


if __name__ == "__main__":
    main()
