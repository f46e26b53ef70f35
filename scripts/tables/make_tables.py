"""Gathers the records that the plan lists into tables: runs, ranking, bounds, noise, formats, tiers, what is not there.

    python -m scripts.tables.make_tables --plan results/runs/demo/plan.json --out results/tables/demo

The columns are described in docs/tables.md. The folder appears whole or not at all.
"""

import argparse
import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, reading, run_main
from scripts.common.files import read_json, whole_directory, write_json
from scripts.common.vocabulary import UNSUITED
from scripts.tables import bottlenecks, break_even, drift, ladder, latency, mixed, ranking, spans, stationary, training
from scripts.tables import bounds as bounds_of
from scripts.tables import tensors as tensors_table
from scripts.tables.columns import COLUMNS, DOCUMENTS, RECORDS, result_key, taken, write_table
from scripts.tables.groups import grouped
from scripts.tables.records import (
    control_runs,
    lean,
    planned_runs,
    read_plan,
    read_record,
    setting_columns,
    shared,
    tried,
)
from scripts.tables.step_au import with_step_au

Record = dict[str, Any]
_REASONS = 50  # kinds of rejection that dataset.json names; the rest are in results/corpus/DS/rejected.csv


def make_tables(plan: Mapping[str, Any], root: Path, out: Path) -> None:
    """Write all tables of `plan`, whose records are below `root`, into `out`, in place of what was there.

    Raises UserError where a record is broken or `out` holds files that are no tables.
    """
    _check_out(out)
    with whole_directory(out) as folder, _written_to(folder / RECORDS) as write:
        _make_tables(plan, root, folder, write)


def _make_tables(plan: Mapping[str, Any], root: Path, folder: Path, write: Callable[[Record], None]) -> None:
    """Read each record once, `write` it as it is, and keep what the tables need of it: there may be 100,000 of them."""
    rows, kept, seen = [], [], {}
    for entry, record in planned_runs(plan, root):
        if record:
            write(record)
            record = shared(record, seen)
        rows.append(ranking.run_row(entry, record, plan["emulated"]))
        kept.append(record and lean(record))
    records = [record for record in kept if record]
    bounds = list(control_runs(plan, root))
    tensors = [record for entry in plan["tensors"] if (record := read_record(root / entry["path"])) is not None]
    for record in (*bounds, *tensors):
        write(record)
    tiers = {name: _optional(root, "placed", plan["dataset"], f"{name}.json") for name in plan["tiers"]}
    formats = {name: _optional(root, "formats", plan["dataset"], f"{name}.json") for name in plan["formats"]}
    emulated = plan["emulated"]
    skipped = [
        {**entry, "tier": entry["tier"] or "", "emulated": entry["tier"] in emulated} for entry in plan["skipped"]
    ]

    sizes = {name: bounds_of.stored_bytes(record) for name, record in formats.items() if record}
    bound_rows = list(bounds_of.rows(plan, bounds, tiers, sizes))
    runs = ranking.counted(rows)
    of_runs = list(zip(runs, kept, strict=True))
    share, storage = plan["config"]["measure"]["limited_share"], plan["config"]["storage"]
    results = ranking.with_bottleneck(bounds_of.apply(ranking.results(tried(runs)), bound_rows, share))
    ranked = ranking.rank(ranking.with_about(results + _never_planned(plan, skipped), plan))
    ranked = ranking.with_sharing(with_step_au(ranked, plan))  # of the speeds that the rows show
    best, noise = ranking.best(ranked), drift.noise_rows(bounds)
    written = [taken("formats", plan={"format": name}, record=record) for name, record in formats.items()]
    tables: dict[str, Iterable[Mapping[str, Any]]] = {
        "runs": runs,
        "ranking": ranked,
        "best": best,
        "training": training.cost_rows(ranked),
        "seconds": training.seconds_rows(runs),
        "formats": written,
        "break_even": break_even.rows(best, written),
        "ladder": ladder.rows(plan, ranked),
        "latencies": latency.rows(of_runs),
        "spans": spans.rows(of_runs),
        "tiers": [
            _tier_row({"tier": name, "emulated": name in emulated, "tier_kind": storage[name]["kind"]}, record)
            for name, record in tiers.items()
        ],
        "bounds": [*bound_rows, *bounds_of.decode_rows(results)],
        "parts": bottlenecks.rows(results),
        "tensors": tensors_table.rows(tensors),
        "skipped": _skipped_rows(skipped, tried(runs)),
        "noise": noise,
        "warnings": [
            *_warning_rows(records, [*bounds, *tensors], tiers),
            *drift.warning_rows(noise),
            *mixed.warning_rows(runs),
            *stationary.warning_rows(of_runs),
        ],
    }
    for name in COLUMNS:
        write_table(folder, name, tables[name])
    write_json(folder / "dataset.json", _dataset(plan, root))
    write_json(folder / "host.json", _host(records))
    write_json(folder / "declared.json", {result_key(row): row["declared"] for row in ranked})


def _check_out(out: Path) -> None:
    known = {f"{name}.csv" for name in COLUMNS} | {f"{name}.json" for name in DOCUMENTS} | {RECORDS}
    found = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    foreign = [name for name in found if name not in known and not name.startswith(".snakemake")]
    if foreign:
        raise UserError(
            f"--out {out}: found {foreign[0]!r} there, allowed is a folder of tables alone, since it is replaced as a "
            "whole. Name another folder, such as results/tables/demo."
        )


@contextmanager
def _written_to(path: Path) -> Iterator[Callable[[Record], None]]:
    """Yield what writes a record as a compressed JSON line; the same records give the same bytes."""
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as lines:
        yield lambda record: lines.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def _optional(root: Path, *parts: str) -> Record | None:
    path = Path(root, "results", *parts)
    with reading(path, "the workflow"):
        return read_json(path) if path.is_file() else None


def _never_planned(plan: Mapping[str, Any], skipped: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row of the ranking for each loader that the plan skips and of which it plans no run at all."""
    planned = {entry["loader"] for entry in plan["runs"]}
    blank = dict.fromkeys(COLUMNS["ranking"]) | {"task": "read", "cache": "warm", "step_ms": 0, "format": ""}
    blank |= {"runs": 0, "failed": 0, "warnings": 0}
    return [{**blank, **_plan_skip(entry)} for entry in skipped if entry["loader"] not in planned]


def _plan_skip(entry: Mapping[str, Any]) -> dict[str, Any]:
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


def _skipped_rows(skipped: Iterable[Mapping[str, Any]], runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of skipped.csv: what could not run; `repeats` counts the runs that share the reason."""
    lost = [run for run in runs if run["status"] in ("skipped", "missing")]
    for same in grouped(lost, "loader", "tier", "slug", "status", "reason").values():
        yield {**same[0], "repeats": len(same)}
    yield from map(_plan_skip, skipped)


def _tier_row(entry: Mapping[str, Any], record: Record | None) -> dict[str, Any]:
    """Return the row of tiers.csv, blank with a reason where fio did not measure it."""
    row = taken("tiers", plan=entry, record=record)
    unprofiled = {} if record else {"reason": "the tier was not profiled"}
    return row | {"warnings": len((record or {}).get("warnings") or [])} | unprofiled


def _warning_rows(
    records: Iterable[Record], bounds: Iterable[Record], tiers: Mapping[str, Record | None]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of warnings.csv; those of a tier have no loader, those of bounds and tensors neither."""
    sources = [({key: record[key] for key in ("loader", "slug", "repeat", "tier")}, record) for record in records]
    for record in bounds:
        kind = "control run" if record["record"] == "bound" else record["record"]
        slug = f"{kind} {record['settings']['device']} batch {record['settings']['batch_size']}"
        sources.append(({"slug": slug, "repeat": record["repeat"]}, record))
    sources += [({"tier": name}, record) for name, record in tiers.items() if record]
    for place, record in sources:
        for warning in record.get("warnings") or []:
            yield place | ({"seen": warning} if isinstance(warning, str) else warning)


def _dataset(plan: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return dataset.json: what clips.json and corpus.json say, reasons of rejection by count, how it was measured."""
    reasons: Counter[str] = Counter()
    rejected = Path(root, "results", "corpus", plan["dataset"], "rejected.csv")
    if rejected.is_file():
        with open(rejected, encoding="utf-8", newline="") as file:
            reasons.update(row["reason"] for row in csv.DictReader(file))
    return {
        "dataset": plan["dataset"],
        "clips": _optional(root, "clips", plan["dataset"], "clips.json"),
        "corpus": _optional(root, "corpus", plan["dataset"], "corpus.json"),
        "rejected_reasons": [{"reason": reason, "clips": count} for reason, count in reasons.most_common(_REASONS)],
        "rejected_kinds": len(reasons),
        "config": {**plan["config"], "datasets": {plan["dataset"]: plan["config"]["datasets"][plan["dataset"]]}},
        "measure": plan["config"].get("measure"),
        "report": plan["config"].get("report"),
        "presets": plan.get("presets"),
        "sessions": _sessions(plan, root),
    }


def _sessions(plan: Mapping[str, Any], root: Path) -> list[Record]:
    """Return what the sessions said of themselves when they ended."""
    folder = Path(root, "results", "runs", plan["dataset"])
    return [read_json(path) for path in sorted(folder.glob("session-*.json"))]


def _host(records: Iterable[Record]) -> dict[str, Any]:
    """Return host.json: machines and commits of the code with their numbers of runs, versions, protocols, when."""
    hosts: Counter[str] = Counter()
    commits: Counter[str | None] = Counter()
    versions: dict[str, set[str]] = {}
    protocols, started = set(), []
    for record in records:
        if record["host"]:  # a run that was skipped has looked at none
            hosts[json.dumps(record["host"], sort_keys=True)] += 1
        commits[record.get("commit")] += 1
        protocols.add(record["protocol"])
        started.append(record["started"])
        for name, version in (record["versions"] or {}).items():
            versions.setdefault(name, set()).add(version or "absent")
    return {
        "hosts": [{"runs": count, "host": json.loads(text)} for text, count in hosts.most_common()],
        "versions": {name: sorted(found) for name, found in sorted(versions.items())},
        "commits": [{"runs": count, "commit": commit} for commit, count in commits.most_common()],
        "protocols": sorted(protocols),
        "first_started": min(started, default=None),
        "last_started": max(started, default=None),
    }


def main() -> None:
    """Write the tables of a plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json, as write_plan wrote it")
    parser.add_argument("--root", default=Path(), type=Path, help="folder that the plan's paths start from")
    parser.add_argument("--out", required=True, type=Path, help="folder of tables to write")
    arguments = parser.parse_args()
    make_tables(read_plan(arguments.plan), arguments.root, arguments.out)


if __name__ == "__main__":
    run_main(main)
