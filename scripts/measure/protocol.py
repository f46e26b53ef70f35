"""The protocol of one run: construct, first batch, verify epoch (untimed), timed epochs, tear down.

It knows no clock, no library and no loader but what it is given, so that tests hold it to the order of its phases.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from scripts.machine.page_cache import ColdCache
from scripts.measure.sink import Kept
from scripts.measure.verify import Verifier

Batch = Mapping[str, Any]
Epoch = Callable[[int], Iterator[Batch]]


class Sink(Protocol):
    """Consumes every byte of a batch; see measure/sink.py."""

    def consume(self, batch: Batch) -> Any:
        """Consume one batch; return a checksum whose `item` holds the items' indices."""

    def finish(self) -> None:
        """Wait until all of it is consumed."""

    def computed(self) -> float | None:
        """Return the seconds of computing since this was last asked; None of a task that computes nothing."""


@dataclass
class EpochTimes:
    """A timed epoch, from asking for it (a cold one: from opening its loader) to its end. Arrivals count from then."""

    seconds: float
    gap_seconds: float  # from the last batch of the epoch before (if that was timed) to the first of this one
    items: int
    arrivals_seconds: list[float]
    batch_items: list[int]
    cache: dict[str, Any] | None = None  # of a cold epoch: what was in the cache, and what came from the device
    compute_seconds: float | None = None  # of a task that computes: time in its steps, emulated or real
    validation_seconds: float | None = None  # of a training: the pass over the validation split that followed
    opening_seconds: float | None = None  # of a cold epoch: opening its loader, which is within its seconds


@dataclass
class Times:
    """The phases of a run in seconds; the first two count from before construction."""

    construct_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    verify_seconds: float = 0.0
    teardown_seconds: float = 0.0
    epochs: list[EpochTimes] = field(default_factory=list)


def noted_by(clock: Callable[[], float]) -> tuple[Callable[[], Any], Callable[[list[Any]], list[float]]]:
    """Return what notes that a batch has come, and what makes times of the clock of such notes, after the epoch.

    The clock itself, but of a clock for a GPU (machine/gpu.py): there a batch is handed out before its copy is over.
    """
    return getattr(clock, "arrived", clock), getattr(clock, "resolved", list)


def rate(times: Times) -> float:
    """Return items per second: the items of all timed epochs over their wall-clock time; of cold ones, the valid."""
    valid = _valid(times)
    return sum(epoch.items for epoch in valid) / sum(epoch.seconds for epoch in valid)


def utilisation(times: Times) -> float | None:
    """Return AU in percent, the time in steps over all time of the epochs of `rate`; None of a task without steps."""
    valid = _valid(times)
    if any(epoch.compute_seconds is None for epoch in valid):
        return None
    return 100 * sum(epoch.compute_seconds for epoch in valid) / sum(epoch.seconds for epoch in valid)


def _valid(times: Times) -> list[EpochTimes]:
    return [epoch for epoch in times.epochs if not (epoch.cache and epoch.cache["problem"])] or times.epochs


def run(
    opened: Callable[[], AbstractContextManager[Epoch]],
    verifier: Verifier,
    sink: Sink,
    epochs: int,
    clock: Callable[[], float],
    least_seconds: float = 0.0,
    around: Callable[[str], None] = lambda _phase: None,
    agreed: Callable[[bool], bool] = bool,
) -> Times:
    """Take a loader through the protocol and return its times; no epoch is timed unless the verify epoch was right.

    At least `epochs` are timed, and more until they have taken `least_seconds`. `opened` constructs the loader;
    `around` is called with "before" and "after" the timed epochs, to look at the host. Nothing but the epochs happens
    between the two: a loader that reads ahead would use the time. But ranks wait for one another before each epoch:
    `agreed` is asked whether it was enough, and returns whether all of them say so.
    """
    times, delivered = Times(), []
    with verified(opened, verifier, sink, times, clock) as epoch:
        if verifier.ok:
            around("before")
            delivered = time_epochs(epoch, sink, epochs, clock, least_seconds, times.epochs, agreed)
            around("after")
    check_epochs(verifier, delivered)
    return times


def check_epochs(verifier: Verifier, delivered: Iterable[Kept]) -> None:
    """Have the verifier look at what the timed epochs delivered."""
    for number, checksums in enumerate(delivered, start=1):
        verifier.check_epoch(number, checksums)


def run_cold(
    opened: Callable[[int], AbstractContextManager[Epoch]],
    verifier: Verifier,
    sink: Sink,
    epochs: int,
    clock: Callable[[], float],
    cold: ColdCache,
    least_seconds: float = 0.0,
    around: Callable[[str], None] = lambda _phase: None,
) -> Times:
    """Take a loader through the protocol with its data put out of the cache before each timed epoch.

    Each timed epoch has a loader of its own, which `opened(number)` constructs once the data is out: one that stays
    open keeps what it has mapped in the cache. Its clock starts before the loader is opened, since what that reads is
    of the epoch: no loader can read ahead of the clock. The gap of each epoch is its own time to the first batch.
    """
    times = Times()
    with verified(partial(opened, 0), verifier, sink, times, clock):
        pass
    if not verifier.ok:
        return times
    delivered: list[Kept] = []
    around("before")
    while len(delivered) < epochs or sum(epoch.seconds for epoch in times.epochs) < least_seconds:
        opened_next = partial(opened, len(delivered) + 1)
        delivered.append(time_cold_epoch(opened_next, sink, clock, cold, times.epochs)[1])
    around("after")
    check_epochs(verifier, delivered)
    return times


@dataclass(frozen=True)
class Part:
    """When a cold epoch is left before its end: so many seconds and batches behind its first one.

    It is not where its rest takes no longer than that.
    """

    of_items: int
    of_batches: int
    seconds: float
    batches: int = 1

    def over(self, taken: int, seconds: float) -> bool:
        """Return whether an epoch is left of which so many batches have come, the last `seconds` after the first."""
        if taken <= self.batches or seconds < self.seconds:
            return False
        return (self.of_batches - taken) * seconds / (taken - 1) > self.seconds


def time_cold_epoch(
    opened: Callable[[], AbstractContextManager[Epoch]],
    sink: Sink,
    clock: Callable[[], float],
    cold: ColdCache,
    into: list[EpochTimes],
    part: Part | None = None,
) -> tuple[bool, Kept]:
    """Put the data out of the cache, time opening a loader and its first epoch, or a `part` of that.

    Return whether it came to its end, and the checksums of what came.
    """
    arrived, resolved = noted_by(clock)
    arrivals, checksums, whole = [], Kept(), True
    cold.evict()
    cold.begin()
    start = clock()
    with opened() as epoch:
        opening = clock() - start
        stream, first = iter(epoch(0)), None
        for batch in stream:
            arrivals.append(arrived())
            first = clock() if first is None else first
            checksums.add(sink.consume(batch))
            if part and part.over(len(arrivals), clock() - first):
                whole = False
                break
        sink.finish()
        seconds = clock() - start
        at, sizes, compute = [arrival - start for arrival in resolved(arrivals)], checksums.sizes, sink.computed()
        state = cold.end(1.0 if whole else sum(sizes) / part.of_items)
        timed = EpochTimes(seconds, at[0] if at else seconds, sum(sizes), at, sizes, state._asdict(), compute)
        into.append(replace(timed, opening_seconds=opening))
        if not whole and hasattr(stream, "close"):
            stream.close()
        del stream
    del epoch  # what it refers to may hold the data mapped
    return whole, checksums


def counted_on(epoch: Epoch, before: int) -> Epoch:
    """Return `epoch` with its numbers counted from after the `before` timed ones; -1: from its verify epoch."""
    return lambda number: epoch(before + number)


@contextmanager
def verified(
    opened: Callable[[], AbstractContextManager[Epoch]],
    verifier: Verifier,
    sink: Sink,
    times: Times,
    clock: Callable[[], float],
) -> Iterator[Epoch]:
    """Construct the loader, pass its verify epoch to verifier and sink, yield its epoch function; tear it down.

    How long that took is noted in `times`.
    """
    start = clock()
    with opened() as epoch:
        times.construct_seconds = clock() - start
        _verify(epoch, verifier, sink, times, start, clock)
        yield epoch
        closing = clock()
    times.teardown_seconds = clock() - closing


def _verify(
    epoch: Epoch, verifier: Verifier, sink: Sink, times: Times, start: float, clock: Callable[[], float]
) -> None:
    """Pass the verify epoch to the verifier and the sink, which warms both up; note when its first batch came."""
    began = clock()
    arrived, resolved = noted_by(clock)
    checksums = Kept()
    for number, batch in enumerate(epoch(0)):
        if number == 0:
            [first] = resolved([arrived()])
            times.first_batch_seconds = first - start
        if verifier.check(batch):
            checksums.add(sink.consume(batch))
    sink.finish()
    sink.computed()
    verifier.finish(checksums)
    times.verify_seconds = clock() - began


def time_epochs(
    epoch: Epoch,
    sink: Sink,
    epochs: int,
    clock: Callable[[], float],
    least_seconds: float,
    into: list[EpochTimes],
    agreed: Callable[[bool], bool] = bool,
) -> list[Kept]:
    """Time epochs 1, 2, ... without a pause between them; return the checksums of what each delivered.

    Whole epochs, at least `epochs` of them and at least `least_seconds`; their times are added to `into`. `agreed`: as
    of `run`.
    """
    delivered: list[Kept] = []
    last_arrival = None
    arrived, resolved = noted_by(clock)
    began = clock()
    while not agreed(len(delivered) >= epochs and clock() - began >= least_seconds):
        number = len(delivered) + 1
        arrivals, checksums = [], Kept()
        start = clock()
        for batch in epoch(number):
            arrivals.append(arrived())
            checksums.add(sink.consume(batch))
        sink.finish()
        end = clock()
        arrivals = resolved(arrivals)
        first = arrivals[0] if arrivals else end
        gap = first - (start if last_arrival is None else last_arrival)
        sizes = checksums.sizes
        at = [arrival - start for arrival in arrivals]
        into.append(EpochTimes(end - start, gap, sum(sizes), at, sizes, compute_seconds=sink.computed()))
        last_arrival = arrivals[-1] if arrivals else end
        delivered.append(checksums)
    return delivered
