"""How fast the loaders of a bucket are beside raw GETs of the same objects, at 0 and 20 ms of latency.

256 items of 10 s in SeaweedFS on loopback, behind a proxy for each latency; batches of 32 in random order, which
nothing reads.
The ceiling is as many threads as there are requests in flight, each with a connection that receives every item into the
memory of one batch (`scripts/machine/objects.py`). Loader and ceiling take turns by the epoch, so that a ratio is of
one moment; a ratio is the median over the turns, with the 95 % interval of that median.

By hand: python -m bench.bench_objects --latency-ms 20 --in-flight 5,20 --loaders ring_s3
"""

import argparse
import itertools
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.bench_loaders import middle
from scripts.common import plugins
from scripts.common.location import Location
from scripts.common.request import LoaderRequest, epoch_order
from scripts.common.vocabulary import SPIN_COUNT
from scripts.loaders._s3 import Split
from scripts.machine.bucket_client import client_of, make_bucket
from scripts.machine.objects import Getter, bucket_of
from scripts.machine.pacing import Emulated
from scripts.machine.signing import made_up
from scripts.measure.sink import PlainLoop
from scripts.tiers._objects.servers import delayed, seaweedfs
from scripts.tiers._objects.upload import upload
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus

ITEMS, BATCH, BUCKET = 256, 32, "feedrate-bench"
GOAL = 0.9  # of ours
TURNS = 5  # at least
# How each loader is told the requests in flight.
LOADERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "ring_s3": lambda count: {"options": {"in_flight": count}},
    "ring_s3_ranges": lambda count: {"options": {"in_flight": count}},
    "s3_boto3": lambda count: {"options": {"fetchers": count}},
    "s3_aiobotocore": lambda count: {"options": {"in_flight": count}},
    "s3_obstore": lambda count: {"options": {"in_flight": count}},
    "s3_obstore_ranges": lambda count: {"options": {"in_flight": count}},
}
GOALS = {"ring_s3": GOAL, "ring_s3_ranges": GOAL}


class Ceiling:
    """Raw GETs of every item of a split, by so many threads, into the memory of one batch."""

    def __init__(self, request: LoaderRequest, in_flight: int) -> None:
        self.request, self.wanted = request, Split(request).wanted
        self.getters = [Getter(request.location) for _ in range(in_flight)]
        self.batch = np.empty((BATCH, request.samples), dtype=np.float32)

    def epoch(self, number: int) -> float:
        """Return the seconds that an epoch takes."""
        turns = itertools.count()
        order = epoch_order(self.request, number).tolist()

        def read(getter: Getter) -> None:
            while (turn := next(turns)) < len(order):
                wanted = self.wanted(order[turn])
                getter.read_into(wanted.stored, self.batch[turn % BATCH], wanted.first)

        threads = [threading.Thread(target=read, args=[getter]) for getter in self.getters]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - began

    def close(self) -> None:
        """Close the connections."""
        for getter in self.getters:
            getter.close()


Turns = list[tuple[float, float]]  # seconds of an epoch of the one and of the other
Pass = Callable[[int], float]  # of an epoch; returns its seconds


def race(loader: str, request: LoaderRequest, in_flight: int, seconds: float) -> Turns:
    """Return the turns of a loader and of the ceiling."""
    with ExitStack() as stack:
        ceiling = Ceiling(request, in_flight)
        stack.callback(ceiling.close)
        epoch = stack.enter_context(plugins.load("loaders", loader).open_epochs(request))
        return turns_of((partial(passed, epoch), ceiling.epoch), seconds)


def passed(epoch: Callable[[int], Iterator[dict[str, Any]]], number: int) -> float:
    """Pass an epoch to what reads nothing; return its seconds."""
    began, sink = time.perf_counter(), PlainLoop()
    count = sum(len(sink.consume(batch).item) for batch in epoch(number))
    assert count == ITEMS, f"{count} of {ITEMS} items came"
    return time.perf_counter() - began


def turns_of(runs: tuple[Pass, Pass], seconds: float) -> Turns:
    """Return the seconds of both, turn by turn in random order; a first one is not counted."""
    numbers = itertools.count()
    for run in runs:
        run(next(numbers))
    turns, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(turns) < TURNS:
        found = {which: runs[which](next(numbers)) for which in random.sample((0, 1), 2)}
        turns.append((found[0], found[1]))
    return turns


@contextmanager
def served(folder: Path, latencies: list[float]) -> Iterator[dict[float, str]]:
    """Serve the same objects once for each latency; the block gets the endpoints."""
    with ExitStack() as stack:
        stack.enter_context(made_up())
        endpoint, found = stack.enter_context(seaweedfs(folder / "seaweedfs")), {}
        for latency in latencies:
            proxy = folder / f"proxy-{latency:g}"
            proxy.mkdir(exist_ok=True)
            found[latency] = stack.enter_context(delayed(endpoint, Emulated(latency_ms=latency), proxy))
        yield found


def location(folder: Path, name: str, endpoint: str) -> Location:
    """Return where the copy of a format is."""
    index = folder / "index" / name
    return Location(f"s3://{BUCKET}/{name}", index=index, endpoint=endpoint, region="us-east-1", path_style=True)


def main() -> None:
    """Print the ratios."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # before OpenMP is loaded: as runs have it
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loaders", default=",".join(LOADERS), help=f"of {', '.join(LOADERS)}")
    parser.add_argument("--latency-ms", default="0,20", help="of the storage, one after the other")
    parser.add_argument("--in-flight", default="5,20,64", help="requests, one number after the other")
    parser.add_argument("--seconds", default=6.0, type=float, help="of turns, for each ratio")
    arguments = parser.parse_args()
    latencies = [float(text) for text in arguments.latency_ms.split(",")]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        folder = Path(made)
        corpus = make_corpus(folder / "corpus", items=ITEMS, seconds=10, validation=0)
        with served(folder, [0.0, *latencies]) as endpoints:
            bucket = bucket_of(location(folder, "none", endpoints[0.0]))
            with client_of(bucket) as client:
                make_bucket(client, BUCKET)
            for name in sorted({plugins.load("loaders", loader).FORMAT for loader in arguments.loaders.split(",")}):
                write_format(corpus, name, folder / name, readers=2)
                upload(folder / name, location(folder, name, endpoints[0.0]))
            counts = [int(text) for text in arguments.in_flight.split(",")]
            for latency, count, loader in itertools.product(latencies, counts, arguments.loaders.split(",")):
                place = location(folder, plugins.load("loaders", loader).FORMAT, endpoints[latency])
                request = request_for(corpus, loader, place, batch_size=BATCH, **LOADERS[loader](count))
                turns = race(loader, request, count, arguments.seconds)
                where = f"{latency:g} ms, {count} in flight"
                note(f"{loader}, {where} / raw GETs", turns, GOALS.get(loader))


def note(bench: str, turns: Turns, goal: float | None) -> None:
    """Print a ratio with the items a second behind it, and, where it has a goal, keep it for the table."""
    ratio, low, high = middle(other / loader for loader, other in turns)
    loader, other = (ITEMS / middle(turn[which] for turn in turns)[0] for which in (0, 1))
    print(f"{bench}: {ratio:.3f} (95 %: {low:.3f} to {high:.3f}); {loader:,.0f} and {other:,.0f} a second", flush=True)
    if goal is not None:
        print(json.dumps({"bench": bench, "ratio": ratio, "goal": goal}), flush=True)


if __name__ == "__main__":
    main()
