"""Prints the ranking on the terminal: the best settings of each loader and tier, what could not run, what to use.

feedrate ranking --tables results/tables/demo --reports report/index.html
"""

import argparse
import os
import sys
from pathlib import Path

from scripts.common.errors import run_main
from scripts.report.shown import shown_tables
from scripts.report.terminal import baseline_lines, machines_lines, ranking_lines, verdict_lines


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", required=True, type=Path, help="folder of tables, such as results/tables/demo")
    options.add_argument("--reports", nargs="*", default=[], help="paths to name at the end")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Print the ranking, the verdict, and where the reports are."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a sign shows "?"
    tables = shown_tables(arguments.tables)
    said = [*ranking_lines(tables, colour), *verdict_lines(tables, colour), *baseline_lines(tables)]
    print("\n".join([*said, *machines_lines(tables)]))
    for path in arguments.reports:
        print(f"Report: {path}")


if __name__ == "__main__":
    run_main(lambda: main(parser().parse_args()))
