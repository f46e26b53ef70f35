"""A run's clock: an untimed part that fills queues and maps pages, then a window of batches that is timed.

A window begins and ends between two batches. It may end inside an epoch, so that a slow loader need not deliver all
items to show that it is slow. How often an epoch began in it is then chance, so that epoch starts are taken out and
charged again at their share: `rate` is that of whole epochs, `steady_rate` that between epoch starts. A process is
slower in its first epoch, in which it maps pages and takes memory that it keeps: that is untimed as a whole, unless it
is long.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from statistics import median
from types import ModuleType
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.machine.page_cache import ColdCache
from scripts.measure import protocol
from scripts.measure.protocol import EpochTimes
from scripts.measure.sink import Kept

WARM_UP_SECONDS = 0.2  # at least: the untimed part ends with the epoch in which these are over,
FIRST_EPOCH_SECONDS = 5.0  # but inside the first one where that would go on for longer than this,
NOTICED_BYTES_PER_SECOND = 5e8  # or is read so slowly that what is done once for each page is below 5 % of it,
INSIDE_SECONDS = 0.5  # not before so long after its first batch
QUEUES = 4  # a window has at least so many times the batches that a loader holds
COLD_SECONDS = 5.0  # of a cold epoch at least, which is left then where its rest takes longer than that
EMPTY = "epoch {} delivered nothing: each epoch must deliver every item again"
LEAST_START_SHARE = 0.005  # of an epoch: a shorter start is not waited for


@dataclass(frozen=True)
class Known:
    """What is known of a loader's epochs before it is timed."""

    batches: int  # of an epoch
    first_within: float = 0.0  # seconds: the first epoch is untimed where its rest takes no longer
    start_within: float = 0.0  # seconds for which a window without an epoch start goes on for one
    start_seconds: float = 0.0  # that a start is thought to take

    @classmethod
    def of(cls, request: LoaderRequest, start_within: float, start_seconds: float) -> "Known":
        """Return what is known of the epochs of a request."""
        slow = request.items * request.sample.bytes / NOTICED_BYTES_PER_SECOND
        batches = -(-request.items // request.batch_size)
        return cls(batches, min(FIRST_EPOCH_SECONDS, slow), start_within, start_seconds)

    def left(self, taken: int, interval: float) -> float:
        """Return the seconds until an epoch ends of which so many batches have come, at so many seconds a batch."""
        return (self.batches - taken) * interval

    def awaited(self, taken: int, interval: float) -> bool:
        """Return whether a window goes on for the next epoch's start."""
        counts = self.start_seconds >= LEAST_START_SHARE * self.batches * interval
        return counts and self.left(taken, interval) <= self.start_within


def cold_part(request: LoaderRequest, least_batches: int, seconds: float = COLD_SECONDS) -> protocol.Part:
    """Return when a cold epoch of a request is left before its end."""
    return protocol.Part(request.items, -(-request.items // request.batch_size), seconds, max(1, least_batches))


def buffered_batches(module: ModuleType, request: LoaderRequest) -> int:
    """Return how many batches are in a loader's shuffle buffers, where it says that it has some (`buffered`)."""
    items = min(getattr(module, "buffered", lambda _request: 0)(request), request.items)
    return -(-items // request.batch_size)


@dataclass
class Window:
    """What was timed: a part of each epoch that it lies in."""

    settling: int = 0  # batches from an epoch start until the steady state, and from its end until the end of an epoch
    parts: list[EpochTimes] = field(default_factory=list)
    edges: list[tuple[bool, bool]] = field(default_factory=list)  # of each part: its epoch began, ended in the window
    checksums: list[tuple[bool, Kept]] = field(default_factory=list)  # of each epoch: (whole, its checksums)
    apart: bool = False  # each part is of a loader of its own, whose opening counts as a part of its epoch's start

    @property
    def seconds(self) -> float:
        """Of all parts together."""
        return sum(part.seconds for part in self.parts)

    @property
    def items(self) -> int:
        """Delivered in the window."""
        return sum(part.items for part in self.parts)

    def cold(self) -> "Window":
        """Return the same of the epochs that were cold alone, where any was."""
        cold = [number for number, part in enumerate(self.parts) if not (part.cache and part.cache["problem"])]
        chosen = cold or range(len(self.parts))
        parts, edges = [self.parts[number] for number in chosen], [self.edges[number] for number in chosen]
        return replace(self, parts=parts, edges=edges)

    @property
    def starts(self) -> int:
        """How many epochs began in the window."""
        return sum(began for began, _ in self.edges)

    def interval(self) -> float | None:
        """Return the seconds from one batch to the next in the steady state; None where nothing in it was timed."""
        seconds, batches = 0.0, 0
        for part, (began, ended) in zip(self.parts, self.edges, strict=True):
            at = part.arrivals_seconds
            end = max(0, len(at) - self.settling) if ended else len(at)
            at = at[max(0, self.settling - 1) if began else 0 : end]
            if len(at) > max(1, self.settling):  # in less of it batches that come by turns would say nothing
                seconds, batches = seconds + at[-1] - at[0], batches + len(at) - 1
        return seconds / batches if batches else None

    def start_seconds(self) -> float | None:
        """Return what an epoch start costs, in seconds; None where the window does not tell.

        It is the time from the last batch of an epoch at which a loader is in its steady state to the first of the next
        at which it is again, less what so many batches take in that state. The first batch alone says too much: those
        that other workers make meanwhile follow at once, and what fills a shuffle buffer was saved as it ran empty. Of
        epochs too short for a steady state, what the first batch takes beyond the usual gap.
        """
        usual = self.interval()
        lost = [] if usual is None else list(self._lost(usual, self.settling))
        if not lost:
            gaps = [later - earlier for part in self.parts for earlier, later in pairwise(part.arrivals_seconds)]
            lost = list(self._lost(median(gaps), 0)) if gaps else []
        return max(0.0, median(lost)) if lost else None

    def _lost(self, interval: float, settling: int) -> Iterator[float]:
        """Yield by how much later the batch of this number, or the first, came behind each start than without one.

        Counted from the batch that so many followed in the epoch before, where the window has that.
        """
        first, ending, last = max(1, settling), 0.0, 0  # from a batch to the end of its epoch: seconds, batches
        for part, (began, _) in zip(self.parts, self.edges, strict=True):
            at = part.arrivals_seconds
            if began and len(at) >= first:
                yield ending + at[first - 1] - (last + first) * interval
            last = min(settling, len(at) - 1) if at and not self.apart else 0
            ending = part.seconds - at[-1 - last] if at and not self.apart else 0.0

    def steady_rate(self, start_seconds: float) -> float:
        """Return items/s without epoch starts, each of which cost `start_seconds`."""
        return self.items / max(self.seconds - self.starts * start_seconds, 0.01 * self.seconds)

    def rate(self, start_seconds: float, epoch_items: int) -> float:
        """Return items/s of whole epochs of so many items, each with one start."""
        return 1 / (1 / self.steady_rate(start_seconds) + start_seconds / epoch_items)

    def utilisation(self, rate: float | None = None) -> float | None:
        """Return AU in percent: the time in steps over all time; None of a task without steps.

        Over all time of the window, or at `rate` items/s that of the same items.
        """
        if any(part.compute_seconds is None for part in self.parts):
            return None
        seconds = self.seconds if rate is None else self.items / rate
        return 100 * sum(part.compute_seconds for part in self.parts) / seconds


def timed_cold(
    opened: Callable[[int], AbstractContextManager[protocol.Epoch]],
    sink: protocol.Sink,
    clock: Callable[[], float],
    cold: ColdCache,
    seconds: float,
    part: protocol.Part,
    held_batches: int = 0,
    around: Callable[[str], None] = lambda _phase: None,
) -> Window:
    """Time epochs whose data is not in the cache, of a loader each, for at least `seconds`; return them as a window.

    `opened(number)` constructs the loader of an epoch. A long epoch is left after a `part`, and is the last one.
    """
    window = Window(2 * held_batches, apart=True)
    around("before")
    while window.seconds < seconds:
        opened_next = partial(opened, len(window.parts))
        whole, checksums = protocol.time_cold_epoch(opened_next, sink, clock, cold, window.parts, part)
        if not checksums.sizes:
            raise RuntimeError(EMPTY.format(0))
        window.edges.append((True, whole))
        window.checksums.append((whole, checksums))
    around("after")
    return window


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
    known: Known | None = None,
    batches: int = 1,
) -> Window:
    """Take an open loader through the untimed part and a window of at least `seconds` and `batches`; return the window.

    `held_batches`: what workers, queues and shuffle buffers hold: the untimed part has twice as many batches, which
    brings them to their steady state, and so has a window behind its last epoch start, unless that epoch is shorter. A
    window has at least `queues` times as many, so that what they hold at its ends is small beside it. `around` is
    called with "before" and "after" the window, `first_batch` when the first batch is there. The untimed part ends
    with the epoch in which `warm_up_seconds` are over: what an epoch keeps is taken from the system in the second one
    too, while the allocator finds no room in what the first has given back. With what is `known` of epochs it ends
    inside the first one only where that is long or slow; without, as soon as it may.
    """
    window = Window(2 * held_batches)
    began, opened, first = clock(), None, 0.0  # when it was asked for, when the window opened, when a batch was there
    arrived, resolved = protocol.noted_by(clock)
    counted, number = 0, 0

    def open_window() -> float:
        sink.finish()
        sink.computed()
        around("before")
        return clock()

    def opens_inside() -> bool:
        """Return whether the untimed part ends with the batch that has come, inside the first epoch."""
        taken, now = len(arrivals), clock()
        if number or taken <= 2 * held_batches or now - began < warm_up_seconds:
            return False
        interval = (now - first) / max(1, taken - 1)
        return known is None or (now - first >= INSIDE_SECONDS and known.left(taken, interval) > known.first_within)

    def enough() -> bool:
        return counted >= max(1, batches, queues * held_batches) and clock() - opened >= seconds

    def awaited() -> bool:
        """Return whether the window goes on for an epoch start, in the epoch in which it has begun."""
        return known is not None and known.awaited(len(arrivals), (clock() - opened) / counted)

    while opened is None or not enough() or (not window.starts and awaited()):
        mark = clock()
        from_start = opened is not None
        arrivals: list[Any] = []
        checksums = Kept()
        untimed, whole = 0, True
        stream = iter(epoch(number))
        for batch in stream:
            arrivals.append(arrived())
            if len(arrivals) == 1 and number == 0:
                first_batch()
                first = clock()
            checksums.add(sink.consume(batch))
            if opened is not None:
                counted += 1
                if enough() and (len(arrivals) >= window.settling if from_start else not awaited()):
                    whole = False
                    break
            elif opens_inside():
                opened = mark = open_window()
                untimed = len(arrivals)
        sink.finish()
        end = clock()
        if not arrivals:
            raise RuntimeError(EMPTY.format(number))
        if opened is None:
            if end - began >= warm_up_seconds:
                opened = open_window()
        else:
            arrivals = resolved(arrivals)
            sizes = checksums.sizes[untimed:]
            at = [arrival - mark for arrival in arrivals[untimed:]]
            gap = at[0] if at else 0.0
            window.edges.append((from_start and bool(at), whole))
            window.parts.append(EpochTimes(end - mark, gap, sum(sizes), at, sizes, compute_seconds=sink.computed()))
        window.checksums.append((whole, checksums))
        number += 1
    around("after")
    if not whole and hasattr(stream, "close"):
        stream.close()
    return window
