"""The protocol of one run: construct, first batch, verify epoch (untimed), timed epochs, tear down.

It knows no clock, no library and no loader but what it is given, so that tests hold it to the order of its phases.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

Batch = Mapping[str, Any]
Epoch = Callable[[int], Iterator[Batch]]


class Verifier(Protocol):
    """Looks at every batch of the verify epoch; see measure/verify.py."""

    def check(self, batch: Batch) -> bool:
        """Compare one batch with the manifest; return whether it has the form that a sink takes."""

    def finish(self, receipts: list[Any]) -> None:
        """Look at the verify epoch as a whole: what is missing. Its receipts are what later ones must equal."""

    def check_epoch(self, number: int, receipts: list[Any]) -> None:
        """Compare the receipts of a timed epoch with the manifest and the verify epoch."""

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong so far; asked after the verify epoch."""


class Sink(Protocol):
    """Consumes every byte of a batch; see measure/sink.py."""

    def consume(self, batch: Batch) -> Any:
        """Consume one batch; return a receipt whose `clip` holds the clips' indices."""

    def finish(self) -> None:
        """Wait until all of it is consumed."""


class Cold(Protocol):
    """Makes an epoch cold; see measure/cache.py."""

    def evict(self) -> None:
        """Put the data out of the cache; no loader is open."""

    def begin(self) -> None:
        """Note the state when the epoch's clock is about to start."""

    def end(self) -> Any:
        """Return what the epoch read (a named tuple), with a `problem` where it was not cold."""


@dataclass
class EpochTimes:
    """One timed epoch, from asking for it to its end. Arrivals count from its start."""

    seconds: float
    gap_seconds: float  # from the last batch of the epoch before (if that was timed) to the first of this one
    clips: int
    arrivals_seconds: list[float]
    batch_clips: list[int]
    cache: dict[str, Any] | None = None  # of a cold epoch: what lay in the cache, and what came from the device


@dataclass
class Times:
    """The phases of a run in seconds; the first two count from before construction."""

    construct_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    verify_seconds: float = 0.0
    teardown_seconds: float = 0.0
    epochs: list[EpochTimes] = field(default_factory=list)


def run(
    opened: Callable[[], AbstractContextManager[Epoch]],
    verifier: Verifier,
    sink: Sink,
    epochs: int,
    clock: Callable[[], float],
    least_seconds: float = 0.0,
    around: Callable[[str], None] = lambda _phase: None,
) -> Times:
    """Take a loader through the protocol and return its times; no epoch is timed unless the verify epoch was right.

    At least `epochs` are timed, and more until they have taken `least_seconds`. `opened` constructs the loader;
    `around` is called with "before" and "after" the timed epochs, to look at the host. Nothing but the epochs happens
    between the two: a loader that reads ahead would use the time.
    """
    times = Times()
    start = clock()
    with opened() as epoch:
        times.construct_seconds = clock() - start
        _verify(epoch, verifier, sink, times, start, clock)
        delivered = []
        if verifier.ok:
            around("before")
            delivered = time_epochs(epoch, sink, epochs, clock, least_seconds, times.epochs)
            around("after")
        closing = clock()
    times.teardown_seconds = clock() - closing
    for number, receipts in enumerate(delivered, start=1):
        verifier.check_epoch(number, receipts)
    return times


def run_cold(
    opened: Callable[[int], AbstractContextManager[Epoch]],
    verifier: Verifier,
    sink: Sink,
    epochs: int,
    clock: Callable[[], float],
    cold: Cold,
    least_seconds: float = 0.0,
    around: Callable[[str], None] = lambda _phase: None,
) -> Times:
    """Take a loader through the protocol with its data put out of the cache before each timed epoch.

    Each timed epoch has a loader of its own, which `opened(number)` constructs once the data is out: one that stays
    open keeps what it has mapped in the cache. The construction is not timed, and what it reads counts against the
    epoch. The gap of each epoch is its own time to the first batch.
    """
    times = Times()
    start = clock()
    with opened(0) as epoch:
        times.construct_seconds = clock() - start
        _verify(epoch, verifier, sink, times, start, clock)
        closing = clock()
    times.teardown_seconds = clock() - closing
    del epoch  # what it refers to may hold the data mapped
    if not verifier.ok:
        return times
    delivered: list[list[Any]] = []
    around("before")
    while len(delivered) < epochs or sum(epoch.seconds for epoch in times.epochs) < least_seconds:
        cold.evict()
        with opened(len(delivered) + 1) as epoch:
            cold.begin()
            delivered += time_epochs(_first_of(epoch), sink, 1, clock, 0.0, times.epochs)
            times.epochs[-1].cache = cold.end()._asdict()
        del epoch
    around("after")
    for number, receipts in enumerate(delivered, start=1):
        verifier.check_epoch(number, receipts)
    return times


def _first_of(epoch: Epoch) -> Epoch:
    """Return `epoch` such that its first epoch is asked for, whatever the number: it is a new loader's."""
    return lambda _number: epoch(0)


def _verify(
    epoch: Epoch, verifier: Verifier, sink: Sink, times: Times, start: float, clock: Callable[[], float]
) -> None:
    """Pass the verify epoch to the verifier and the sink, which warms both up; note when its first batch came."""
    began = clock()
    receipts = []
    for number, batch in enumerate(epoch(0)):
        if number == 0:
            times.first_batch_seconds = clock() - start
        if verifier.check(batch):
            receipts.append(sink.consume(batch))
    sink.finish()
    verifier.finish(receipts)
    times.verify_seconds = clock() - began


def time_epochs(
    epoch: Epoch,
    sink: Sink,
    epochs: int,
    clock: Callable[[], float],
    least_seconds: float,
    into: list[EpochTimes],
) -> list[list[Any]]:
    """Time epochs 1, 2, ... without a pause between them; return the receipts of what each delivered.

    Whole epochs, at least `epochs` of them and at least `least_seconds`; their times are added to `into`.
    """
    delivered: list[list[Any]] = []
    last_arrival = None
    began = clock()
    while len(delivered) < epochs or clock() - began < least_seconds:
        number = len(delivered) + 1
        arrivals, receipts = [], []
        start = clock()
        for batch in epoch(number):
            arrivals.append(clock())
            receipts.append(sink.consume(batch))
        sink.finish()
        end = clock()
        first = arrivals[0] if arrivals else end
        gap = first - (start if last_arrival is None else last_arrival)
        sizes = [len(receipt.clip) for receipt in receipts]
        into.append(EpochTimes(end - start, gap, sum(sizes), [at - start for at in arrivals], sizes))
        last_arrival = arrivals[-1] if arrivals else end
        delivered.append(receipts)
    return delivered
