"""What the instrument costs: the timed loop of a run against a bare loop over the same loader, side by side.

Three loops over one opened loader take turns for many rounds: `bare` (for batch in loader: consume it), `timed` (the
protocol's own, watched by the sampler in another process as a run is, but awake in these turns alone, so that it looks
once in each: more often than in a run), and `idle` (for batch in loader: pass). Goal:
timed at most 1 % over bare. What consuming costs, timed over idle, is shown too: it is no overhead but the work that
every loader is asked for.

By hand: PYTHONPATH=scripts GOMP_SPINCOUNT=1000 python tests/bench_overhead.py
"""

import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import plugins
from loader_cases import request_for, write_format
from made_corpus import make_corpus
from measure import protocol
from measure.host import cores_allowed
from measure.sink import Sink

ROUNDS = 101  # of one epoch each: turns must be short beside the machine's own ups and downs
WATCH = """
import sys, time
from measure.sampler import Sampler
sampler = Sampler(int(sys.argv[1]), gpu=False)
while True:
    time.sleep(sampler.take())
"""
CASES = (("numpy_memmap", 0), ("lazy_memmap", 0), ("dali_npy", 2), ("webdataset", 2))


def loops(sink: Sink) -> dict:
    """Return the three loops: each takes (epoch function, number) and goes through one epoch."""

    def bare(epoch, number):
        for batch in epoch(number):
            sink.consume(batch)

    def idle(epoch, number):
        for _ in epoch(number):
            pass

    def timed(epoch, number):
        protocol.time_epochs(lambda _: epoch(number), sink, 1, time.perf_counter, 0.0, [])

    return {"bare": bare, "timed": timed, "idle": idle}


@contextmanager
def watched() -> Iterator[Callable[[bool], None]]:
    """Yield a switch for a sampler in a process of its own that watches this one; off at first."""
    watch = subprocess.Popen([sys.executable, "-c", WATCH, str(os.getpid())])
    try:
        time.sleep(1)  # until it has begun
        switch = lambda on: watch.send_signal(signal.SIGCONT if on else signal.SIGSTOP)  # noqa: E731
        switch(False)
        yield switch
    finally:
        watch.kill()
        watch.wait()


def measure(epoch) -> dict[str, list[float]]:
    """Return the seconds of an epoch of each loop, round by round, the loops taking turns in changing order."""
    ways = loops(Sink("cpu"))
    seconds = {name: [] for name in ways}
    numbers = itertools.count()
    names = list(ways)
    with watched() as switch:
        for turn in range(ROUNDS + 1):
            random.shuffle(names)
            for name in names:
                switch(name == "timed")
                began = time.perf_counter()
                ways[name](epoch, next(numbers))
                if turn:
                    seconds[name].append(time.perf_counter() - began)
    return seconds


def ratio(seconds: dict[str, list[float]], over: str, under: str) -> float:
    """Return the median over rounds of one loop's seconds over another's."""
    return statistics.median(a / b for a, b in zip(seconds[over], seconds[under], strict=True))


def main() -> None:
    """Print the ratios for a few loaders in RAM, 512 clips of 10 s."""
    import torch

    torch.set_num_threads(cores_allowed())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        corpus = make_corpus(Path(folder) / "corpus", clips=512, seconds=10, validation=0)
        worst = 0.0
        for name, workers in CASES:
            module = plugins.load("loaders", name)
            data = Path(folder) / module.FORMAT
            if not data.exists():
                write_format(corpus, module.FORMAT, data, readers=2)
            request = request_for(corpus, name, data, batch_size=32, workers=workers, prefetch=2)
            with module.open_epochs(request) as epoch:
                seconds = measure(epoch)
            over_bare, over_idle = ratio(seconds, "timed", "bare"), ratio(seconds, "timed", "idle")
            worst = max(worst, over_bare)
            bare = statistics.median(seconds["bare"]) * 1e3
            print(f"{name}, {workers} workers: an epoch {bare:.1f} ms, timed / bare {over_bare:.4f}", end="")
            print(f", timed / idle {over_idle:.2f} (what consuming costs)", flush=True)
    print(
        json.dumps(
            {"bench": "timed and watched loop / bare loop", "ratio": worst, "goal": 1.01, "lower_is_better": True}
        )
    )


if __name__ == "__main__":
    main()
