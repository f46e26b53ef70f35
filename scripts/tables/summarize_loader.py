"""Gathers one loader's runs with their summary into one file.

python -m scripts.tables.summarize_loader --plan results/runs/demo/plan.json --loader npy --out results/npy.json
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, nearest, run_main
from scripts.common.files import write_json
from scripts.tables import ranking
from scripts.tables.records import planned_runs, read_plan, run_row, tried

# What needs more than one loader's runs, and what stands in the records beside it.
_LEFT_OUT = (
    "about", "rank", "percent_of_bound", "times_slower_than_best", "slower_low", "slower_high", "speeds",
    "explained",
)  # fmt: skip


def summarize(plan: Mapping[str, Any], loader: str, root: Path) -> dict[str, Any]:
    """Return the loader's results (medians over runs, in clips/s and seconds) and every record the plan lists of it.

    Raises UserError for a loader that the plan does not name.
    """
    named = sorted({entry["loader"] for entry in (*plan["runs"], *plan["skipped"])})
    if loader not in named:
        raise UserError(
            f"--loader: found {loader!r}, the plan has {', '.join(named) or 'none'}.{nearest(loader, named)} "
            "Add it to `loaders` in config.yaml, or name one of these."
        )
    pairs = list(planned_runs(plan, root, loader))
    runs = (run_row(entry, record, plan["emulated"]) for entry, record in pairs)
    rows = ranking.rank(ranking.with_bottleneck(ranking.results(tried(runs))))
    return {
        "loader": loader,
        "dataset": plan["dataset"],
        "about": ranking.about(loader),
        "summary": [{key: value for key, value in row.items() if key not in _LEFT_OUT} for row in rows],
        "skipped": [entry for entry in plan["skipped"] if entry["loader"] == loader],
        "runs": [record for _, record in pairs if record],
    }


def main() -> None:
    """Write one loader's summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json, as plan.py wrote it")
    parser.add_argument("--loader", required=True, help="name of the loader")
    parser.add_argument("--root", default=Path(), type=Path, help="folder that the plan's paths start from")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    found = summarize(read_plan(arguments.plan), arguments.loader, arguments.root)
    write_json(arguments.out, found)
    for row in found["summary"]:
        if row["status"] == "failed":
            print(f"{row['loader']} on {row['tier']} ({row['slug']}) failed: {row['reason']}")


if __name__ == "__main__":
    run_main(main)
