"""Measures the warm bound: random batches gathered from a resident tensor into one reused buffer, through the sink.

It is what a loader could reach "as if the whole data set were in RAM" and nothing else had to be done. Torch and numpy
both gather, and the faster one is the bound. On a GPU the bound is the copy of batches from pinned RAM.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.common.request import LoaderRequest, batches_of, epoch_order
from scripts.common.vocabulary import SPLIT
from scripts.measure import child, protocol
from scripts.measure.run_loader import LEAST_EPOCHS, cannot_run, threads_of
from scripts.plan.sweep import slug

MEMORY_SHARE = 0.25  # of what is available
WAYS = ("torch", "numpy")
PINNED_BATCHES = 8


class Unchecked:
    """Stands where a loader has its verifier: the bound delivers made data, which nobody has to verify."""

    ok = True

    def check(self, batch: Any) -> bool:  # noqa: ARG002
        """Accept the batch."""
        return True

    def finish(self, receipts: list[Any]) -> None:
        """Accept the epoch."""

    def check_epoch(self, number: int, receipts: list[Any]) -> None:
        """Accept a timed epoch."""


@contextmanager
def gathered(request: LoaderRequest, way: str) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Yield the epoch function over float32 (clips, 1, samples) in RAM, gathered into one buffer by torch or numpy."""
    import numpy as np
    import torch

    data = torch.empty((request.clips, 1, request.samples)).uniform_(-1, 1)
    small = _small(request, request.clips)
    buffer = torch.empty((request.batch_size, 1, request.samples))

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        for positions in batches_of(epoch_order(request, number), request.batch_size):
            audio, where = buffer[: len(positions)], torch.from_numpy(positions)
            if way == "torch":
                torch.index_select(data, 0, where, out=audio)
            else:
                np.take(data.numpy(), positions, axis=0, out=audio.numpy(), mode="clip")
            yield {"audio": audio, **{name: table[where] for name, table in small.items()}}

    yield epoch


@contextmanager
def copied(request: LoaderRequest, _way: str) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Yield the epoch function over a few batches in pinned RAM, copied to the GPU in turn: its bus is the bound."""
    import torch

    shape = (request.batch_size, 1, request.samples)
    pinned = [torch.empty(shape).uniform_(-1, 1).pin_memory() for _ in range(PINNED_BATCHES)]
    small = {name: table.to(request.device) for name, table in _small(request, request.clips).items()}

    def epoch(_number: int) -> Iterator[dict[str, Any]]:
        for turn, start in enumerate(range(0, request.clips, request.batch_size)):
            rest = {name: table[start : start + request.batch_size] for name, table in small.items()}
            audio = pinned[turn % PINNED_BATCHES][: len(rest["clip"])].to(request.device, non_blocking=True)
            yield {"audio": audio, **rest}

    yield epoch


def _small(request: LoaderRequest, clips: int) -> dict[str, Any]:
    """Return target, labels and clip of so many clips."""
    import torch

    labels = torch.zeros((clips, request.classes))
    return {"target": torch.zeros(clips, dtype=torch.int64), "labels": labels, "clip": torch.arange(clips)}


def main() -> None:
    """Measure one bound in a fresh child process and write its record."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--corpus", required=True, type=Path, help="folder of the corpus: number of clips, their length, classes")
    add("--out", required=True, type=Path)
    add("--settings", default={}, type=json.loads, help='JSON: {"device": "cpu", "batch_size": 32}')
    add("--threads", default="auto")
    add("--seconds", default=1.0, type=float, help="gather for at least this long")
    add("--limit-minutes", default=120.0, type=float, help="a measurement that takes longer is ended, and failed")
    add("--seed", default=0, type=int)
    add("--repeat", default=0, type=int)
    add("--dataset", default="by_hand")
    arguments = parser.parse_args()
    if child.is_child():
        write_json(arguments.out, measure(arguments))
        return
    arguments.out.unlink(missing_ok=True)
    crash = child.run_again(threads_of(arguments.threads), arguments.limit_minutes)
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
        "ways": None,
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

    from scripts.common.corpus import Corpus
    from scripts.machine import host
    from scripts.measure.sink import Sink

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

    source, ways = (gathered, WAYS) if request.device == "cpu" else (copied, ("pinned copy",))
    found = {}
    try:
        for way in ways:
            opened = partial(source, request, way)
            sink = Sink(request.device)
            found[way] = protocol.run(
                opened, Unchecked(), sink, LEAST_EPOCHS, time.perf_counter, arguments.seconds, around
            )
    except (RuntimeError, MemoryError) as error:
        return {**record, "status": "failed", "reason": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    record["ways"] = {way: protocol.rate(times) for way, times in found.items()}
    times = found[max(found, key=record["ways"].get)]
    record["before"], record["after"] = moments["before"].as_json(), moments["after"].as_json()
    record["warnings"] = host.disturbance(**moments)
    return {**record, "times": asdict(times), "clips_per_second": protocol.rate(times)}


if __name__ == "__main__":
    run_main(main)
