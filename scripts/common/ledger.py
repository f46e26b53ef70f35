"""The ledger: one CSV row per clip of a shard, saying whether its audio is there, where, and if not why."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from scripts.common.errors import reading
from scripts.common.files import whole_file

# fetched; unavailable: permanently unavailable; failed: for now; waiting: not asked for yet, since there are enough;
# stopped: not asked for, since the download was stopped.
STATUSES = ("fetched", "unavailable", "failed", "waiting", "stopped")


@dataclass(frozen=True)
class SourceRequest:
    """What a source is asked for: one shard of a data set."""

    options: Mapping[str, Any]  # the data set's entry in the config, defaults filled in
    clip_seconds: float  # the fixed clip length of the config
    shard: int
    shards: int
    store: Path  # a folder that no rule deletes: audio that the source brings is here
    prepared: Path | None = None  # the folder that `prepare` wrote for all shards, for a source that has one
    kind_options: Mapping[str, Any] = field(default_factory=dict)  # of data that is no audio
    call: str = "by hand"  # whose jobs share a rate limit, a lock and a reason to stop


@dataclass(frozen=True)
class LedgerRow:
    """One clip, or one recording to be cut into clips, with its fate."""

    id: str
    status: str  # one of STATUSES
    reason: str = ""
    path: str = ""  # absolute, or relative to the store
    start_seconds: float = 0.0
    stop_seconds: float | None = None  # None: to the end
    cut: bool = False  # cut what is between start and stop into consecutive clips of the fixed length
    labels: list[str] = field(default_factory=list)  # class names, the first is the target
    codec: str = ""  # of what was downloaded, as FFmpeg calls it
    duration_seconds: float | None = None
    bytes: int | None = None
    sha256: str = ""


COLUMNS = tuple(column.name for column in fields(LedgerRow))


def write_ledger(path: Path, rows: Iterable[LedgerRow]) -> None:
    """Write `rows` to `path` as they come, whole or not at all."""
    with whole_file(path) as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for row in rows:
            assert row.status in STATUSES, row.status
            values = {
                **vars(row),
                "start_seconds": repr(float(row.start_seconds)),
                "stop_seconds": "" if row.stop_seconds is None else repr(float(row.stop_seconds)),
                "cut": int(row.cut),
                "labels": json.dumps(row.labels, ensure_ascii=False),
            }
            table.writerow(["" if values[column] is None else values[column] for column in COLUMNS])


def read_ledger(path: Path) -> Iterator[LedgerRow]:
    """Yield the rows of a ledger file. Raises UserError where it is damaged."""
    with reading(path, "fetch_clips"), open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            read = {"start_seconds": float(row["start_seconds"]), "cut": row["cut"] == "1"}
            for name, kind in (("stop_seconds", float), ("duration_seconds", float), ("bytes", int)):
                read[name] = kind(row[name]) if row[name] else None
            yield LedgerRow(**{**row, **read, "labels": json.loads(row["labels"])})
