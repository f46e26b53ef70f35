"""Measures the warm bound: random batches gathered from a resident tensor into one reused buffer, through the sink.

It is what a loader could reach "as if the whole data set were in RAM" and nothing else had to be done. Torch and numpy
both gather, and the faster one is the bound. On a GPU the bound is the copy of batches from pinned RAM.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from scripts.common.errors import run_main
from scripts.common.location import Location
from scripts.common.request import LoaderRequest, batches_of, epoch_order
from scripts.common.vocabulary import SPLIT
from scripts.measure import protocol
from scripts.measure.record import LEAST_EPOCHS, begun, cannot_run, failed, measure_afresh, with_settings
from scripts.plan.runs import Bound, measured_from, parser_of

MEMORY_SHARE = 0.25  # of what is available
METHODS = ("torch", "numpy")
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
def gathered(request: LoaderRequest, method: str) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Yield the epoch function over float32 (clips, 1, samples) in RAM, gathered into one buffer by torch or numpy."""
    import numpy as np
    import torch

    data = torch.empty((request.clips, *request.sample.shape)).uniform_(-1, 1)
    small = _small(request, request.clips)
    buffer = torch.empty((request.batch_size, *request.sample.shape))

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        for positions in batches_of(epoch_order(request, number), request.batch_size):
            audio, where = buffer[: len(positions)], torch.from_numpy(positions)
            if method == "torch":
                torch.index_select(data, 0, where, out=audio)
            else:
                np.take(data.numpy(), positions, axis=0, out=audio.numpy(), mode="clip")
            yield {"audio": audio, **{name: table[where] for name, table in small.items()}}

    yield epoch


@contextmanager
def copied(request: LoaderRequest, _way: str) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Yield the epoch function over a few batches in pinned RAM, copied to the GPU in turn: its bus is the bound."""
    import torch

    shape = (request.batch_size, *request.sample.shape)
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
    bound, out = measured_from(Bound, parser_of(Bound, __doc__), {"corpus": "--corpus"})
    measure_afresh(with_settings(bound), out, new_record, measure)


def new_record(bound: Bound) -> dict[str, Any]:
    """Return the record of a bound that has not been measured."""
    return begun("bound", bound, bound=bound.bound, **dict.fromkeys(("clips_per_second", "times", "methods")))


def measure(bound: Bound) -> dict[str, Any]:
    """Return the bound's record."""
    import psutil
    import torch

    from scripts.common.corpus import Corpus
    from scripts.machine import host
    from scripts.measure.sink import Sink

    record = new_record(bound)
    torch.set_num_threads(record["threads"])
    corpus = Corpus(Path(bound.corpus))
    fitting = int(psutil.virtual_memory().available * MEMORY_SHARE) // corpus.sample.bytes
    request = LoaderRequest(
        location=Location("ram:///"),
        clips=max(1, min(corpus.counts[SPLIT], fitting)),
        sample=corpus.sample,
        classes=corpus.classes,
        seed=bound.seed,
        threads=record["threads"],
        **bound.settings,
    )
    record |= {"clips": request.clips, "clip_bytes": corpus.sample.bytes}
    reason = cannot_run(None, request)
    if reason:
        return {**record, "status": "skipped", "reason": reason}
    record["host"], _ = host.describe(("torch",))
    moments = {}

    def around(phase: str) -> None:
        moments[phase] = host.look(time.perf_counter)

    source, methods = (gathered, METHODS) if request.device == "cpu" else (copied, ("pinned copy",))
    found = {}
    try:
        for method in methods:
            opened = partial(source, request, method)
            sink = Sink(request.device)
            found[method] = protocol.run(
                opened, Unchecked(), sink, LEAST_EPOCHS, time.perf_counter, bound.seconds, around
            )
    except (RuntimeError, MemoryError) as error:
        return failed(record, error)
    record["methods"] = {method: protocol.rate(times) for method, times in found.items()}
    times = found[max(found, key=record["methods"].get)]
    record["before"], record["after"] = moments["before"].as_json(), moments["after"].as_json()
    record["warnings"] = host.disturbance(**moments)
    return {**record, "times": asdict(times), "clips_per_second": protocol.rate(times)}


if __name__ == "__main__":
    run_main(main)
