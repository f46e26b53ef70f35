"""Compares a session with an earlier one on the same machine: what got slower, faster, is new or gone.

    python -m scripts.report.compare --tables results/tables/demo --baseline saved/demo --limit 5

Ends with status 1 where a result got surely slower by more than --limit percent, or lost its speed.
"""

import argparse
import sys
from math import inf
from pathlib import Path

from scripts.common.errors import run_main
from scripts.report.changes import changes, comparison_lines, worse
from scripts.report.others import read_baseline
from scripts.report.shown import shown_tables


def main() -> None:
    """Print what changed, and fail where something got worse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", required=True, type=Path, help="folder that make_tables.py wrote")
    parser.add_argument("--baseline", required=True, type=Path, help="a copy of such a folder, of an earlier session")
    parser.add_argument(
        "--limit", type=float, default=inf, help="percent slower that is too much (default: nothing is)"
    )
    arguments = parser.parse_args()
    tables, baseline = shown_tables(arguments.tables), read_baseline(arguments.baseline)
    print("\n".join(comparison_lines(tables, baseline)))
    bad = worse(changes(tables, baseline), arguments.limit) if arguments.limit < inf else []
    for one in bad:
        print(f"error: {one.loader} on {one.tier} ({one.settings}): {one.text}", file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    run_main(main)
