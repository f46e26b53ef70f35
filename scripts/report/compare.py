"""Compares a session with an earlier one on the same machine: what got slower, faster, is new or gone.

    feedrate compare --tables results/tables/demo --baseline saved/demo --limit 5

Ends with status 1 where a result got significantly slower by more than --limit percent, or lost its speed.
"""

import argparse
import sys
from math import inf
from pathlib import Path

from scripts.report.changes import changes, comparison_lines, worse
from scripts.report.others import read_baseline
from scripts.report.shown import shown_tables


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", required=True, type=Path, help="folder of tables, such as results/tables/demo")
    options.add_argument("--baseline", required=True, type=Path, help="a copy of such a folder, of an earlier session")
    options.add_argument(
        "--limit", type=float, default=inf, help="percent slower that is too much (default: nothing is)"
    )
    return options


def main(arguments: argparse.Namespace) -> None:
    """Print what changed, and fail where something got worse."""
    tables, baseline = shown_tables(arguments.tables), read_baseline(arguments.baseline)
    print("\n".join(comparison_lines(tables, baseline)))
    bad = worse(changes(tables, baseline), arguments.limit) if arguments.limit < inf else []
    for one in bad:
        print(f"error: {one.loader} on {one.tier} ({one.settings}): {one.text}", file=sys.stderr)
    sys.exit(1 if bad else 0)
