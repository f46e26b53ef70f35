"""Gathers one loader's runs, each with the summary of its result, into one file that pandas.read_json reads as a table.

python -m scripts.tables.summarize_loader --plan results/runs/demo/plan.json --loader npy --out results/npy.json
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, nearest, run_main
from scripts.common.files import write_json
from scripts.common.groups import key_of
from scripts.common.plan_file import read_plan
from scripts.tables.chain import chain
from scripts.tables.columns import COLUMNS
from scripts.tables.records import setting_columns

_COMPARED = ("about", "bound", "bound_items_per_second", "percent_of_bound")
_COMPARED += ("times_slower_than_best", "slower_low", "slower_high")
# The columns of a result, without what names it and what needs more than one loader's runs.
_SUMMARY = tuple(
    column for column in COLUMNS["ranking"][COLUMNS["ranking"].index("slug") + 1 :] if column not in _COMPARED
)


def summarize(plan: Mapping[str, Any], loader: str, root: Path) -> list[dict[str, Any]]:
    """Return a row for each run that the plan lists of a loader, in items/s and seconds, and for each that it skips.

    A row has `dataset`, the columns of runs.csv, those of its result (medians over its runs) after `result_`, and
    `path`, the file of the record. Raises UserError for a loader that the plan does not name.
    """
    named = sorted({entry["loader"] for entry in (*plan["results"], *plan["skipped"])})
    if loader not in named:
        raise UserError(
            f"--loader: found {loader!r}, the plan has {', '.join(named) or 'none'}.{nearest(loader, named)} "
            "Add it to `loaders` in config.yaml, or name one of these."
        )
    made = chain(plan, root, of={row["id"] for row in plan["results"] if row["loader"] == loader})
    results = {key_of(row): row for row in made.ranking if row["loader"] == loader}
    return [
        {"dataset": plan["dataset"], **{column: run[column] for column in COLUMNS["runs"]}}
        | {f"result_{column}": results[key_of(run)].get(column) for column in _SUMMARY}
        | {"path": run["path"]}
        for run in made.runs
        if key_of(run) in results
    ] + [_skipped(entry, plan) for entry in plan["skipped"] if entry["loader"] == loader]


def _skipped(entry: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "dataset": plan["dataset"],
        "loader": entry["loader"],
        "tier": entry["tier"] or "",
        "emulated": entry["tier"] in plan["emulated"],
    }
    return names | setting_columns(entry["settings"] or {}) | {"status": "skipped", "reason": entry["reason"]}


def failures(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each result that failed."""
    failed = {key_of(row): row for row in rows if row.get("result_status") == "failed"}
    return [
        f"{loader} on {tier} ({slug}) failed: {row['result_reason']}" for (loader, tier, slug), row in failed.items()
    ]


def main() -> None:
    """Write one loader's runs. Ends with status 1 where it was asked for alone and no result of it has a speed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json, as the workflow wrote it")
    parser.add_argument("--loader", required=True, help="name of the loader")
    parser.add_argument("--root", default=Path(), type=Path, help="folder that the plan's paths start from")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--must-have-speed", action="store_true", help="end with status 1 where no result has a speed")
    arguments = parser.parse_args()
    rows = summarize(read_plan(arguments.plan), arguments.loader, arguments.root)
    write_json(arguments.out, rows)
    for line in failures(rows):
        print(line)
    if arguments.must_have_speed and not any(row["status"] == "ok" for row in rows):
        reasons = dict.fromkeys(row["reason"] for row in rows)
        sys.exit("\n".join(f"error: {arguments.loader} has no speed: {reason}" for reason in reasons))


if __name__ == "__main__":
    run_main(main)
