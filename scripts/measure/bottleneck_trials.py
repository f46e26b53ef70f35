"""What the bottleneck is, by differences: its speed with one part of its work left out after the other.

A part that costs nothing changes nothing when it is left out; the one whose absence saves the most time is the
bottleneck. Which parts a loader can leave out is its `STAGES`. The speeds are taken in the process of the run, after
its timed epochs, so that they stand beside a number of the same moment.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.measure import protocol
from scripts.measure.sink import PlainLoop, Sink

LEAST_SECONDS = 0.3  # each speed is taken for at least so long
CONSUMING_SECONDS = 0.1

Opened = Callable[..., AbstractContextManager[protocol.Epoch]]


def stages_of(module: ModuleType, request: LoaderRequest) -> tuple[str, ...]:
    """Return which of its stages the loader has under these settings: without workers nothing is transferred."""
    return tuple(name for name in getattr(module, "STAGES", ()) if name != "transfer" or request.workers)


class Explanation:
    """Takes a loader's speeds with parts of its work left out, in clips/s, under the conditions of its run.

    `opened(**changes)` constructs the loader; `sink()` makes what consumes its batches, with the run's emulated step;
    `cold` is what makes an epoch cold, or None; `lift` ends the limits of the run's cache, or is None.
    """

    def __init__(
        self,
        opened: Opened,
        sink: Callable[[], protocol.Sink],
        clock: Callable[[], float],
        cold: protocol.Cold | None = None,
        lift: Callable[[], object] | None = None,
    ) -> None:
        self._opened, self._sink, self._clock, self._cold, self._lift = opened, sink, clock, cold, lift

    def speeds(self, module: ModuleType, request: LoaderRequest, full: float, step: bool) -> dict[str, Any]:
        """Return {"full", "without": {part: clips/s}, "consumer"}; `full` is the speed with nothing left out.

        The parts: `storage` (the same with a warm cache), `compute` (without the emulated step), `host_to_device` (the
        batches stay on the CPU, unread), the loader's own stages, and `everything`: all stages and the step. Each part
        is left out alone, but that nothing is read from storage, nor decoded, where `read` is left out. `consumer` is
        the sink alone.
        """
        stages = stages_of(module, request)
        plain = Sink(request.device)
        found: dict[str, float] = {}
        if self._cold is not None:
            found["storage"] = self._warm(self._sink())
        if step:
            found["compute"] = self._speed(plain)
        if request.device != "cpu":
            found["host_to_device"] = self._speed(PlainLoop(), device="cpu", pin_memory=False)
        for stage in stages:
            way = self._warm if stage == "read" else self._speed
            found[stage] = way(self._sink(), without=frozenset({stage}))
        if stages:
            found["everything"] = self._warm(plain, without=frozenset(stages))
        if self._lift is not None:
            self._lift()
            found["storage"] = self._warm(self._sink())
        return {"full": full, "without": found, "consumer": _consumer(request, plain, self._clock)}

    def _speed(self, sink: protocol.Sink, **changes: Any) -> float:
        """Return clips/s with `changes`, the cache being as in the run."""
        if self._cold is None:
            return self._warm(sink, **changes)
        timed: list[protocol.EpochTimes] = []
        while sum(one.seconds for one in timed) < LEAST_SECONDS:
            protocol.time_cold_epoch(lambda: self._opened(**changes), sink, self._clock, self._cold, timed)
        return sum(one.clips for one in timed) / sum(one.seconds for one in timed)

    def _warm(self, sink: protocol.Sink, **changes: Any) -> float:
        """Return clips/s with `changes` and a warm cache, after an epoch that is not timed."""
        timed: list[protocol.EpochTimes] = []
        with self._opened(**changes) as epoch:
            for batch in epoch(0):
                sink.consume(batch)
            sink.finish()
            protocol.time_epochs(epoch, sink, 1, self._clock, LEAST_SECONDS, timed)
        return sum(one.clips for one in timed) / sum(one.seconds for one in timed)


def _consumer(request: LoaderRequest, sink: Sink, clock: Callable[[], float]) -> float:
    """Return clips/s of the sink alone: the same batch on the device, again and again."""
    import torch

    count = min(request.batch_size, request.clips)
    batch: Mapping[str, Any] = {
        request.sample.key: torch.zeros((count, *request.sample.shape), device=request.device),
        "target": torch.zeros(count, dtype=torch.int64, device=request.device),
        "labels": torch.zeros((count, request.classes), device=request.device),
        "clip": torch.arange(count, device=request.device),
    }
    sink.consume(batch)
    sink.finish()
    consumed, began = 0, clock()
    while clock() - began < CONSUMING_SECONDS:
        sink.consume(batch)
        consumed += count
    sink.finish()
    return consumed / (clock() - began)
