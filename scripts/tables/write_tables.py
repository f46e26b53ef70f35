"""From a plan and its facts to all tables, and the verdict that they give."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts.common.facts import kept, shown_by_group
from scripts.common.files import read_json, write_json
from scripts.common.groups import grouped
from scripts.decide.verdict import verdict
from scripts.tables import (
    bottlenecks,
    bounds as bounds_of,
    break_even,
    drift,
    item_lines,
    ladder,
    latency,
    ranking,
    spans,
    stages,
    stationary,
    tensors as tensors_table,
    training,
    transformed,
)
from scripts.tables.chain import chain, optional, skipped_row
from scripts.tables.columns import COLUMNS, DOCUMENTS, read_tables, result_key, taken, write_table
from scripts.tables.records import read_record, tried

Record = dict[str, Any]
_REASONS = 50  # kinds of rejection that dataset.json names; the rest are in results/corpus/DS/rejected.csv


def write_tables(
    plan: Mapping[str, Any], root: Path, folder: Path, write: Callable[[Record], None] = lambda _record: None
) -> None:
    """Write all tables and documents of `plan`, whose records are below `root`, into `folder`; give each record to
    `write`.
    """
    made = chain(plan, root, write=write)
    records = [record for record in made.records if record]
    tensors = [record for entry in plan["tensors"] if (record := read_record(root / entry["path"])) is not None]
    for record in (*made.control, *tensors):
        write(record)
    emulated, storage = plan["emulated"], plan["config"]["storage"]
    of_runs = list(zip(made.runs, made.records, strict=True))
    best, noise = ranking.best(made.ranking), drift.noise_rows(made.control)
    written = [
        {
            **taken("formats", plan={"format": name}, record=record),
            "fits_cache": bounds_of.fits_cache(made.measured_bytes(name), made.control),
        }
        for name, record in made.formats.items()
    ]
    tables: dict[str, Iterable[Mapping[str, Any]]] = {
        "runs": made.runs,
        "ranking": made.ranking,
        "best": best,
        "training": training.cost_rows(made.ranking),
        "seconds": training.seconds_rows(made.runs),
        "formats": written,
        "stages": stages.rows(plan, root),
        "break_even": break_even.rows(best, written),
        "transforms": transformed.rows(made.ranking),
        "ladder": ladder.rows(plan, made.ranking),
        "latencies": latency.rows(of_runs),
        "spans": spans.rows(of_runs),
        "tiers": [
            _tier_row({"tier": name, "emulated": name in emulated, "tier_kind": storage[name]["kind"]}, record)
            for name, record in made.tiers.items()
        ],
        "bounds": [*made.bounds, *bounds_of.decode_rows(made.results)],
        "parts": bottlenecks.rows(made.results),
        "item_lines": item_lines.rows(made.results),
        "tensors": tensors_table.rows(tensors),
        "skipped": _skipped_rows(made.skipped, tried(made.runs)),
        "noise": noise,
        "warnings": [
            *_warning_rows(records, [*made.control, *tensors], made.tiers),
            *drift.warning_rows(noise),
            *stationary.warning_rows(of_runs),
        ],
    }
    for name in COLUMNS:
        write_table(folder, name, tables[name])
    write_json(folder / "dataset.json", _dataset(plan, root))
    write_json(folder / "host.json", _host(records))
    write_json(folder / "declared.json", {result_key(row): row["declared"] for row in made.ranking})
    write_json(folder / "verdict.json", verdict(read_tables(folder, [one for one in DOCUMENTS if one != "verdict"])))


def verdict_of(plan: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the verdict of what is measured so far."""
    with TemporaryDirectory() as folder:
        write_tables(plan, root, Path(folder))
        return read_json(Path(folder, "verdict.json"))


def _skipped_rows(skipped: Iterable[Mapping[str, Any]], runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of skipped.csv: what could not run; `repeats` counts the runs that share the reason."""
    lost = [run for run in runs if run["status"] in ("skipped", "missing")]
    for same in grouped(lost, "loader", "tier", "slug", "status", "reason").values():
        yield {**same[0], "repeats": len(same)}
    yield from map(skipped_row, skipped)


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
    """Return dataset.json: what clips.json and corpus.json say, reasons of rejection by count, how it was measured.

    `sessions` are those that the tables show, `kept` what else was measured once: nothing deletes that.
    """
    shown = list(dict.fromkeys(one for sessions in shown_by_group(plan, root).values() for one in sessions))
    reasons: Counter[str] = Counter()
    rejected = Path(root, "results", "corpus", plan["dataset"], "rejected.csv")
    if rejected.is_file():
        with open(rejected, encoding="utf-8", newline="") as file:
            reasons.update(row["reason"] for row in csv.DictReader(file))
    return {
        "dataset": plan["dataset"],
        "clips": optional(root, "clips", plan["dataset"], "clips.json"),
        "corpus": optional(root, "corpus", plan["dataset"], "corpus.json"),
        "rejected_reasons": [{"reason": reason, "items": count} for reason, count in reasons.most_common(_REASONS)],
        "rejected_kinds": len(reasons),
        "config": {**plan["config"], "datasets": {plan["dataset"]: plan["config"]["datasets"][plan["dataset"]]}},
        "given": plan["given"],
        "call_options": plan.get("call_options", []),
        "measure": plan["config"].get("measure"),
        "report": plan["config"].get("report"),
        "presets": plan["presets"],
        "part": (plan.get("part") or {}).get("items"),  # that were measured first; None: all were at once
        "sessions": [session.state for session in shown],
        "kept": list(kept(plan, root, shown)),
    }


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
