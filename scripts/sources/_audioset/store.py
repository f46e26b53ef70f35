"""The folder that keeps what was downloaded: a record per segment, its audio beside it, and what all jobs share.

    segments/3f2/ID_30000.json   the fate of one segment (the video's id and its start in milliseconds), a `Record`
    segments/3f2/ID_30000.opus   its audio, where there is some; 3f2 is the begin of the SHA-256 of the name
    counts/SELECTION/0003.json   how far each shard is
    work/                        downloads that are under way; of no value once nobody is at work
    pace.json                    when the last requests were sent (`Pace`)
    stop.json                    why the download was stopped, and in which call
    lock                         who is at work: the jobs of one call share it

No rule lists any of it as an output, so that Snakemake never deletes it. Files are written aside and renamed, audio
before its record: what has a record that says fetched is there.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json


@dataclass(frozen=True)
class Record:
    """The fate of one segment, as its file says."""

    status: str  # fetched, unavailable (permanently unavailable) or failed (for now)
    reason: str = ""
    path: str = ""  # of the audio, relative to the store
    start_seconds: float = 0.0  # where in the audio the segment begins
    stop_seconds: float = 0.0
    codec: str = ""
    duration_seconds: float = 0.0  # how much of the segment there is
    bytes: int = 0
    sha256: str = ""
    asked: int = 1  # times so far
    asked_at: float = 0.0  # seconds since 1970
    not_before: float = 0.0  # when a failed one may be asked for again


class Store:
    """The folder `root` and the files in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work" / f"{socket.gethostname()}-{os.getpid()}"

    def stem(self, name: str) -> Path:
        """Return the path of a segment's files without their endings, relative to the store.

        4,096 folders: some file systems grow slow with millions of names in one.
        """
        return Path("segments", hashlib.sha256(name.encode()).hexdigest()[:3], name)

    def read(self, name: str) -> Record | None:
        """Return the record of a segment; None where there is none, or its audio is not there in full length."""
        try:
            found = read_json(self.root / f"{self.stem(name)}.json")
            record = Record(**{field.name: found[field.name] for field in fields(Record)})
            if record.status == "fetched" and (self.root / record.path).stat().st_size != record.bytes:
                return None
        except (FileNotFoundError, KeyError, TypeError, ValueError):  # of JSON and of UTF-8
            return None
        return record

    def write(self, name: str, record: Record) -> None:
        """Keep the record of a segment."""
        self._write(self.root / f"{self.stem(name)}.json", asdict(record))

    def _write(self, path: Path, value: Any) -> None:
        """Write JSON to `path`, by way of the work folder: a killed job leaves its debris there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.work / path.name, value)
        os.replace(self.work / path.name, path)

    def keep(self, name: str, audio: Path) -> tuple[str, int, str]:
        """Move finished `audio` from the work folder to its place; return (path in the store, bytes, SHA-256)."""
        path = self.stem(name).with_name(f"{name}{audio.suffix}")
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        with open(audio, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        size = audio.stat().st_size
        os.replace(audio, self.root / path)
        return path.as_posix(), size, digest

    @contextmanager
    def at_work(self, call: str) -> Iterator[Path]:
        """Hold the store for a job of `call` and yield `work`, an empty folder that is removed in the end.

        Raises UserError where another call is at work, where the folder cannot be written, and where the disk is full,
        before the block or within.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with open(os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o666), "r+", encoding="utf-8") as lock:
                self._enter(lock, call)
                try:
                    self.work.mkdir(parents=True, exist_ok=True)
                    yield self.work
                finally:
                    shutil.rmtree(self.work, ignore_errors=True)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EACCES, errno.EROFS, errno.EPERM):
                raise UserError(
                    f"store: found {str(self.root)!r}, which is not writable ({error.strerror}); allowed is a "
                    "folder that you may write. Name another in config.yaml, or leave the option out."
                ) from None
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise UserError(
                f"{self.root}: the disk is full. Make room, or set `store` to a folder on a larger disk. Then type the "
                "same command: it goes on where it was, and downloads nothing twice."
            ) from None

    def _enter(self, lock: Any, call: str) -> None:
        """Take a share in the lock. Whoever finds it free clears up what killed jobs have left and signs it."""
        with open(self.root / "lock-entry", "w") as entry:  # one at a time: a lock is not made a shared one in one step
            fcntl.flock(entry, fcntl.LOCK_EX)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _read(self.root / "lock")
                if owner.get("call") != call:
                    who = f"process {owner.get('process')} on {owner.get('host')}, since {owner.get('since')}"
                    raise UserError(
                        f"{self.root}: another call of feedrate is downloading into this folder ({who}). Allowed is "
                        "one at a time. Wait until it has ended, or stop it with Ctrl-C, or kill that process where "
                        "its Snakemake is gone; then type the same command."
                    ) from None
            else:
                shutil.rmtree(self.root / "work", ignore_errors=True)
                lock.seek(0)
                owner = {"call": call, "host": socket.gethostname(), "process": os.getpid(), "since": _now()}
                lock.write(json.dumps(owner))
                lock.truncate()
                lock.flush()
            fcntl.flock(lock, fcntl.LOCK_SH)

    def stop(self, call: str, reason: str) -> None:
        """Let all jobs of `call` end, because of `reason`, which says what to do."""
        self._write(self.root / "stop.json", {"call": call, "reason": reason, "since": _now()})

    def stopped(self, call: str) -> str:
        """Return why this call was stopped, or an empty text."""
        found = _read(self.root / "stop.json")
        return str(found.get("reason", "")) if found.get("call") == call else ""

    def note_counts(self, selection: str, shard: int, counts: Counter[str]) -> None:
        """Note how far a shard is: {status: segments}."""
        self._write(self.root / "counts" / selection / f"{shard:04d}.json", dict(counts))

    def counts(self, selection: str, without: int = -1) -> Counter[str]:
        """Return {status: segments} over all shards of a selection but one."""
        total: Counter[str] = Counter()
        for path in (self.root / "counts" / selection).glob("*.json"):
            if path.stem != f"{without:04d}" and not path.name.startswith("."):
                total.update({status: count for status, count in _read(path).items() if isinstance(count, int)})
        return total


def _read(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one where there is none, or a damaged one."""
    try:
        found = read_json(path)
    except (FileNotFoundError, ValueError):  # of JSON and of UTF-8
        return {}
    return found if isinstance(found, dict) else {}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
