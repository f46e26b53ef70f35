"""Compares a session with an earlier one on the same machine: what got slower, faster, is new or gone.

    feedrate compare --tables results/tables/demo --baseline saved/demo --limit 5
    feedrate compare before.json after.json                                   # a training before and after a change
    feedrate compare before.json after.json --tables results/tables/demo      # with what the session predicted

Ends with status 1 where a result got significantly slower by more than --limit percent, or lost its speed; of two
attach.json where the training got slower by more than 3 %.
"""

import argparse
import sys
from math import inf
from pathlib import Path

from scripts.attach import before_after
from scripts.common.errors import UserError
from scripts.report.changes import changes, comparison_lines, worse
from scripts.report.others import read_baseline
from scripts.report.shown import shown_tables


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "files", nargs="*", type=Path, metavar="ATTACH.JSON", help="two of a training, the earlier first"
    )
    options.add_argument("--tables", type=Path, help="folder of tables, such as results/tables/demo")
    options.add_argument("--baseline", type=Path, help="a copy of such a folder, of an earlier session")
    options.add_argument(
        "--limit", type=float, default=inf, help="percent slower that is too much (default: nothing is)"
    )
    return options


def _trainings(arguments: argparse.Namespace) -> int:
    """Print how a training changed; return 1 where it got slower."""
    if len(arguments.files) != 2:
        raise UserError(f"found {len(arguments.files)} file, allowed are two: feedrate compare before.json after.json")
    before, after = map(before_after.read, arguments.files)
    training = shown_tables(arguments.tables)["verdict"]["training"] if arguments.tables else None
    print("\n".join(before_after.lines(before, after, training)))
    return int(before_after.slower(before, after))


def main(arguments: argparse.Namespace) -> None:
    """Print what changed, and fail where something got worse."""
    if arguments.files:
        sys.exit(_trainings(arguments))
    if not arguments.tables or not arguments.baseline:
        raise UserError("found neither two attach.json nor --tables and --baseline. Type feedrate compare --help.")
    tables, baseline = shown_tables(arguments.tables), read_baseline(arguments.baseline)
    print("\n".join(comparison_lines(tables, baseline)))
    bad = worse(changes(tables, baseline), arguments.limit) if arguments.limit < inf else []
    for one in bad:
        print(f"error: {one.loader} on {one.tier} ({one.settings}): {one.text}", file=sys.stderr)
    sys.exit(1 if bad else 0)
