"""The one way from facts to results: the tables and results/LOADER.json are both cut out of it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.errors import reading
from scripts.common.files import read_json
from scripts.common.vocabulary import UNSUITED, WHOLE
from scripts.decide.utilisation import with_step_au
from scripts.tables import bounds as bounds_of, ranking
from scripts.tables.columns import COLUMNS
from scripts.tables.records import control_runs, lean, planned_runs, setting_columns, shared, tried

Record = dict[str, Any]


class Chain(NamedTuple):
    """What a plan and its facts give, each row once."""

    runs: list[Record]  # rows of runs.csv
    records: list[Record | None]  # of each run what else the tables need, None where it has none
    control: list[Record]  # records of control runs
    tiers: dict[str, Record | None]  # profiles by name
    formats: dict[str, Record | None]  # what writing them took
    bounds: list[Record]  # rows of bounds.csv
    results: list[Record]  # with bounds and bottlenecks, before they are ranked
    skipped: list[Record]  # what the plan skips
    ranking: list[Record]  # rows of ranking.csv

    def measured_bytes(self, format: str) -> int | None:
        """Return the bytes of a format's split that is measured, by its items; None where it could not be written."""
        record, counts = self.formats[format], [row["items"] for row in self.results if row["format"] == format]
        items = max(filter(None, counts), default=None)
        size = bounds_of.stored_bytes(record) if record else None
        return items * size if items and size else None


def chain(
    plan: Mapping[str, Any],
    root: Path,
    of: Collection[str] | None = None,
    write: Callable[[Record], None] = lambda _record: None,
) -> Chain:
    """Return what the plan's facts below `root` give: of the sessions that hold most of its results, or most of `of`.

    Each record is read once, given to `write` as it is, and kept as what the tables need: there may be 100,000.
    """
    rows, records, seen = [], [], {}
    for entry, record in planned_runs(plan, root, of):
        if record:
            write(record)
            record = shared(record, seen)
        rows.append({**ranking.run_row(entry, record, plan["emulated"]), "path": entry["path"]})
        records.append(record and lean(record))
    control = list(control_runs(plan, root))
    tiers = {name: optional(root, "placed", plan["dataset"], f"{name}.json") for name in plan["tiers"]}
    formats = {name: _written(root, plan, name) for name in plan["formats"]}
    sizes = {name: bounds_of.stored_bytes(record) for name, record in formats.items() if record}
    bounds = list(bounds_of.rows(plan, control, tiers, sizes))
    runs = ranking.counted(rows)
    share = plan["config"]["measure"]["limited_share"]
    results = ranking.with_bottleneck(bounds_of.apply(ranking.results(tried(runs)), bounds, share))
    emulated = plan["emulated"]
    skipped = [
        {**entry, "tier": entry["tier"] or "", "emulated": entry["tier"] in emulated} for entry in plan["skipped"]
    ]
    ranked = ranking.rank(ranking.with_about(results + _never_planned(plan, skipped), plan))
    ranked = ranking.with_sharing(with_step_au(ranked, plan))  # of the speeds that the rows show
    return Chain(runs, records, control, tiers, formats, bounds, results, skipped, ranked)


def _written(root: Path, plan: Mapping[str, Any], format: str) -> Record | None:
    """Return the record of a format of all items, else of a part of them."""
    folder = ("formats", plan["dataset"])
    return optional(root, *folder, f"{format}.json") or optional(root, *folder, "part", f"{format}.json")


def optional(root: Path, *parts: str) -> Record | None:
    """Return what a file below results/ holds, or None where it is absent."""
    path = Path(root, "results", *parts)
    with reading(path, "the workflow"):
        return read_json(path) if path.is_file() else None


def _never_planned(plan: Mapping[str, Any], skipped: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row of the ranking for each loader that the plan skips and of which it has no result at all."""
    planned = {entry["loader"] for entry in plan["results"]}
    blank = dict.fromkeys(COLUMNS["ranking"]) | {"task": "read", "cache": "warm", "step_ms": 0, "format": ""}
    blank |= {"size": WHOLE, "runs": 0, "failed": 0, "warnings": 0}
    return [{**blank, **skipped_row(entry)} for entry in skipped if entry["loader"] not in planned]


def skipped_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of what a plan skips, which has no result."""
    settings = entry["settings"] or {}
    columns = setting_columns(settings)
    return {
        **{key: entry[key] for key in ("loader", "tier", "emulated", "reason")},
        **columns,
        "device": columns["device"] or "",
        "slug": "-".join(str(value) for value in settings.values() if value is not None),
        "status": "skipped",
        "reason_code": UNSUITED,
    }
