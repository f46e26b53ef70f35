"""An emulated training step, and the minimum one that a loader sustains at 90 % accelerator utilisation (AU).

AU is the time that the steps take over the time that everything takes. The step waits without using the CPU, as a
step on a GPU does. What is found carries over to a GPU that one does not have: a model whose step is longer is
sustained.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scripts.measure.protocol import Sink

TARGET_PERCENT = 90.0
PRECISION = 1.1  # the answer and the longest step that is known to be too short differ by this factor at most
MOST_TRIALS = 8
SPIN_SECONDS = 0.0002  # before the end of a step: sleeping overshoots by about that much


def wait(seconds: float, clock: Callable[[], float], sleep: Callable[[float], None] = time.sleep) -> None:
    """Return after `seconds`: asleep but for the last moment, which is awaited awake."""
    end = clock() + seconds
    if seconds > SPIN_SECONDS:
        sleep(seconds - SPIN_SECONDS)
    while clock() < end:
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


@dataclass
class Trial:
    """What one length of step gave."""

    step_ms: float
    au_percent: float
    seconds: float
    batches: int


def minimum_step(trial: Callable[[float], Trial], batch_seconds: float, limit_ms: float) -> dict[str, Any]:
    """Return the minimum step, `ms`, in which AU is at least TARGET_PERCENT, found by bisection.

    `trial(step_ms)` measures one length. `batch_seconds` is the time a batch takes without a step: since the steps
    add to it or hide behind it, AU at a step s is at most s / batch_seconds, which bounds the search from below
    without a trial. A guess from the last trial stands in for the middle where it is between the bounds: loaders that
    work behind the step and those that do not differ by a factor of ten. `missed_ms` is the longest step known to be
    too short. `ms` is None where even `limit_ms` is: then `missed_ms` is that limit.
    """
    share = TARGET_PERCENT / 100
    low = min(limit_ms, batch_seconds * 1000 * share)  # too short or just so
    if low >= limit_ms:
        return _found(None, limit_ms, limit_ms, [])
    trials: list[Trial] = []
    high: float | None = None
    guess = low * PRECISION**2
    while len(trials) < MOST_TRIALS and (high is None or high > low * PRECISION):
        trials.append(trial(guess))
        if trials[-1].au_percent >= TARGET_PERCENT:
            high = guess
        elif guess >= limit_ms:
            return _found(None, limit_ms, limit_ms, trials)
        else:
            low = guess
        guess = _next(trials[-1], low, high, share, limit_ms)
    return _found(high, low, limit_ms, trials)


def _next(last: Trial, low: float, high: float | None, share: float, limit_ms: float) -> float:
    """Return the step to try next: what would do if a step of another length left the same time over, or the middle."""
    left_over = last.step_ms * (100 / last.au_percent - 1) if last.au_percent else limit_ms
    guess = left_over * share / (1 - share) * PRECISION**0.5
    if high is None:
        return min(limit_ms, max(guess, low * PRECISION**2))
    if low * PRECISION**0.5 < guess < high / PRECISION**0.5:
        return guess
    middle = (low * high) ** 0.5
    return max(middle, high / PRECISION) if guess >= high / PRECISION**0.5 else middle


def _found(high: float | None, low: float, limit_ms: float, trials: list[Trial]) -> dict[str, Any]:
    return {
        "ms": high,
        "missed_ms": low,
        "limit_ms": limit_ms,
        "target_percent": TARGET_PERCENT,
        "trials": [asdict(trial) for trial in trials],
    }
