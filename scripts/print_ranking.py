"""Prints the ranking on the terminal: the best settings of each loader and tier, what could not run, where to read on.

python scripts/print_ranking.py --tables results/tables/demo --reports report/index.html
"""

import argparse
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from errors import run_main
from tables import number_text, panels, read_tables

WIDTH = 100  # columns; nothing printed is wider
_HEADS = ("rank", "loader", "tier", "settings", "clips/s", "lowest - highest", "of bound", "first s")
_TEXTS = (1, 2, 3)  # columns that are cut where a line would be too long
_NUMBERS = (0, 4, 5, 6, 7)  # columns that stand on the right
_BOLD, _RED, _PLAIN = "\033[1m", "\033[31m", "\033[0m"

Row = Mapping[str, Any]


def ranking_lines(tables: Mapping[str, Any], colour: bool) -> list[str]:
    """Return the lines to print, at most WIDTH columns each; ANSI codes only where `colour` is true."""
    lines: list[str] = []
    best = tables["best"]
    names = panels(best)
    for panel in names:
        rows = [row for row in best if row["panel"] == panel]
        lines += [f"{panel}, data set {_clean(tables['dataset']['dataset'])}", *_table(rows, colour), ""]
    if not names:
        lines += ["The plan has no run that could be ranked.", ""]
    lines += _caveats(best)
    lines += _reasons(
        "failed", ((_place(row), row["reason"]) for row in tables["ranking"] if row["status"] == "failed")
    )
    for status in ("missing", "skipped"):
        lost = [row for row in tables["skipped"] if row["status"] == status]
        lines += _reasons(status, ((_place(row), row["reason"]) for row in lost))
    return lines


def _table(rows: Sequence[Row], colour: bool) -> list[str]:
    ties = [row["rank"] for row in rows]
    cells = [_HEADS, *(_cells(row, ties) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADS))]
    while sum(widths) + len(widths) - 1 > WIDTH:
        widths[max(_TEXTS, key=lambda column: widths[column])] -= 1
    lines = []
    for line, row in zip(cells, [None, *rows], strict=True):
        texts = [_cut(text, width) for text, width in zip(line, widths, strict=True)]
        padded = (
            text.rjust(width) if column in _NUMBERS else text.ljust(width)
            for column, (text, width) in enumerate(zip(texts, widths, strict=True))
        )
        code = _BOLD if row is None or row["rank"] == 1 else _RED if row["status"] == "failed" else ""
        text = " ".join(padded).rstrip()
        lines.append(f"{code}{text}{_PLAIN}" if colour and code else text)
    return lines


def _cells(row: Row, ties: Sequence[int | None]) -> tuple[str, ...]:
    names = (_clean(row["loader"]), _clean(row["tier"]) or "-", _clean(row["slug"]).removeprefix(f"{row['device']}-"))
    if row["status"] != "ok":
        return ("-", *names, row["status"], "", "", "")
    percent = row["percent_of_bound"]
    return (
        f"{row['rank']}{'=' if ties.count(row['rank']) > 1 else ''}",
        *names,
        number_text(row["clips_per_second"]),
        "1 run" if row["runs"] == 1 else f"{number_text(row['lowest'])} - {number_text(row['highest'])}",
        "-" if percent is None else f"{number_text(percent, 2)} %",
        number_text(row["first_batch_seconds"]) or "-",
    )


def _caveats(best: Sequence[Row]) -> list[str]:
    runs = [row["runs"] for row in best if row["status"] == "ok"]
    if not runs:
        return ["No loader has a verified speed.", ""]
    text = "Medians. Equal ranks (=) are not distinguishable." if max(runs) > 1 else "Single runs."
    if min(runs) < 5:
        text += " Fewer than 5 runs: not fit to publish; set measure.repeats: 5 in config.yaml."
    return [*textwrap.wrap(text, WIDTH), ""]


def _place(row: Row) -> str:
    return " on ".join(filter(None, (_clean(row["loader"]), _clean(row["tier"]))))


def _reasons(status: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of one status: each reason once, with the loaders that share it."""
    groups: dict[str, list[str]] = {}
    for place, reason in pairs:
        groups.setdefault(_clean(reason), []).append(place)
    if not groups:
        return []
    lines = [f"{status}:"]
    for reason, places in groups.items():
        text = f"{', '.join(dict.fromkeys(places))}: {reason}"
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [*lines, ""]


def _clean(text: str) -> str:
    """Return `text` without line breaks and control codes, which a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in text.replace("\n", " "))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."


def main() -> None:
    """Print the ranking and where the reports lie."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", required=True, type=Path, help="folder that make_tables.py wrote")
    parser.add_argument("--reports", nargs="*", default=[], help="paths to name at the end")
    arguments = parser.parse_args()
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a sign shows "?"
    print("\n".join(ranking_lines(read_tables(arguments.tables), colour)))
    for path in arguments.reports:
        print(f"Report: {path}")


if __name__ == "__main__":
    run_main(main)
