"""Decodes one shard's items into files of the corpus, and says of each item left out why."""

import argparse
import csv
import errno
import json
import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common import plugins
from scripts.common.corpus import item_hash
from scripts.common.decode import Rejected
from scripts.common.errors import UserError, run_main
from scripts.common.files import whole_directory
from scripts.common.ledger import LedgerRow, read_ledger
from scripts.common.progress import progress_bar
from scripts.kinds._contract import Kind, Remark, part_of
from scripts.machine.copies import NO_ROOM
from scripts.machine.server_process import end_with
from scripts.prepare.arguments import add_kind_arguments, load_kind

VERSION = 3
PENDING_PER_JOB = 16  # recordings in flight: enough to bridge a long one, few enough to hold none in memory
LEAST_FREE = 256 * 2**20  # bytes of the file system that are left free; of a small one a fiftieth of it
ITEM_COLUMNS = ("id", "frames", "hash", "path", "labels")  # of items.csv, which index_corpus.py joins
REJECTED_COLUMNS = ("id", "reason", "status")  # of rejected.csv
REMARK_COLUMNS = ("id", "remark")  # of remarks.csv: what a user should know of items that are taken
CRASHED = "decoder crashed: the process that decoded it died"


class Piece(NamedTuple):
    """One item that is written in the work folder."""

    frames: int
    hash: str
    part: int  # of the recording


class Outcome(NamedTuple):
    """What became of a ledger row: its items, why parts of it are none, both in order, and what is to be said."""

    pieces: list[Piece]
    faults: list[tuple[int, str]]  # part of the recording, reason
    status: str = "rejected"  # of the faults
    remarks: Sequence[tuple[int, str]] = ()


class Job(NamedTuple):
    """A ledger row to be decoded."""

    row: LedgerRow
    path: Path
    prefix: str  # the path of piece n in the work folder is f"{prefix}-{n}.{ending}"
    kind: Kind  # of the data set


def cut_recording(job: Job) -> Outcome:
    """Write the items of one recording into the work folder and return what was written.

    A fault in a long recording costs the items that it touches.
    """
    written: list[Piece] = []
    faults: list[tuple[int, str]] = []
    remarks: list[tuple[int, str]] = []
    part = 0
    try:
        sample = job.kind.sample
        fixed = plugins.load("kinds", sample.kind).fixed
        for piece in job.kind.pieces(job.row, job.path):
            if isinstance(piece, Rejected):
                faults.append((part, str(piece)))
                part += piece.parts
            elif isinstance(piece, Remark):
                remarks.append((min(piece.part, part - 1), piece.text))
            else:
                stored = job.kind.write(Path(f"{job.prefix}-{len(written)}.{sample.ending}"), piece)
                written.append(Piece(stored.shape[-1], item_hash(fixed(stored, sample)), part))
                part += 1
    except Rejected as fault:
        faults.append((part, str(fault)))
        part += 1
    return Outcome(written, faults, remarks=remarks)


def _run(job: Job) -> Outcome:
    return cut_recording(job)


def _start_worker(parent: int) -> None:
    """Keep freed memory, and end when the parent is gone, even if it was killed."""
    # From one large block that is freed the C library learns to keep what others free: fetching each item's pages
    # from the system again would be a tenth of the work.
    np.empty(1 << 24, np.uint8)
    end_with(parent)


def _new_pool(jobs: int) -> ProcessPoolExecutor:
    """Return a pool whose processes run: forked, which takes no time."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _start_worker, (os.getpid(),))
    pool.submit(int).result()
    return pool


@dataclass
class _Pending:
    """A row on its way: its outcome, or the future that will have it."""

    row: LedgerRow
    outcome: Outcome | Future
    job: Job | None = None  # none where the outcome is known without decoding


def convert(
    rows: Iterable[LedgerRow], kind: Kind, jobs: int, store: Path, work: Path, pool: ProcessPoolExecutor
) -> Iterator[tuple[LedgerRow, str, Outcome]]:
    """Yield (row, prefix of its files in `work`, outcome) in the order of `rows`, decoded by `pool`'s `jobs` processes.

    A bounded number of rows is in flight. A row that kills its process is found by running the rows in flight again,
    one at a time. The pool is shut down in the end.
    """
    window: deque[_Pending] = deque()
    numbered = enumerate(rows)
    try:
        while True:
            for number, row in islice(numbered, PENDING_PER_JOB * jobs - len(window)):
                window.append(_begin(row, kind, store, work / f"{number:06d}", pool))
            if not window:
                return
            if isinstance(window[0].outcome, Future):
                try:
                    window[0].outcome = window[0].outcome.result()
                except BrokenProcessPool:
                    pool.shutdown()
                    _settle_alone(window)
                    pool = _new_pool(jobs)
            done = window.popleft()
            yield done.row, done.job.prefix if done.job else "", done.outcome
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(row: LedgerRow, kind: Kind, store: Path, prefix: Path, pool: ProcessPoolExecutor) -> _Pending:
    """Return the row with its outcome where that is known without decoding, else with its job, submitted."""
    if row.status != "fetched":
        return _Pending(row, Outcome([], [(0, row.reason or "the source gives no reason")], row.status))
    if not row.labels:
        return _Pending(row, Outcome([], [(0, "no labels")]))
    job = Job(row, store / row.path, str(prefix), kind)
    try:
        return _Pending(row, pool.submit(_run, job), job)
    except BrokenProcessPool as broken:
        outcome = Future()
        outcome.set_exception(broken)
        return _Pending(row, outcome, job)


def _settle_alone(window: deque[_Pending]) -> None:
    """Give every row of `window` its outcome, running those that a dead process left behind one at a time."""
    with ExitStack() as pools:
        pool = pools.enter_context(_new_pool(1))
        for pending in window:
            future = pending.outcome
            if isinstance(future, Outcome):
                continue
            if future.done() and future.exception() is None:
                pending.outcome = future.result()
                continue
            try:
                pending.outcome = pool.submit(_run, pending.job).result()
            except BrokenProcessPool:
                pending.outcome = Outcome([], [(0, CRASHED)])
                pool = pools.enter_context(_new_pool(1))


def item_id(row: LedgerRow, outcome: Outcome, kind: Kind, part: int) -> str:
    """Return the id of a part: of a recording that has one its own, of a longer one with a name beside it."""
    if len(outcome.pieces) + len(outcome.faults) == 1:
        return row.id
    return f"{row.id}#{part_of(kind, row.start_seconds, part)}"


def build(ledger: Path, kind: Kind, jobs: int, store: Path, out: Path) -> tuple[int, int]:
    """Write the shard's folder `out` and return (items, rejections). Order and bytes do not depend on `jobs`.

    Raises UserError before the file system is full.
    """
    pool = _new_pool(jobs)  # before the bar, whose thread had better not be there when processes are forked
    total = sum(1 for _ in read_ledger(ledger))
    items = rejections = 0
    with told_of_a_full_disk(out), whole_directory(out) as folder:
        work = folder / "work"
        work.mkdir()
        with (
            open(folder / "items.csv", "w", encoding="utf-8", newline="") as items_file,
            open(folder / "rejected.csv", "w", encoding="utf-8", newline="") as rejected_file,
            open(folder / "remarks.csv", "w", encoding="utf-8", newline="") as remarks_file,
        ):
            item_table, rejected_table, remark_table = map(csv.writer, (items_file, rejected_file, remarks_file))
            item_table.writerow(ITEM_COLUMNS)
            rejected_table.writerow(REJECTED_COLUMNS)
            remark_table.writerow(REMARK_COLUMNS)
            outcomes = convert(read_ledger(ledger), kind, jobs, store, work, pool)
            for row, prefix, outcome in progress_bar(outcomes, total=total, name="build_corpus", unit="item"):
                check_free(folder)
                name_of = partial(item_id, row, outcome, kind)
                labels = json.dumps(row.labels, ensure_ascii=False)
                for number, piece in enumerate(outcome.pieces):
                    name = f"{items:06d}.{kind.sample.ending}"
                    os.rename(f"{prefix}-{number}.{kind.sample.ending}", folder / name)
                    path = f"shards/{out.name}/{name}"
                    item_table.writerow([name_of(piece.part), piece.frames, piece.hash, path, labels])
                    items += 1
                for part, fault in outcome.faults:
                    rejected_table.writerow([name_of(part), " ".join(fault.split()), outcome.status])
                    rejections += 1
                for part, remark in outcome.remarks:
                    remark_table.writerow([name_of(part), remark])
                if outcome.faults and prefix:  # the file that it was writing, or all of a crash
                    for path in work.glob(f"{Path(prefix).name}-*.*"):
                        path.unlink()
        work.rmdir()
    return items, rejections


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
            f"{out}: the disk is full ({error.strerror}). Free some space, use fewer recordings, or (of "
            "audio) lower audio.items_per_file and audio.growth; then type the same command."
        ) from error


def main() -> None:
    """Build the shard and print how many items it has and how many were left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ledger", type=Path, required=True, help="CSV that fetch_clips.py wrote")
    parser.add_argument("--store", type=Path, required=True, help="folder that relative paths in the ledger begin at")
    add_kind_arguments(parser)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that decode")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder to write: the items, items.csv, rejected.csv, remarks.csv"
    )
    arguments = parser.parse_args()
    if not arguments.ledger.is_file():
        raise UserError(f"--ledger: found {str(arguments.ledger)!r}, which is not a file. First run fetch_clips.py.")
    if arguments.jobs < 1:
        raise UserError(f"--jobs: found {arguments.jobs}; allowed is 1 or more. Try: --jobs 1")
    kind = load_kind(arguments)
    items, rejections = build(arguments.ledger, kind, arguments.jobs, arguments.store, arguments.out)
    if rejections:  # how many items there are, index_corpus says
        print(f"{items} items, {rejections} rejected")


if __name__ == "__main__":
    run_main(main)
