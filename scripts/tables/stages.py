"""Rows of stages.csv: what each stage took of the way from a source to copies on the tiers.

Of fetching and decoding, whose jobs are one for each shard, what Snakemake's own measurement of a job says; of a format
and of a copy its record.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import reading
from scripts.common.files import read_json

Row = dict[str, Any]
FETCH, DECODE, WRITE, PLACE = "fetch", "decode", "write", "place"
OF_SHARDS = {FETCH: "fetch_clips", DECODE: "build_corpus"}  # rules with a job for each shard


def rows(plan: Mapping[str, Any], root: Path) -> Iterator[Row]:
    """Yield a row for each stage of the plan's data set that has run; none for those before a corpus that came ready.

    The record of a part of the items, which is measured first, counts where nothing was written of all of them.
    """
    dataset = plan["dataset"]
    for stage, rule in OF_SHARDS.items():
        jobs = [
            one for path in sorted((root / "results" / "logs" / dataset / rule).glob("*.tsv")) for one in _jobs(path)
        ]
        if jobs:
            seconds, busy = (sum(float(job[name]) for job in jobs) for name in ("s", "cpu_time"))
            yield {"stage": stage, "jobs": len(jobs), "seconds": seconds, "cpu_seconds": busy}
    for name in plan["formats"]:
        yield from _record(WRITE, root / "results" / "formats" / dataset, name)
    for tier in plan["tiers"]:
        for name in plan["formats"]:
            yield from _record(PLACE, root / "results" / "placed" / dataset / tier, name, tier)


def _jobs(path: Path) -> list[dict[str, str]]:
    """Return Snakemake's measurement of a job; of one that was too short for it, nothing."""
    with reading(path, "Snakemake"), open(path, encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file, delimiter="\t"))
    return [one for one in found if one["cpu_time"] not in ("NA", "")]


def _record(stage: str, folder: Path, format: str, tier: str = "") -> Iterator[Row]:
    for path in (folder / f"{format}.json", folder / "part" / f"{format}.json"):
        if path.is_file():
            with reading(path, "the workflow"):
                record = read_json(path)
            found = {name: record[name] for name in ("seconds", "bytes")}
            yield {"stage": stage, "tier": tier, "format": format, "jobs": 1, **found}
            return


def decoding_seconds(rows: list[Row]) -> float | None:
    """Return the seconds that decoding took, which all formats have in common; None where that is not known."""
    return next((row["seconds"] for row in rows if row["stage"] == DECODE), None)
