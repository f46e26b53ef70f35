"""One shard's segments on their way: in which order they are asked for, how often, and when it is enough."""

import math
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from scripts.common.ledger import LedgerRow
from scripts.sources._audioset.faults import LATER, STOP, Fault
from scripts.sources._audioset.pace import Pace
from scripts.sources._audioset.preflight import duration
from scripts.sources._audioset.segments import Segment, Selection
from scripts.sources._audioset.store import Record, Store
from scripts.sources._audioset.worker import Died, Worker

WAIT_SECONDS = 900.0  # a segment that may be asked for again only later than this is left for the next call
ROOM_BYTES = 1 << 27  # with less the download stops before the disk is full
NOTE_SECONDS = 5.0  # between two notes of how far the shard is
SOME_IN_A_ROW = 5  # failures from which on all requests slow down
LONGEST_HOLD_SECONDS = 900.0
GO_ON = "Then type the same command: it goes on where it was, and downloads nothing twice."
WHAT_TO_DO = {
    "bot check": "The server takes this address for a robot. Wait some hours, then go slower (requests_per_hour), or "
    f"give cookies (docs/download.md tells their risk). {GO_ON}",
    "rate limit": "The server has limited this address. Wait an hour or more, then go slower (requests_per_hour). "
    f"{GO_ON}",
    "disk full": f"Make room, or set `store` to a folder on a larger disk. {GO_ON}",
    "in a row": "Something is wrong with all requests: look at the reasons in the ledger, try one video by hand "
    f"(yt-dlp --simulate ADDRESS), update yt-dlp. {GO_ON}",
    "gone in a row": "The server may have blocked this address, or `url` is wrong: open one of them in a browser. "
    f"If they are really gone, raise stop_after. {GO_ON}",
}
OF_AUDIO = ("path", "start_seconds", "stop_seconds", "codec", "duration_seconds", "bytes", "sha256")  # in both records
# What a server may say of everything, to an address that it has blocked or to one that is mistyped.
DOUBTFUL = ("unavailable", "not found")


def is_settled(record: Record | None, options: Mapping[str, Any]) -> bool:
    """Return whether a segment with this record need not be asked for."""
    if record is None or record.status == "failed":
        return False
    return record.status == "fetched" or record.reason.split(":")[0] not in options["ask_again"]


def _not_before(item: tuple[Segment, Record | None]) -> float:
    """Return when a segment may be asked for: at once, or the time of its record."""
    return item[1].not_before if item[1] else 0.0


@dataclass
class ShardDownload:
    """Settles the segments of one shard."""

    options: Mapping[str, Any]
    shard: int
    store: Store
    pace: Pace
    worker: Worker
    call: str
    selection: Selection
    counts: Counter[str] = field(default_factory=Counter)
    _in_a_row: int = 0  # failures of segments that were asked for the first time
    _doubted: list[tuple[Segment, Record]] = field(default_factory=list)  # said to be gone, one after the other
    _noted: float = math.inf  # not before those that were settled earlier are counted
    _others: tuple[float, int] = (0.0, 0)  # when they were counted, clips of the other shards
    _end: tuple[str, str] | None = None  # once it is decided

    def rows(self, segments: list[Segment]) -> Iterator[LedgerRow]:
        """Yield the row of each segment when it is settled, or when no more is done for it in this call."""
        waiting: list[tuple[Segment, Record | None]] = []
        for segment in segments:
            record = self.store.read(segment.name)
            if is_settled(record, self.options):
                yield self._row(segment, record)
            else:
                waiting.append((segment, record))
        self.note()
        for _ in range(self.options["attempts"]):
            waiting.sort(key=_not_before)
            later = []
            for segment, record in waiting:
                rows, failed = self._settle(segment, record)
                yield from rows
                if failed:
                    later.append((segment, failed))
            waiting = later
        for segment, record in waiting:
            yield self._row(segment, record, *self._ending_of(record))
        yield from self._last_doubted()

    def note(self) -> None:
        """Write down how far the shard is."""
        self._noted = time.monotonic()
        self.store.note_counts(self.selection.name, self.shard, self.counts)

    def summary(self) -> str:
        """Return in words how far all shards are."""
        counts = self.counts + self.store.counts(self.selection.name, without=self.shard)
        settled = counts["fetched"] + counts["unavailable"] + counts["failed"]
        words = (
            f"all shards: {settled:,} of {self.selection.segments:,} tried: {counts['fetched']:,} fetched, "
            f"{counts['unavailable']:,} gone, {counts['failed']:,} failed for now"
        )
        left = self.selection.segments - settled
        return f"{words}; {left:,} to go, {duration(left, self.options)}" if left else words

    def _settle(self, segment: Segment, record: Record | None) -> tuple[list[LedgerRow], Record | None]:
        """Return the rows that are settled by asking for the segment, and its record if it is to be asked for again."""
        pause = record.not_before - time.time() if record and record.status == "failed" else 0.0
        if pause > WAIT_SECONDS or not self._wait(max(0.0, pause)):
            return [self._row(segment, record, *self._ending_of(record))], None
        asked = self._ask(segment, record)
        if asked is None:  # the download was stopped
            return [self._row(segment, record, *self._ending_of(record))], None
        if asked.status == "failed":
            return [], asked
        if self._doubt(segment, asked):
            return [], None
        return [*self._confirmed(), self._row(segment, asked)], None

    def _wait(self, seconds: float) -> bool:
        """Wait for the segment's own time, then for a place in the common limit; return False if it is to be left."""
        until = time.time() + seconds
        while not self._ending():
            if time.time() >= until:
                with suppress(TimeoutError, Died):  # which `_ask` meets again
                    self.worker.start()  # before its place, since that takes a while
                return self.pace.wait(lambda: bool(self._ending()))
            time.sleep(min(1.0, max(0.0, until - time.time())))
        return False

    def _ending(self) -> tuple[str, str] | None:
        """Return the status and reason of segments that are not asked for any more, if that is so.

        It stays so: the clips of other shards are fewer for a moment where their jobs start again.
        """
        self._end = self._end or self._look_for_end()
        return self._end

    def _look_for_end(self) -> tuple[str, str] | None:
        enough = self.options["min_clips"]
        if enough != "all" and self._fetched() >= enough:
            return "waiting", f"not tried yet: the {enough} clips of min_clips are there"
        if shutil.disk_usage(self.store.root).free < ROOM_BYTES:
            self._stop("disk full", f"less than {ROOM_BYTES >> 20} MiB are free where the store lies")
        reason = self.store.stopped(self.call)
        return ("stopped", reason) if reason else None

    def _ending_of(self, record: Record | None) -> tuple[str, str]:
        """Return the status and reason of a segment that is left: of its record, or why it was not asked for.

        A failed one counts as stopped where the download was: it is asked for again when that goes on.
        """
        status, reason = self._ending() or ("", "")
        return ("", "") if record and status != "stopped" else (status, reason)

    def _fetched(self) -> int:
        """Return the number of clips that are there, of all shards; the others are counted now and then."""
        counted_at, others = self._others
        if time.monotonic() - counted_at > NOTE_SECONDS or not counted_at:
            others = self.store.counts(self.selection.name, without=self.shard)["fetched"]
            self._others = (time.monotonic(), others)
        return self.counts["fetched"] + others

    def _ask(self, segment: Segment, before: Record | None) -> Record | None:
        """Ask for the segment, keep what came and return its record; None where the download was stopped instead."""
        options = self.options
        cut_already = options["holds"] == "segments"
        start = 0.0 if cut_already else segment.start_seconds
        stop = start + segment.stop_seconds - segment.start_seconds
        asked = {"asked": (before.asked if before else 0) + 1, "asked_at": time.time()}
        address = options["url"] % {"id": segment.id}
        try:
            answer = self.worker.ask(options["limit_seconds"], address, start, stop, segment.name)
        except TimeoutError:
            answer = Fault(LATER, "too slow", f"not there after {options['limit_seconds']:g} s (limit_seconds)")
        except Died:
            answer = Fault(LATER, "crash", "the process that fetched it died")
        if not isinstance(answer, Fault):
            path, size, digest = self.store.keep(segment.name, answer.path)
            file = {"path": path, "bytes": size, "sha256": digest, "codec": answer.codec}
            begin, seconds = answer.start_seconds, answer.seconds
            times = {"start_seconds": begin, "stop_seconds": begin + seconds, "duration_seconds": seconds}
            record = Record("fetched", **file, **times, **asked)
        elif answer.verdict == STOP:
            self._stop(answer.kind, answer.detail)
            if answer.kind != "disk full":  # the next call asks for it after the others, lest it stop each one
                pause = self._back_off(answer, asked["asked"])
                self.store.write(segment.name, Record("failed", answer.reason, not_before=pause, **asked))
            return None
        elif answer.verdict == LATER:
            record = Record("failed", answer.reason, not_before=self._back_off(answer, asked["asked"]), **asked)
        else:
            record = Record("unavailable", answer.reason, **asked)
        self.store.write(segment.name, record)
        self._watch_failures(record, first=before is None)
        return record

    def _back_off(self, fault: Fault, asked: int) -> float:
        """Return when a failed segment may be asked for again; hold everybody where the server says so."""
        least, wanted = self.options["back_off_seconds"], fault.retry_after or 0.0
        if fault.throttled:
            self._hold(max(least, wanted), fault.detail)  # however often this one was asked for
        return time.time() + max(least * 2 ** min(asked - 1, 10), wanted)

    def _doubt(self, segment: Segment, record: Record) -> bool:
        """Return whether what is said of the segment waits for a later answer, since it may be said of everything.

        Until then the segment counts as failed, in the store too, and where it is said of one after the other the
        download is stopped.
        """
        if record.status != "unavailable" or record.reason.split(":")[0] not in DOUBTFUL:
            return False
        self._doubted.append((segment, record))
        self.store.write(segment.name, replace(record, status="failed"))
        if len(self._doubted) >= self.options["stop_after"]:
            count = len(self._doubted)
            self._stop("gone in a row", f"{count} segments are gone one after the other, the last: {record.reason}")
        return True

    def _confirmed(self) -> Iterator[LedgerRow]:
        """Yield the rows of the doubted segments, now that another answer shows that the server tells them apart."""
        for segment, record in self._doubted:
            self.store.write(segment.name, record)
            yield self._row(segment, record)
        self._doubted = []

    def _last_doubted(self) -> Iterator[LedgerRow]:
        """Yield the rows of what is doubted in the end: gone where the shard has clips at all, else not settled."""
        stopped = self.store.stopped(self.call)
        if self.counts["fetched"] and not stopped:
            yield from self._confirmed()
        for segment, record in self._doubted:
            status = ("stopped", stopped) if stopped else ("failed", record.reason)
            yield self._row(segment, record, *status)

    def _watch_failures(self, record: Record, first: bool) -> None:
        """Slow everybody down, and in the end stop, where one segment after the other fails.

        Those that have failed before do not count: many of them fail for good.
        """
        if record.status != "failed":
            self._in_a_row = 0
        elif first:
            self._in_a_row += 1
            if self._in_a_row >= self.options["stop_after"]:
                self._stop(
                    "in a row", f"{self._in_a_row} segments failed one after the other, the last: {record.reason}"
                )
            elif self._in_a_row >= SOME_IN_A_ROW:
                pause = self.options["back_off_seconds"] * 2 ** (self._in_a_row - SOME_IN_A_ROW)
                self._hold(min(LONGEST_HOLD_SECONDS, pause), f"{self._in_a_row} failed in a row, {record.reason}")

    def _hold(self, seconds: float, why: str) -> None:
        """Let nobody ask for anything for a while, and say so."""
        self.pace.hold(seconds)
        print(f"{why}: no requests for {seconds:,.0f} s", flush=True)

    def _stop(self, kind: str, detail: str) -> None:
        """Stop the download of this call."""
        if not self.store.stopped(self.call):
            self.store.stop(self.call, f"{kind}: {detail}. {WHAT_TO_DO[kind]}")

    def _row(self, segment: Segment, record: Record | None, status: str = "", reason: str = "") -> LedgerRow:
        """Return a segment's row, of its record or of another `status`, and count it."""
        status = status or record.status
        self.counts[status] += 1
        if time.monotonic() - self._noted > NOTE_SECONDS:
            self.note()
        labels = list(segment.labels)
        if status != "fetched":
            return LedgerRow(segment.id, status, reason or record.reason, labels=labels)
        return LedgerRow(segment.id, status, labels=labels, **{name: getattr(record, name) for name in OF_AUDIO})
