"""The batch timeline: what each process of a loader did with the first batches of an epoch, and when.

Taken in one more epoch, after everything that gives a number, so that no number knows of it. Every loader has the track
of the main process: `wait` (for a batch, from asking until it is there) and `step` (consuming it). One whose
DataLoader is that of `_torch.epochs_of` has more, without a change to it: `read` (its data set's items) and
`collate` (where that is not in the same call too), in the track of the process that did it, and `transfer`: the main
process waits for a batch that its worker has made already. From being made until it is asked for a batch costs nobody
time: that is no span.

A data set that decodes does so in the call that reads. Where it has `files_to_decode(positions)`, the paths of a batch,
those are read whole before the call: that is `read`, and the call, which finds them in the page cache, is `decode`.

The processes of a machine share the clock (CLOCK_MONOTONIC), so that their times can be compared.
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from scripts.machine.page_cache import ColdCache
from scripts.measure import protocol

CLOCK = time.perf_counter
LEAST_BATCHES, PER_WORKER = 12, 3
MOST_BATCHES = 40  # of six spans at most: 240 in a record
MAIN = "main"
ARRIVAL = "arrival"  # from asking the DataLoader for a batch until it is there: what `transfer` is found from

Times = Mapping[str, tuple[float, float]]  # by phase: start and end on the clock


def batches_for(workers: int) -> int:
    """Return how many batches are noted: some of each worker, and never so many that a record grows large."""
    return min(MOST_BATCHES, max(LEAST_BATCHES, PER_WORKER * workers))


class Noted(NamedTuple):
    """What one process did with one batch."""

    process: int
    batch: int
    times: Times


class Notes:
    """Where the processes of a loader note what they do with the first `batches` of one epoch: `LoaderRequest.spans`.

    A worker appends a line for each batch to the file `path`: so nothing travels with the batch, whatever it is, and
    no file stays open. The process that made the notes keeps its own in memory.
    """

    def __init__(self, path: Path, epoch: int, batches: int) -> None:
        self.path, self.epoch, self.batches = path, epoch, batches
        self.home = os.getpid()
        self.kept: list[Noted] = []

    def wants(self, epoch: int, batch: int) -> bool:
        """Return whether this batch of this epoch is to be noted."""
        return epoch == self.epoch and batch < self.batches

    def note(self, batch: int, times: Times) -> None:
        """Note what this process did with a batch."""
        noted = Noted(os.getpid(), batch, times)
        if noted.process == self.home:
            self.kept.append(noted)
            return
        with open(self.path, "a", encoding="utf-8") as file:  # one write, which appending keeps whole
            file.write(json.dumps(noted) + "\n")

    def read(self) -> list[Noted]:
        """Return what all processes have noted; those that appended have ended."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []
        return [*self.kept, *(Noted(*json.loads(line)) for line in lines)]

    def watching(self, dataset: Any, batch_sampler: Any, collate_fn: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the same arguments of a DataLoader, which note `read` and `collate` of each batch.

        `batch_sampler` has an attribute `epoch`, the number of the epoch whose batches it gives.
        """
        watched = _Watched(dataset, collate_fn, self)
        sampler = _Numbered(batch_sampler, self)
        return {"dataset": watched, "batch_sampler": sampler, "collate_fn": watched.collate}

    def arriving(self, batches: Iterable[Any], epoch: int) -> Iterator[Any]:
        """Yield the batches of an epoch as the DataLoader gives them; note when each was asked for and was there."""
        asked = CLOCK()
        for number, batch in enumerate(batches):
            if self.wants(epoch, number):
                self.note(number, {ARRIVAL: (asked, CLOCK())})
            yield batch
            asked = CLOCK()


class _Positions(list):
    """The positions of a batch that is to be noted, which know its number."""

    number: int


class _Numbered:
    """A batch sampler that tells the workers which batches are to be noted."""

    def __init__(self, batches: Any, notes: Notes) -> None:
        self.batches, self.notes = batches, notes

    def __iter__(self) -> Iterator[list[int]]:
        for number, positions in enumerate(self.batches):
            if not self.notes.wants(self.batches.epoch, number):
                yield positions
                continue
            marked = _Positions(positions)
            marked.__dict__ |= {**getattr(positions, "__dict__", {}), "number": number}  # it may know its epoch
            yield marked


class _Watched:
    """A map-style data set with its collating, which notes the time of both for each marked batch."""

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], notes: Notes) -> None:
        self.dataset, self.notes, self._collate = dataset, notes, collate
        self.by_batch = hasattr(dataset, "__getitems__")  # it collates as it reads
        self.number: int | None = None  # of the batch under way
        self.times: dict[str, tuple[float, float]] = {}

    def __getitems__(self, positions: list[int]) -> Any:
        self.number = getattr(positions, "number", None)
        read = {}
        began = CLOCK()
        if self.number is not None and hasattr(self.dataset, "files_to_decode"):
            for path in self.dataset.files_to_decode(positions):
                path.read_bytes()
            read = {"read": (began, CLOCK())}
            began = read["read"][1]
        if self.by_batch:
            items = self.dataset.__getitems__(positions)
        else:
            items = [self.dataset[position] for position in positions]
        self.times = {**read, "decode" if read else "read": (began, CLOCK())}
        return items

    def collate(self, items: Any) -> Any:
        began = CLOCK()
        batch = self._collate(items)
        if self.number is not None:
            times = self.times if self.by_batch else {**self.times, "collate": (began, CLOCK())}
            self.notes.note(self.number, times)
        return batch


def timeline(
    opened: Callable[..., AbstractContextManager[protocol.Epoch]],
    sink: protocol.Sink,
    batches: int,
    cold: ColdCache | None = None,
) -> list[dict[str, Any]]:
    """Return the spans of the first `batches` of an epoch: track, batch, phase, start_seconds, end_seconds.

    They count from the moment at which the epoch is asked for, and are sorted by their start. `opened(spans=...)`
    constructs the loader. The epoch begins as a timed one does: after a whole one, or, where `cold` makes it cold, as
    the first of a loader that was opened when the data was out of the cache. It is left when its batches are there.
    """
    number = 0 if cold else 1
    with TemporaryDirectory(prefix="feedrate-spans-") as folder:
        notes = Notes(Path(folder, "spans.jsonl"), number, batches)
        if cold is not None:
            cold.evict()
        with opened(spans=notes) as epoch:
            if cold is None:
                for batch in epoch(0):
                    sink.consume(batch)
                sink.finish()
            start = CLOCK()
            main = _main_track(epoch(number), sink, batches, start)
        noted = notes.read()
    spans = [*main, *_tracks(noted, notes.home, len(main) // 2)]
    columns = ("track", "batch", "phase", "start_seconds", "end_seconds")
    return [
        dict(zip(columns, (*what, round(begin - start, 6), round(end - start, 6)), strict=True))
        for *what, begin, end in sorted(spans, key=lambda span: (span[3], -span[4]))
    ]


Track = list[tuple[str, int, str, float, float]]  # track, batch, phase, start and end on the clock


def _main_track(arriving: Iterator[protocol.Batch], sink: protocol.Sink, batches: int, start: float) -> Track:
    """Consume the first `batches`; return `wait` and `step` of each, which follow one another without a gap."""
    spans: Track = []
    for number, batch in enumerate(itertools.islice(arriving, batches)):
        arrived = CLOCK()
        sink.consume(batch)
        consumed = CLOCK()
        spans += [(MAIN, number, "wait", start, arrived), (MAIN, number, "step", arrived, consumed)]
        start = consumed
    sink.finish()
    return spans


def _tracks(noted: list[Noted], home: int, delivered: int) -> Iterator[tuple[str, int, str, float, float]]:
    """Yield what was noted of the batches that were delivered; worker processes are numbered by their first batch."""
    noted = sorted((one for one in noted if one.batch < delivered), key=lambda one: one.batch)
    workers = dict.fromkeys(one.process for one in noted if one.process != home)
    names = {home: MAIN, **{process: f"worker {number}" for number, process in enumerate(workers)}}
    arrivals = {one.batch: one.times[ARRIVAL] for one in noted if ARRIVAL in one.times}
    for one in noted:
        for phase, (begin, end) in one.times.items():
            if phase != ARRIVAL:
                yield names[one.process], one.batch, phase, begin, end
        if one.process != home and one.batch in arrivals:
            made = max(end for _, end in one.times.values())
            asked, arrived = arrivals[one.batch]
            yield MAIN, one.batch, "transfer", max(made, asked), arrived
