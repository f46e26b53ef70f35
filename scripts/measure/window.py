"""A visit's clock: an untimed part that fills queues and maps pages, then a window of batches that is timed.

A window begins and ends between two batches. It may end inside an epoch, so that a slow loader need not deliver all
clips to show that it is slow. How often an epoch began in it is then chance, so that epoch starts are taken out and
charged again at their share: `rate` is that of whole epochs, `steady_rate` that between epoch starts. Where no epoch
begins in so short a window it may go on for one, so that what a start costs is measured where all else is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from scripts.measure import protocol
from scripts.measure.protocol import EpochTimes
from scripts.measure.sink import Kept

WARM_UP_SECONDS = 0.2  # at least: the untimed part ends then in the first epoch, or with the one that is under way
QUEUES = 4  # a window has at least so many times the batches that workers and queues hold
LEAST_START_SHARE = 0.005  # of an epoch: a shorter start is not waited for


@dataclass(frozen=True)
class NextEpoch:
    """For how long a window goes on for an epoch start, where none was in it by its end."""

    batches: int  # of an epoch
    within: float  # seconds
    expected: float  # seconds that a start is thought to take

    def awaited(self, taken: int, interval: float) -> bool:
        """Return whether to go on, after so many batches of the epoch at so many seconds a batch."""
        left = (self.batches - taken) * interval
        return left <= self.within and self.expected >= LEAST_START_SHARE * self.batches * interval


@dataclass
class Window:
    """What was timed: a part of each epoch that it lies in; an epoch that began before it has no start."""

    settling: int = 1  # batches behind an epoch start until queues are in their steady state again
    parts: list[EpochTimes] = field(default_factory=list)
    started: list[bool] = field(default_factory=list)  # of each part, whether its epoch began in the window
    receipts: list[tuple[bool, Kept]] = field(default_factory=list)  # of each epoch: (whole, its receipts)

    @property
    def seconds(self) -> float:
        """Of all parts together."""
        return sum(part.seconds for part in self.parts)

    @property
    def clips(self) -> int:
        """Delivered in the window."""
        return sum(part.clips for part in self.parts)

    def interval(self) -> float | None:
        """Return the seconds from one batch to the next in the steady state; None where nothing in it was timed."""
        seconds, batches = 0.0, 0
        for part, started in zip(self.parts, self.started, strict=True):
            at = part.arrivals_seconds[self.settling - 1 if started else 0 :]
            if len(at) > 1:
                seconds, batches = seconds + at[-1] - at[0], batches + len(at) - 1
        return seconds / batches if batches else None

    def start_seconds(self) -> float | None:
        """Return what an epoch start costs, in seconds; None where the window does not tell.

        It is the time from the last batch of an epoch to the first one of the next at which queues are in their steady
        state again, less what so many batches take in that state: the first batch alone says too much, since those that
        other workers make meanwhile follow at once. Of epochs too short for a steady state, what the first batch takes
        beyond the usual gap.
        """
        usual = self.interval()
        lost = [] if usual is None else list(self._lost(usual, self.settling))
        if not lost:
            gaps = [later - earlier for part in self.parts for earlier, later in pairwise(part.arrivals_seconds)]
            lost = list(self._lost(median(gaps), 1)) if gaps else []
        return max(0.0, median(lost)) if lost else None

    def _lost(self, interval: float, batches: int) -> Iterator[float]:
        """Yield by how much later the batch of this number came, behind each start, than it would have without one."""
        ending = 0.0  # from the last batch of an epoch to its end
        for part, started in zip(self.parts, self.started, strict=True):
            at = part.arrivals_seconds
            if started and len(at) >= batches:
                yield ending + at[batches - 1] - batches * interval
            ending = part.seconds - at[-1] if at else 0.0

    def steady_rate(self, start_seconds: float) -> float:
        """Return clips/s without epoch starts, each of which cost `start_seconds`."""
        return self.clips / max(self.seconds - sum(self.started) * start_seconds, 0.01 * self.seconds)

    def rate(self, start_seconds: float, epoch_clips: int) -> float:
        """Return clips/s of whole epochs of so many clips, each with one start."""
        return 1 / (1 / self.steady_rate(start_seconds) + start_seconds / epoch_clips)

    def utilisation(self, rate: float | None = None) -> float | None:
        """Return AU in percent: the time in steps over all time; None of a task without steps.

        Over all time of the window, or at `rate` clips/s that of the same clips.
        """
        if any(part.compute_seconds is None for part in self.parts):
            return None
        seconds = self.seconds if rate is None else self.clips / rate
        return 100 * sum(part.compute_seconds for part in self.parts) / seconds


def timed(
    epoch: protocol.Epoch,
    sink: protocol.Sink,
    clock: Callable[[], float],
    seconds: float,
    held_batches: int = 0,
    around: Callable[[str], None] = lambda _phase: None,
    first_batch: Callable[[], None] = lambda: None,
    warm_up_seconds: float = WARM_UP_SECONDS,
    queues: int = QUEUES,
    following: NextEpoch | None = None,
) -> Window:
    """Take an open loader through the untimed part and a window of at least `seconds`; return the window.

    `held_batches`: what workers and queues hold: the untimed part has twice as many batches, which brings queues to
    their steady state, and so has a window behind its last epoch start, unless that epoch is shorter. A window has at
    least `queues` times as many, so that what they hold at its ends is small beside it. `around` is called with
    "before" and "after" the window, `first_batch` when the first batch is there. The untimed part ends inside the first
    epoch, where that is long, or with the epoch in which `warm_up_seconds` are over: what an epoch keeps is taken from
    the system in the second one too, while the allocator finds no room in what the first has given back. `following`:
    for how long the window goes on for an epoch start.
    """
    window = Window(max(1, 2 * held_batches))
    began, opened = clock(), None  # when the window opened
    arrived, resolved = protocol.noted_by(clock)
    counted, number = 0, 0

    def open_window() -> float:
        sink.finish()
        sink.computed()
        around("before")
        return clock()

    def enough() -> bool:
        return counted >= queues * held_batches and clock() - opened >= seconds

    def awaited() -> bool:
        """Return whether the window goes on for an epoch start, in the epoch in which it has begun."""
        return bool(following and counted) and following.awaited(len(arrivals), (clock() - opened) / counted)

    while opened is None or not enough() or (not any(window.started) and awaited()):
        mark = clock()
        from_start = opened is not None
        arrivals: list[Any] = []
        receipts = Kept()
        untimed, whole = 0, True
        stream = iter(epoch(number))
        for batch in stream:
            arrivals.append(arrived())
            if len(arrivals) == 1 and number == 0:
                first_batch()
            receipts.add(sink.consume(batch))
            if opened is not None:
                counted += 1
                if enough() and (len(arrivals) >= window.settling if from_start else not awaited()):
                    whole = False
                    break
            elif number == 0 and len(arrivals) > 2 * held_batches and clock() - began >= warm_up_seconds:
                opened = mark = open_window()
                untimed = len(arrivals)
        sink.finish()
        end = clock()
        if opened is None:
            if end - began >= warm_up_seconds:
                opened = open_window()
        else:
            arrivals = resolved(arrivals)
            sizes = receipts.sizes[untimed:]
            at = [arrival - mark for arrival in arrivals[untimed:]]
            gap = at[0] if at else 0.0
            window.started.append(from_start and bool(at))
            window.parts.append(EpochTimes(end - mark, gap, sum(sizes), at, sizes, compute_seconds=sink.computed()))
        window.receipts.append((whole, receipts))
        number += 1
    around("after")
    if not whole and hasattr(stream, "close"):
        stream.close()
    return window
