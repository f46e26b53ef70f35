"""Measures the warm bound: random batches gathered from a resident tensor into one reused buffer, through the sink.

It is what a loader could reach "as if the whole data set were in RAM" and nothing else had to be done.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from errors import run_main
from files import write_json
from loading import LoaderRequest, batches_of, epoch_order
from measure import child, protocol
from plan import SPLIT, slug
from run_loader import LEAST_EPOCHS, cannot_run, rate, threads_of

MEMORY_SHARE = 0.25  # of what is available


class Unchecked:
    """Stands where a loader has its verifier: the bound delivers made data, which nobody has to verify."""

    ok = True

    def check(self, batch: Any) -> None:
        """Accept the batch."""

    def finish(self) -> None:
        """Accept the epoch."""

    def check_epoch(self, number: int, clips: list[Any]) -> None:
        """Accept a timed epoch."""


@contextmanager
def resident(request: LoaderRequest) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Yield the epoch function over float32 (clips, 1, samples) in RAM, or in the GPU's memory for device cuda."""
    import torch

    data = torch.empty((request.clips, 1, request.samples), device=request.device).uniform_(-1, 1)
    small = {
        "target": torch.zeros(request.clips, dtype=torch.int64, device=request.device),
        "labels": torch.zeros((request.clips, request.classes), device=request.device),
        "clip": torch.arange(request.clips, device=request.device),
    }
    buffer = data.new_empty((request.batch_size, 1, request.samples))

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        order = torch.from_numpy(epoch_order(request, number)).to(request.device)
        for positions in batches_of(order, request.batch_size):
            audio = torch.index_select(data, 0, positions, out=buffer[: len(positions)])
            yield {"audio": audio, **{name: table[positions] for name, table in small.items()}}

    yield epoch


def main() -> None:
    """Measure one bound in a fresh child process and write its record."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--corpus", required=True, type=Path, help="folder of the corpus: number of clips, their length, classes")
    add("--out", required=True, type=Path)
    add("--settings", default={}, type=json.loads, help='JSON: {"device": "cpu", "batch_size": 32}')
    add("--threads", default="auto")
    add("--seconds", default=1.0, type=float, help="gather for at least this long")
    add("--seed", default=0, type=int)
    add("--repeat", default=0, type=int)
    add("--dataset", default="by_hand")
    arguments = parser.parse_args()
    if child.is_child():
        write_json(arguments.out, measure(arguments))
        return
    crash = child.run_again(threads_of(arguments.threads))
    if crash:
        write_json(arguments.out, {**new_record(arguments), "status": "failed", "reason": crash})


def new_record(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the record of a bound that has not been measured."""
    settings = {"device": "cpu", "batch_size": 32, **arguments.settings}
    return {
        "record": "bound",
        "bound": "warm",
        "status": "ok",
        "reason": None,
        "dataset": arguments.dataset,
        "repeat": arguments.repeat,
        "slug": slug(settings),
        "settings": settings,
        "threads": threads_of(arguments.threads),
        "clips": None,
        "clip_bytes": None,
        "clips_per_second": None,
        "times": None,
        "host": None,
        "before": None,
        "after": None,
        "warnings": [],
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the bound's record."""
    import psutil
    import torch

    from corpus import Corpus
    from measure import host
    from measure.sink import Sink

    record = new_record(arguments)
    torch.set_num_threads(record["threads"])
    corpus = Corpus(arguments.corpus)
    clip_bytes = corpus.samples * 4
    fitting = int(psutil.virtual_memory().available * MEMORY_SHARE) // clip_bytes
    request = LoaderRequest(
        data=Path(),
        clips=max(1, min(corpus.counts[SPLIT], fitting)),
        samples=corpus.samples,
        classes=corpus.classes,
        seed=arguments.seed,
        threads=record["threads"],
        **record["settings"],
    )
    record |= {"clips": request.clips, "clip_bytes": clip_bytes}
    reason = cannot_run(None, request)
    if reason:
        return {**record, "status": "skipped", "reason": reason}
    record["host"], _ = host.describe(("torch",))
    moments = {}

    def around(phase: str) -> None:
        moments[phase] = host.look(time.perf_counter)

    opened = lambda: resident(request)  # noqa: E731
    sink = Sink(request.device)
    times = protocol.run(opened, Unchecked(), sink, LEAST_EPOCHS, time.perf_counter, arguments.seconds, around)
    record["before"], record["after"] = moments["before"].as_json(), moments["after"].as_json()
    record["warnings"] = host.disturbance(moments["before"], moments["after"])
    return {**record, "times": asdict(times), "clips_per_second": rate(times)}


if __name__ == "__main__":
    run_main(main)
