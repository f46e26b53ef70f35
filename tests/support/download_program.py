"""The download's programs as Snakemake runs them, against a `Tube`: a data set of given ids in a folder of its own."""

import hashlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.common.files import read_json
from scripts.common.ledger import LedgerRow, SourceRequest, read_ledger
from scripts.prepare.arguments import complete_options
from scripts.sources import audioset
from scripts.sources._audioset.segments import Segment, choose
from scripts.sources._audioset.store import Record, Store
from tests.support.loopback_tube import CLASS_LIST, Tube, made_list
from tests.support.programs import PROJECT, program_line

TESTS = Path(__file__).resolve().parent
PATIENCE = 600  # seconds until a test gives up on a program
WITHOUT_LIMITS = dict.fromkeys(("requests_per_hour", "least_pause_seconds", "most_pause_seconds"), 0)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which yt-dlp finds the tests' extractor and, but for `more`, no proxy and no secret."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("FEEDRATE_")
    }
    return {**kept, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PROJECT)]), **(more or {})}


@dataclass(frozen=True)
class Done:
    """A program that has ended."""

    status: int
    output: str  # stdout and stderr


@dataclass
class Download:
    """A data set of `ids` that comes from `tube`, in `folder`; `options` are its entry's, beside those set here."""

    folder: Path
    tube: Tube
    ids: list[str]
    start: Callable[[str], float] | float = 2.0
    shards: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "list.csv").write_bytes(made_list(self.ids, start=self.start))
        self.options = {
            **{"list": str(self.folder / "list.csv"), "class_labels": str(CLASS_LIST), "url": self.tube.watch_url},
            **{"attempts": 1, "back_off_seconds": 0.05, **WITHOUT_LIMITS, **self.options},
        }
        self.store = Store(self.folder / "store")

    def run(self, program: str, *arguments: str | Path, call: str, more: Mapping[str, str] | None = None) -> Done:
        """Run a program of scripts/ to its end."""
        return self.wait(self.begin(program, *arguments, call=call, more=more))

    def begin(
        self, program: str, *arguments: str | Path, call: str, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program of scripts/ that takes a source, in a process group and an empty folder of its own."""
        words = ["--source", "audioset", "--options", json.dumps(self.options), "--shards", str(self.shards)]
        words += ["--store", str(self.store.root), "--call", call, *map(str, arguments)]
        (self.folder / "empty").mkdir(exist_ok=True)
        return subprocess.Popen(
            [*program_line(program), *words],
            env=environment(more),
            cwd=self.folder / "empty",
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @staticmethod
    def wait(process: subprocess.Popen[str]) -> Done:
        """Return how a started program ended."""
        output, _ = process.communicate(timeout=PATIENCE)
        return Done(process.returncode, output)

    def prepare(self, call: str = "first", more: Mapping[str, str] | None = None) -> Done:
        """Run prepare_clips.py."""
        return self.run("prepare_clips.py", "--out", self.folder / "prepared", call=call, more=more)

    def begin_fetch(self, call: str, shard: int = 0, more: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start fetch_clips.py."""
        return self.begin(
            "fetch_clips.py",
            *("--shard", str(shard), "--prepared", self.folder / "prepared", "--ledger", self.ledger(shard)),
            call=call,
            more=more,
        )

    def fetch(self, call: str, more: Mapping[str, str] | None = None) -> list[Done]:
        """Run fetch_clips.py for all shards side by side."""
        return [self.wait(each) for each in [self.begin_fetch(call, shard, more) for shard in range(self.shards)]]

    def fetch_here(self, call: str = "first") -> dict[str, LedgerRow]:
        """Prepare and fetch the first shard in this process, without a program; return its rows by id."""
        options = complete_options(self.options, audioset)
        prepared = self.folder / "prepared"
        request = SourceRequest(options, 10.0, 0, self.shards, self.store.root, prepared, call=call)
        audioset.prepare(request)
        return {row.id: row for row in audioset.fetch(request)}

    def ledger(self, shard: int = 0) -> Path:
        """Return the path of a shard's ledger."""
        return self.folder / "ledgers" / f"ledger-{shard:04d}.csv"

    def rows(self) -> dict[str, LedgerRow]:
        """Return the rows of all ledgers by id; each id has one."""
        rows = [row for shard in range(self.shards) for row in read_ledger(self.ledger(shard))]
        assert sorted(row.id for row in rows) == sorted(self.ids)
        return {row.id: row for row in rows}

    def count(self, min_clips: str = "all") -> Done:
        """Run count_clips.py."""
        words = ["--ledgers", self.folder / "ledgers", "--shards", str(self.shards), "--min-clips", min_clips]
        command = [*program_line("count_clips"), *words, "--out", self.folder / "clips.json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        return Done(done.returncode, done.stdout + done.stderr)

    def records(self) -> dict[str, Record]:
        """Return the records by id, as they were written."""
        paths = (self.store.root / "segments").glob("*/*.json")
        return {path.stem.rpartition("_")[0]: Record(**read_json(path)) for path in paths}

    def fetched(self) -> set[str]:
        """Return the ids whose record says that they are fetched; the audio of each is there, in full."""
        found = {video: record for video, record in self.records().items() if record.status == "fetched"}
        for video, record in found.items():
            audio = (self.store.root / record.path).read_bytes()
            assert (len(audio), hashlib.sha256(audio).hexdigest()) == (record.bytes, record.sha256), video
            assert record.bytes > 0
        return set(found)


def watched(tube: Tube) -> Counter[str]:
    """Return how often each video was asked for so far."""
    return Counter(asked.id for asked in tube.requests if asked.kind == "watch")


def in_order(ids: Iterable[str]) -> list[str]:
    """Return the ids in the order in which a call asks for them."""
    return [segment.id for segment in choose([Segment(video, 0.0, 10.0, ()) for video in ids], set(), "all", 0)]
