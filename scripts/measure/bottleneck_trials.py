"""What the bottleneck is, by differences: a loader's speed with one part of its work left out after the other.

A part that costs nothing changes nothing when it is left out; the one whose absence saves the most time is the
bottleneck. Which parts a loader can leave out is its `STAGES`. The speeds are taken in rounds, one after the other in
one process, so that those of a round are of the same moment.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from statistics import median
from types import ModuleType
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.machine import gpu
from scripts.machine.page_cache import ColdCache
from scripts.measure import protocol
from scripts.measure.ceiling import consumed
from scripts.measure.sink import Sink
from scripts.measure.transformed import LEFT_OUT
from scripts.measure.window import buffered_batches, cold_part, timed

LEAST_SECONDS = 0.15  # each speed of a round is taken for at least so long
WARM_UP_SECONDS = 0.1
CONSUMER_SECONDS = 0.05
LEAST_ROUNDS, MOST_ROUNDS = 3, 5
WHOLE = ("full", "again", "consumer")  # speeds without which nothing is left out
FEWER_ROUNDS, LONG_SECONDS = 2, 20.0  # where they took so long: the session has other things to do
ROUNDS_SECONDS = 6.0  # after which no further round begins

Opened = Callable[..., AbstractContextManager[protocol.Epoch]]
Found = dict[str, Any]


def stages_of(module: ModuleType, request: LoaderRequest) -> tuple[str, ...]:
    """Return which of its stages the loader has under these settings: without workers nothing is transferred."""
    own = tuple(name for name in getattr(module, "STAGES", ()) if name != "transfer" or request.workers)
    return (*own, LEFT_OUT) if request.applied else own


@dataclass
class Explanation:
    """Takes a loader's speeds with parts of its work left out, in items/s, under the conditions of its run."""

    opened: Opened  # `opened(**changes)` constructs the loader
    sink: Callable[[], protocol.Sink]  # makes what consumes its batches, with the run's emulated step
    clock: Callable[[], float]
    cold: ColdCache | None = None  # what makes an epoch cold
    lift: Callable[[], object] | None = None  # ends the limits of the run's cache
    held: int = 0

    def speeds(self, module: ModuleType, request: LoaderRequest, step: bool) -> Found:
        """Return {"full", "again", "without": {part: items/s}, "consumer"}: medians, and of each of the `rounds` its
        own.

        In a round the loader is taken with nothing left out (`full`), once more (`again`: what differs between the two
        is the least that counts), without each part, and the sink by itself (`consumer`), in changing order. The parts:
        `storage` (the same with a warm cache), `compute` (without the emulated step), `host_to_device` (batches that
        are on the device already in place of those that would be copied), the loader's own stages, and `everything`:
        all stages and the step. Nothing is read from storage, nor decoded, where `read` is left out.
        """
        # a short window cannot be long beside all that queues hold
        self.held = request.workers + buffered_batches(module, request)
        self.part = cold_part(request, 2 * self.held, LEAST_SECONDS)
        trials = dict(self._trials(module, request, step))
        rounds: list[Found] = []
        began = self.clock()
        while len(rounds) < (FEWER_ROUNDS if rounds and self.clock() - began > LONG_SECONDS else LEAST_ROUNDS) or (
            len(rounds) < MOST_ROUNDS and self.clock() - began < ROUNDS_SECONDS * len(rounds) / (len(rounds) + 1)
        ):
            names = list(trials)
            turn = len(rounds) % len(names)
            found = {name: trials[name]() for name in [*names[turn:], *names[:turn]]}
            whole = {key: found.pop(key) for key in WHOLE}
            rounds.append({**whole, "without": found})
        if self.lift is not None:
            self.lift()
            self._read_through(self.sink())
            storage = self._warm(self.sink())
            for one in rounds:
                one["without"]["storage"] = storage
        middle = {key: median(one[key] for one in rounds) for key in WHOLE}
        parts = rounds[0]["without"]
        return {**middle, "without": {part: median(one["without"][part] for one in rounds) for part in parts}} | {
            "rounds": rounds
        }

    def _trials(
        self, module: ModuleType, request: LoaderRequest, step: bool
    ) -> Iterator[tuple[str, Callable[[], float]]]:
        """Yield (part left out, what measures the speed without it), `full`, `again` and `consumer` among them."""
        stages = stages_of(module, request)
        plain = Sink(request.device)
        yield "full", lambda: self._speed(self.sink())
        if self.cold is not None:
            yield "storage", lambda: self._warm(self.sink())
        if step:
            yield "compute", lambda: self._speed(plain)
        if request.device != "cpu":
            yield gpu.COPY, lambda: self._speed(self.sink(), without=frozenset({gpu.COPY}))
        for stage in stages:
            how = self._warm if stage == "read" else self._speed
            yield stage, partial(how, self.sink(), without=frozenset({stage}))
        yield "again", lambda: self._speed(self.sink())
        if stages:
            yield "everything", lambda: self._warm(plain, without=frozenset(stages))
        batch = gpu.zeros(request, min(request.batch_size, request.items))  # on the device, again and again
        yield "consumer", lambda: consumed(plain, [batch], self.clock, CONSUMER_SECONDS)

    def _speed(self, sink: protocol.Sink, **changes: Any) -> float:
        """Return items/s with `changes`, the cache being as in the run; opening the loader apart."""
        if self.cold is None:
            return self._warm(sink, **changes)
        timed_: list[protocol.EpochTimes] = []
        while sum(one.seconds for one in timed_) < LEAST_SECONDS:
            opened = partial(self.opened, **changes)
            protocol.time_cold_epoch(opened, sink, self.clock, self.cold, timed_, self.part)
        return sum(one.items for one in timed_) / sum(one.seconds - one.opening_seconds for one in timed_)

    def _read_through(self, sink: protocol.Sink) -> None:
        """Read an epoch, untimed: what a limit has kept out of the cache is there afterwards."""
        with self.opened() as epoch:
            for batch in epoch(0):
                sink.consume(batch)
        sink.finish()

    def _warm(self, sink: protocol.Sink, **changes: Any) -> float:
        """Return items/s with `changes` and a warm cache, of a short window without epoch starts."""
        with self.opened(**changes) as epoch:
            window = timed(epoch, sink, self.clock, LEAST_SECONDS, self.held, warm_up_seconds=WARM_UP_SECONDS, queues=2)
        return window.steady_rate(window.start_seconds() or 0.0)
