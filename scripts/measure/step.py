"""An emulated training step of a known length, and what trials with such steps say of a loader.

A step holds the interpreter for a share of its length and sleeps the rest, so that a loader whose threads need the same
interpreter, or the same cores, waits as it does beside a training. What holds it is a loop in pure Python, which gives
way to other threads as any Python does: when the switch interval is over (`sys.getswitchinterval`, 5 ms). The loop ends
by the CPU time of its thread, so that waiting for the interpreter or a core makes a step longer and not lighter.

A training's Python launches a model's layers one after the other, and torch gives the interpreter back within each of
these operations. So the share is spread over pieces of PIECE_SECONDS, between which the step sleeps. Each piece has a
deadline, counted from when the batch was there: a piece that comes late shortens the sleep after it, as a device goes
on with what is in its queue while the host is late. What cannot be caught up with makes the step longer.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from scripts.measure.protocol import Batch, Epoch, Sink
from scripts.measure.window import timed

PIECE_SECONDS = 0.002
SPIN_SECONDS = 0.0002  # before the end of a step: sleeping overshoots by about that much
TURNS = 20  # of the loop between two looks at the clock
LONG, CHECK = 4.0, 2.0  # times that a batch takes, of the steps that are tried beside one as long as a batch
LONG_MS = 20.0  # the long one at least: as usual a training's
TRIALS_SECONDS, MOST_ROUNDS = 2.2, 5  # of the trials of a loader: one round, and more until so many seconds are over
WINDOW_SECONDS = 0.2  # of a trial, at least,
LEAST_BATCHES, LONG_BATCHES = 15, 6  # and so many batches,
QUEUES = 2  # and so many times what the loader holds


def wait(
    seconds: float, clock: Callable[[], float], sleep: Callable[[float], None] = time.sleep, host_share: float = 0.0
) -> None:
    """Return after `seconds`, of which the interpreter is held for `host_share`; the last moment is awaited awake."""
    began, pieces = clock(), max(1, round(seconds / PIECE_SECONDS))
    for piece in range(1, pieces + 1):
        if host_share:
            hold(host_share * seconds / pieces)
        left = began + piece * seconds / pieces - clock() - (SPIN_SECONDS if piece == pieces else 0.0)
        if left > 0:
            sleep(left)
    while clock() < began + seconds:
        pass


def hold(seconds: float, cpu_clock: Callable[[], float] = time.thread_time) -> None:
    """Compute in pure Python until this thread has used `seconds` of a core."""
    end = cpu_clock() + seconds
    while cpu_clock() < end:
        for _ in range(TURNS):
            pass


@dataclass
class Stepped:
    """A sink that consumes a batch, and then takes a step of a known length."""

    sink: Sink
    step_seconds: float
    clock: Callable[[], float]
    waiting: Callable[[float, Callable[[], float]], None] = wait
    reached: Callable[[], None] = lambda: None
    seconds: float = 0.0  # of steps, since that was last asked

    def consume(self, batch: Mapping[str, Any]) -> Any:
        """Consume the batch and wait for the length of a step; return the checksum.

        `reached` returns when the device has done what its current stream was given: the step begins when the batch is
        there, not when its copy is enqueued, and ends when it is consumed (machine/gpu.py; at once on a CPU).
        """
        self.reached()
        began = self.clock()
        checksum = self.sink.consume(batch)
        self.waiting(max(0.0, self.step_seconds - (self.clock() - began)), self.clock)
        self.reached()
        self.seconds += self.clock() - began
        return checksum

    def finish(self) -> None:
        """Wait until all of it is consumed."""
        self.sink.finish()

    def computed(self) -> float:
        """Return the seconds of steps since this was last asked."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


@dataclass(frozen=True)
class Tried:
    """What a step of one length gave: the time from a batch to the next, without epoch starts."""

    step_ms: float
    period_ms: float
    batches: int
    seconds: float


def tried(epoch: Epoch, sink: Sink, step_ms: float, clock: Callable[[], float], held: int, long: bool) -> Tried:
    """Return what steps of `step_ms`, which are the sink's, give beside an open loader that holds so many batches.

    Where the step is `long`, batches wait for it: the queues are full after the first ones, and each says the same.
    """
    held, batches = (1, LONG_BATCHES) if long else (held, LEAST_BATCHES)
    window = timed(epoch, sink, clock, WINDOW_SECONDS, held, warm_up_seconds=0.0, queues=QUEUES, batches=batches)
    counted = sum(len(part.batch_items) for part in window.parts)
    steady = window.seconds - window.starts * (window.start_seconds() or 0.0)
    return Tried(step_ms, 1000 * steady / counted, counted, window.seconds)


def following(epoch: Epoch) -> Epoch:
    """Return the epochs one after the other, whatever number is asked for; one that is left goes on where the loader
    has it so, and where nothing of it is left the next one comes.
    """
    numbers = itertools.count()

    def batches(_number: int) -> Iterator[Batch]:
        stream = iter(epoch(next(numbers)))
        first = next(stream, None)
        if first is None:
            yield from epoch(next(numbers))
            return
        yield first
        del first
        yield from stream

    return batches


def trials(
    window: Callable[[float, bool], Tried], batch_ms: float, own_ms: float | None, clock: Callable[[], float]
) -> dict[str, dict[str, Any]]:
    """Return what steps of three lengths, and none, gave to a loader whose batch takes `batch_ms`, by what each is for
    (decide/utilisation.py). `check` is the user's own step where that is known.

    `window(step_ms, long)` tries one, as `tried`. They come by turns until TRIALS_SECONDS are over, and the median of
    each counts: others may take the machine for a while.
    """
    long_ms = max(LONG * batch_ms, LONG_MS)
    lengths = {"plain": 0.0, "knee": batch_ms, "long": long_ms, "check": own_ms or CHECK * batch_ms}
    found: dict[str, list[Tried]] = {name: [] for name in lengths}
    began = clock()
    while not found["check"] or (clock() - began < TRIALS_SECONDS and len(found["check"]) < MOST_ROUNDS):
        for name, step_ms in lengths.items():
            found[name].append(window(step_ms, step_ms >= LONG * batch_ms))
    return {name: asdict(_middle(every)) for name, every in found.items()}


def _middle(every: Sequence[Tried]) -> Tried:
    """Return the median of what one length gave, of each number by itself."""
    return Tried(
        median(one.step_ms for one in every),
        median(one.period_ms for one in every),
        sum(one.batches for one in every),
        sum(one.seconds for one in every),
    )
