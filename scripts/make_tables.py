"""Gathers the records that the plan lists into tables: runs, ranking, bounds, formats, tiers, what is missing and why.

    python scripts/make_tables.py --plan results/runs/demo/plan.json --out results/tables/demo

The columns are described in docs/architecture.md. The folder appears whole or not at all.
"""

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ranking
from errors import UserError, run_main
from files import read_json, whole_directory, write_json
from measure.stats import spread
from run_records import planned_runs, read_plan, read_record, run_row, setting_columns
from tables import COLUMNS, DOCUMENTS, write_table

Record = dict[str, Any]
_REASONS = 50  # kinds of rejection that dataset.json names; the rest are in results/corpus/DS/rejected.csv


def make_tables(plan: Mapping[str, Any], root: Path, out: Path) -> None:
    """Write all tables of `plan`, whose records lie below `root`, into `out`, in place of what was there.

    Raises UserError where a record is broken or `out` holds files that are no tables.
    """
    _check_out(out)
    pairs = list(planned_runs(plan, root))
    bounds = [record for entry in plan["bounds"] if (record := read_record(root / entry["path"])) is not None]
    tiers = {name: _optional(root, "placed", plan["dataset"], f"{name}.json") for name in plan["tiers"]}
    bound_rows = list(_bound_rows(plan, bounds))
    runs = [run_row(entry, record) for entry, record in pairs]
    bound_of = partial(_bound_of, _warm_bounds(bound_rows))
    ranked = ranking.rank(ranking.results(runs) + _never_planned(plan), bound_of)
    records = [record for _, record in pairs if record]
    with whole_directory(out) as folder:
        write_table(folder, "runs", runs)
        write_table(folder, "ranking", ranked)
        write_table(folder, "best", ranking.best(ranked, bound_of))
        write_table(folder, "formats", _format_rows(plan, root))
        write_table(folder, "tiers", (_tier_row(name, record or {}) for name, record in tiers.items()))
        write_table(folder, "bounds", bound_rows)
        write_table(folder, "skipped", _skipped_rows(plan, runs))
        write_table(folder, "warnings", _warning_rows(records, bounds, tiers))
        write_json(folder / "dataset.json", _dataset(plan, root))
        write_json(folder / "host.json", _host(records))


def _check_out(out: Path) -> None:
    known = {f"{name}.csv" for name in COLUMNS} | {f"{name}.json" for name in DOCUMENTS}
    found = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    foreign = [name for name in found if name not in known and not name.startswith(".snakemake")]
    if foreign:
        raise UserError(
            f"--out {out}: found {foreign[0]!r} there, allowed is a folder of tables alone, since it is replaced as a "
            "whole. Name another folder, such as results/tables/demo."
        )


def _optional(root: Path, *parts: str) -> Record | None:
    path = Path(root, "results", *parts)
    return read_json(path) if path.is_file() else None


def _bound_rows(plan: Mapping[str, Any], bounds: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Yield the rows of bounds.csv: a row for each planned bound, without a speed where no measurement is ok."""
    speeds: dict[tuple[str, str, int], list[float]] = {}
    for entry in plan["bounds"]:
        speeds.setdefault((entry["bound"], entry["settings"]["device"], entry["settings"]["batch_size"]), [])
    for record in bounds:
        key = (record["bound"], record["settings"]["device"], record["settings"]["batch_size"])
        if record["status"] == "ok":
            speeds.setdefault(key, []).append(record["clips_per_second"])
    for (bound, device, batch_size), values in speeds.items():
        middle = spread(values)
        yield {
            **{"bound": bound, "device": device, "batch_size": batch_size, "runs": len(values)},
            "clips_per_second": middle and middle.median,
            "lowest": middle and middle.lowest,
            "highest": middle and middle.highest,
        }


def _warm_bounds(bound_rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], float]:
    """Return {(device, batch size): clips/s} of the measured warm bounds."""
    return {
        (row["device"], row["batch_size"]): row["clips_per_second"]
        for row in bound_rows
        if row["bound"] == "warm" and row["clips_per_second"]
    }


def _bound_of(warm: Mapping[tuple[str, int], float], row: Mapping[str, Any]) -> float | None:
    """Return the bound in clips/s that applies to a result; None where none was measured, as of a cold cache."""
    return warm.get((row["device"], row["batch_size"])) if row["cache"] == "warm" else None


def _never_planned(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row of the ranking for each loader that the plan skips and of which it plans no run at all."""
    planned = {entry["loader"] for entry in plan["runs"]}
    rows = [
        {**_plan_skip(entry), "task": "traverse", "cache": "warm", "format": "", "clips_per_second": None}
        | {"lowest": None, "highest": None, "first_batch_seconds": None, "runs": 0, "failed": 0, "warnings": 0}
        for entry in plan["skipped"]
        if entry["loader"] not in planned
    ]
    return [{**row, "about": ranking.about(row["loader"])} for row in rows]


def _plan_skip(entry: Mapping[str, Any]) -> dict[str, Any]:
    settings = entry["settings"] or {}
    columns = setting_columns(settings)
    return {
        **{key: entry[key] or "" for key in ("loader", "tier", "reason")},
        **columns,
        "device": columns["device"] or "",
        "slug": "-".join(str(value) for value in settings.values() if value is not None),
        "status": "skipped",
    }


def _skipped_rows(plan: Mapping[str, Any], runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of skipped.csv: what could not run; `repeats` counts the runs that share the reason."""
    keys = ("loader", "tier", "slug", "status", "reason")
    lost = [run for run in runs if run["status"] in ("skipped", "missing")]
    counts = Counter(tuple(run[key] for key in keys) for run in lost)
    for values, repeats in counts.items():
        yield {**dict(zip(keys, values, strict=True)), "repeats": repeats}
    for entry in plan["skipped"]:
        yield {**_plan_skip(entry), "repeats": None}


def _format_rows(plan: Mapping[str, Any], root: Path) -> Iterator[dict[str, Any]]:
    for name in plan["formats"]:
        record = _optional(root, "formats", plan["dataset"], f"{name}.json") or {}
        yield {**{key: record.get(key) for key in COLUMNS["formats"]}, "format": name}


def _tier_row(name: str, record: Record) -> dict[str, Any]:
    """Return the row of tiers.csv: MB/s, clips/s and ms as fio measured them, blank with a reason where it did not."""
    fio = record.get("fio") or {}
    sequential, random = fio.get("sequential") or {}, fio.get("random") or {}
    return {
        **{key: record.get(key) for key in COLUMNS["tiers"]},
        "tier": name,
        "sequential_megabytes_per_second": sequential.get("megabytes_per_second"),
        "random_clips_per_second": random.get("clips_per_second"),
        "random_latency_ms": random.get("mean_latency_ms"),
        "warnings": len(record.get("warnings") or []),
        "reason": record.get("reason") if record else "the tier was not profiled",
    }


def _warning_rows(
    records: Iterable[Record], bounds: Iterable[Record], tiers: Mapping[str, Record | None]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of warnings.csv; those of a tier have no loader, those of a bound neither loader nor tier."""
    sources = [({key: record[key] for key in ("loader", "tier", "slug", "repeat")}, record) for record in records]
    for record in bounds:
        slug = f"bound {record['bound']} {record['settings']['device']} batch {record['settings']['batch_size']}"
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
        "measure": plan["config"].get("measure"),
        "repeats": max((entry["repeat"] + 1 for entry in plan["runs"]), default=0),
    }


def _host(records: Iterable[Record]) -> dict[str, Any]:
    """Return host.json: each machine that took part with its number of runs, versions, protocols, and when (UTC)."""
    hosts: Counter[str] = Counter()
    versions: dict[str, set[str]] = {}
    protocols, started = set(), []
    for record in records:
        hosts[json.dumps(record["host"] or {}, sort_keys=True)] += 1
        protocols.add(record["protocol"])
        started.append(record["started"])
        for name, version in (record["versions"] or {}).items():
            versions.setdefault(name, set()).add(version or "absent")
    return {
        "hosts": [{"runs": count, "host": json.loads(text)} for text, count in hosts.most_common()],
        "versions": {name: sorted(found) for name, found in sorted(versions.items())},
        "protocols": sorted(protocols),
        "first_started": min(started, default=None),
        "last_started": max(started, default=None),
    }


def main() -> None:
    """Write the tables of a plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json, as plan.py wrote it")
    parser.add_argument("--root", default=Path(), type=Path, help="folder that the plan's paths start from")
    parser.add_argument("--out", required=True, type=Path, help="folder of tables to write")
    arguments = parser.parse_args()
    make_tables(read_plan(arguments.plan), arguments.root, arguments.out)


if __name__ == "__main__":
    run_main(main)
