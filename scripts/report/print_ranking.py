"""Prints what to use, how sure that is, what it gives, and the table of the loaders.

feedrate ranking --tables results/tables/demo --reports report/index.html
"""

import argparse
import os
import sys
from pathlib import Path

from scripts.common.errors import run_main
from scripts.report.shown import shown_tables
from scripts.report.terminal import answer_lines, baseline_lines, machines_lines, ranking_lines


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", required=True, type=Path, help="folder of tables, such as results/tables/demo")
    options.add_argument("--all", action="store_true", help="print the tables of all scenarios, tiers and settings too")
    options.add_argument("--reports", nargs="*", default=[], help="paths to name at the end")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Print the verdict, the ranking, and where the reports are."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a sign shows "?"
    tables = shown_tables(arguments.tables)
    said = [*answer_lines(tables, colour), *(ranking_lines(tables, colour) if arguments.all else [])]
    said += baseline_lines(tables)
    print("\n".join([*said, *machines_lines(tables)]))
    if not arguments.all:
        print(f"All settings: feedrate ranking --all --tables {arguments.tables}")
    for path in arguments.reports:
        print(f"Report: {path}")


if __name__ == "__main__":
    run_main(lambda: main(parser().parse_args()))
