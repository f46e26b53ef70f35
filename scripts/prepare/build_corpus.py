"""Decodes one shard's clips into mono 16-bit WAV files of one sample rate, and says of each clip left out why."""

import argparse
import csv
import errno
import json
import multiprocessing
import os
import shutil
import threading
import wave
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soxr

from scripts.common.corpus import clip_hash, pad_or_cut
from scripts.common.decode import Rejected, open_recording
from scripts.common.errors import UserError, run_main
from scripts.common.files import whole_directory
from scripts.common.ledger import LedgerRow, read_ledger
from scripts.common.progress import progress_bar
from scripts.machine.copies import NO_ROOM
from scripts.prepare.shards import CLIP_COLUMNS, REJECTED_COLUMNS

PENDING_PER_JOB = 16  # recordings in flight: enough to bridge a long one, few enough to hold none in memory
LEAST_FREE = 256 * 2**20  # bytes of the file system that are left free; of a small one a fiftieth of it
CRASHED = "decoder crashed: the process that decoded it died"


@dataclass(frozen=True)
class CorpusSettings:
    """What every clip of the corpus has in common."""

    sample_rate: int
    seconds: float  # the longest clip
    min_seconds: float  # the shortest clip
    lowest_rate: int = 1000  # Hz of a recording
    highest_rate: int = 1_000_000
    clips_per_file: int = 100_000
    growth: float = 1000.0  # so many times a file's bytes may its clips take, beyond the first

    @property
    def samples(self) -> int:
        """Samples of the longest clip."""
        return round(self.seconds * self.sample_rate)

    def check_rate(self, rate: int) -> None:
        """Raise Rejected for a recording's sample rate that is none of audio's."""
        if not self.lowest_rate <= rate <= self.highest_rate:
            raise Rejected(
                f"sample rate out of limits: {rate} Hz, allowed are audio.lowest_rate, {self.lowest_rate}, to "
                f"audio.highest_rate, {self.highest_rate}"
            )

    def check_growth(self, clips: int, file_bytes: int) -> None:
        """Raise Rejected where so many whole clips are more than a file of this size may become."""
        if clips > self.clips_per_file:
            raise Rejected(f"too many clips: audio.clips_per_file allows {self.clips_per_file} of one recording")
        if clips > 1 and clips * self.samples * 2 > self.growth * file_bytes:
            raise Rejected(
                f"grows too much: {clips} clips of {file_bytes} bytes, audio.growth allows {self.growth:g} times"
            )


class Piece(NamedTuple):
    """One clip that is written in the work folder."""

    frames: int
    hash: str


class Outcome(NamedTuple):
    """What became of a ledger row: its clips in order, and why there are no (more) clips."""

    pieces: list[Piece]
    fault: str = ""
    status: str = "rejected"


class Job(NamedTuple):
    """A ledger row to be decoded."""

    row: LedgerRow
    path: Path
    prefix: str  # the path of piece n in the work folder is f"{prefix}-{n}.wav"
    settings: CorpusSettings


def cut_recording(job: Job) -> Outcome:
    """Write the clips of one recording into the work folder and return what was written.

    A fault in a long recording costs what follows it; the whole clips before it are kept.
    """
    written: list[Piece] = []
    try:
        for pcm in read_pieces(job.row, job.path, job.settings):
            with wave.open(f"{job.prefix}-{len(written)}.wav", "wb") as file:
                file.setparams((1, 2, job.settings.sample_rate, len(pcm), "NONE", "not compressed"))
                file.writeframes(pcm.tobytes())
            written.append(Piece(len(pcm), clip_hash(pad_or_cut(pcm, job.settings.samples))))
    except Rejected as fault:
        return Outcome(written, str(fault))
    return Outcome(written)


def read_pieces(row: LedgerRow, path: Path, settings: CorpusSettings) -> Iterator[np.ndarray]:
    """Yield the clips of a recording as int16 (frames,), each but the last of the full length.

    Raises Rejected. The recording is resampled as one stream, so that no clip begins or ends with a filter's edge.
    """
    stop = row.stop_seconds
    if not row.cut:
        stop = min(row.start_seconds + settings.seconds, stop if stop is not None else np.inf)
    recording = open_recording(path, row.start_seconds, stop)
    settings.check_rate(recording.sample_rate)
    file_bytes = path.stat().st_size
    shortest = round(settings.min_seconds * settings.sample_rate)
    rest, whole = np.zeros(0, np.int16), 0
    for block in resample(recording.blocks, recording.sample_rate, settings.sample_rate):
        rest = np.concatenate([rest, to_int16(block)])
        while len(rest) >= settings.samples and (row.cut or not whole):
            settings.check_growth(whole + 1, file_bytes)
            yield rest[: settings.samples]
            rest, whole = rest[settings.samples :], whole + 1
    if not whole and len(rest) < max(1, shortest):
        seconds = len(rest) / settings.sample_rate
        raise Rejected(f"shorter than {settings.min_seconds:g} s: {seconds:.3f} s can be decoded")
    if len(rest) >= max(1, shortest) and (row.cut or not whole):
        yield rest


def resample(blocks: Iterable[np.ndarray], rate_in: int, rate_out: int) -> Iterator[np.ndarray]:
    """Yield float32 blocks at `rate_out`, by soxr's HQ recipe: aliases below what 16 bits hold, and no delay."""
    if rate_in == rate_out:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield stream.resample_chunk(block)
    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


def to_int16(audio: np.ndarray) -> np.ndarray:
    """Return little-endian int16: `audio` * 32768, rounded; what is beyond full scale saturates."""
    scaled = audio * np.float32(32768)
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -32768, 32767, out=scaled).astype("<i2")


def _run(job: Job) -> Outcome:
    return cut_recording(job)


def _start_worker() -> None:
    """Keep freed memory, and end when the parent is gone, even if it was killed."""
    # From one large block that is freed the C library learns to keep what others free: fetching each clip's pages
    # from the system again would be a tenth of the work.
    np.empty(1 << 24, np.uint8)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _new_pool(jobs: int) -> ProcessPoolExecutor:
    """Return a pool whose processes run: forked, which takes no time."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _start_worker)
    pool.submit(int).result()
    return pool


@dataclass
class _Pending:
    """A row on its way: its outcome, or the future that will have it."""

    row: LedgerRow
    job: Job | None = None
    outcome: Outcome | Future | None = None


def convert(
    rows: Iterable[LedgerRow], settings: CorpusSettings, jobs: int, store: Path, work: Path, pool: ProcessPoolExecutor
) -> Iterator[tuple[LedgerRow, str, Outcome]]:
    """Yield (row, prefix of its files in `work`, outcome) in the order of `rows`, decoded by `pool`'s `jobs` processes.

    A bounded number of rows is in flight. A row that kills its process is found by running the rows in flight again,
    one at a time. The pool is shut down in the end.
    """
    window: deque[_Pending] = deque()
    numbered = enumerate(rows)
    more = True
    try:
        while more or window:
            try:
                while more and len(window) < PENDING_PER_JOB * jobs:
                    number, row = next(numbered, (0, None))
                    more = row is not None
                    if more:
                        window.append(_prepare(row, settings, store, work / f"{number:06d}"))
                        _submit(window[-1], pool)
                if not window:
                    return
                if isinstance(window[0].outcome, Future):
                    window[0].outcome = window[0].outcome.result()
            except BrokenProcessPool:
                pool.shutdown()
                _settle_alone(window)
                pool = _new_pool(jobs)
            done = window.popleft()
            yield done.row, done.job.prefix if done.job else "", done.outcome
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare(row: LedgerRow, settings: CorpusSettings, store: Path, prefix: Path) -> _Pending:
    """Return the row with its outcome where that is known without decoding, else with its job."""
    if row.status != "fetched":
        return _Pending(row, outcome=Outcome([], row.reason or "the source gives no reason", row.status))
    if not row.labels:
        return _Pending(row, outcome=Outcome([], "no labels"))
    return _Pending(row, Job(row, store / row.path, str(prefix), settings))


def _submit(pending: _Pending, pool: ProcessPoolExecutor) -> None:
    if pending.job is not None:
        pending.outcome = pool.submit(_run, pending.job)


def _settle_alone(window: deque[_Pending]) -> None:
    """Give every row of `window` its outcome, running those that a dead process left behind one at a time."""
    with ExitStack() as pools:
        pool = pools.enter_context(_new_pool(1))
        for pending in window:
            future = pending.outcome
            if isinstance(future, Outcome):
                continue
            if future is not None and future.done() and future.exception() is None:
                pending.outcome = future.result()
                continue
            try:
                pending.outcome = pool.submit(_run, pending.job).result()
            except BrokenProcessPool:
                pending.outcome = Outcome([], CRASHED)
                pool = pools.enter_context(_new_pool(1))


def clip_ids(row: LedgerRow, outcome: Outcome, seconds: float) -> list[str]:
    """Return the ids of the outcome's clips and, where there is a fault, of the part it concerns.

    A recording that is one clip keeps its id; of a longer one each part is named by its start in seconds.
    """
    parts = len(outcome.pieces) + bool(outcome.fault)
    if parts == 1:
        return [row.id]
    return [f"{row.id}#{row.start_seconds + number * seconds:09.3f}" for number in range(parts)]


def build(ledger: Path, settings: CorpusSettings, jobs: int, store: Path, out: Path) -> tuple[int, int]:
    """Write the shard's folder `out` and return (clips, rejections). Order and bytes do not depend on `jobs`.

    Raises UserError before the file system is full.
    """
    pool = _new_pool(jobs)  # before the bar, whose thread had better not be there when processes are forked
    total = sum(1 for _ in read_ledger(ledger))
    clips = rejections = 0
    with told_of_a_full_disk(out), whole_directory(out) as folder:
        work = folder / "work"
        work.mkdir()
        with (
            open(folder / "clips.csv", "w", encoding="utf-8", newline="") as clips_file,
            open(folder / "rejected.csv", "w", encoding="utf-8", newline="") as rejected_file,
        ):
            clip_table, rejected_table = csv.writer(clips_file), csv.writer(rejected_file)
            clip_table.writerow(CLIP_COLUMNS)
            rejected_table.writerow(REJECTED_COLUMNS)
            outcomes = convert(read_ledger(ledger), settings, jobs, store, work, pool)
            for row, prefix, outcome in progress_bar(outcomes, total, "build_corpus"):
                check_free(folder)
                ids = clip_ids(row, outcome, settings.seconds)
                labels = json.dumps(row.labels, ensure_ascii=False)
                for number, piece in enumerate(outcome.pieces):
                    name = f"{clips:06d}.wav"
                    os.rename(f"{prefix}-{number}.wav", folder / name)
                    path = f"shards/{out.name}/{name}"
                    clip_table.writerow([ids[number], piece.frames, piece.hash, path, labels])
                    clips += 1
                if outcome.fault:
                    rejected_table.writerow([ids[-1], " ".join(outcome.fault.split()), outcome.status])
                    rejections += 1
                if outcome.fault and prefix:
                    remove_leftovers(work, prefix)
        work.rmdir()
    return clips, rejections


def check_free(folder: Path) -> None:
    """Raise OSError (ENOSPC) where less than LEAST_FREE is left of the file system."""
    usage = shutil.disk_usage(folder)
    if usage.free < min(LEAST_FREE, usage.total // 50):
        raise OSError(errno.ENOSPC, f"{usage.free:,} bytes are left")


@contextmanager
def told_of_a_full_disk(out: Path) -> Iterator[None]:
    """Raise UserError where the file system runs full, or nearly so, inside the block."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise UserError(
            f"{out}: the disk is full ({error.strerror}). Free some space, use fewer recordings, or lower "
            "audio.clips_per_file and audio.growth; then type the same command."
        ) from error


def remove_leftovers(work: Path, prefix: str) -> None:
    """Remove what a row that failed has left in the work folder: the file it was writing, or all of a crash."""
    for path in work.glob(f"{Path(prefix).name}-*.wav"):
        path.unlink()


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ledger", type=Path, required=True, help="CSV that fetch_clips.py wrote")
    parser.add_argument("--store", type=Path, required=True, help="folder that relative paths in the ledger begin at")
    parser.add_argument("--sample-rate", type=int, default=16_000, help="of every clip, in Hz")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the longest clip")
    parser.add_argument("--min-seconds", type=float, default=0.5, help="length of the shortest clip")
    parser.add_argument("--lowest-rate", type=int, default=1000, help="of a recording, in Hz; others are left out")
    parser.add_argument("--highest-rate", type=int, default=1_000_000, help="of a recording, in Hz")
    parser.add_argument("--clips-per-file", type=int, default=100_000, help="what follows is left out")
    parser.add_argument("--growth", type=float, default=1000.0, help="times a file's bytes that its clips may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that decode")
    parser.add_argument("--out", type=Path, required=True, help="folder to write: the clips, clips.csv, rejected.csv")
    return parser.parse_args()


def check_arguments(arguments: argparse.Namespace) -> CorpusSettings:
    """Return the settings of the corpus. Raises UserError for numbers that make no corpus, or a ledger not there."""
    if not arguments.ledger.is_file():
        raise UserError(f"--ledger: found {str(arguments.ledger)!r}, which is no file. First run fetch_clips.py.")
    if arguments.jobs < 1:
        raise UserError(f"--jobs: found {arguments.jobs}; allowed is 1 or more. Try: --jobs 1")
    if arguments.sample_rate < 1:
        raise UserError(f"--sample-rate: found {arguments.sample_rate}; allowed is 1 or more. Try: 16000")
    if not 0 <= arguments.min_seconds <= arguments.seconds or round(arguments.seconds * arguments.sample_rate) < 1:
        raise UserError(
            f"--seconds, --min-seconds: found {arguments.seconds:g} and {arguments.min_seconds:g}; allowed are "
            "numbers from 0, --seconds the larger. Try: --seconds 10 --min-seconds 0.5"
        )
    return CorpusSettings(**{field.name: getattr(arguments, field.name) for field in fields(CorpusSettings)})


def main() -> None:
    """Build the shard and print how many clips it has and how many were left out."""
    arguments = parse_arguments()
    settings = check_arguments(arguments)
    clips, rejections = build(arguments.ledger, settings, arguments.jobs, arguments.store, arguments.out)
    print(f"{clips} clips, {rejections} rejected")


if __name__ == "__main__":
    run_main(main)
