"""What the rows of charts have in common, and their colours."""

from collections.abc import Mapping
from typing import Any

from scripts.common.groups import first_of, grouped  # for the charts
from scripts.common.scenarios import scenario_order
from scripts.common.vocabulary import TRAINING, ranks_of
from scripts.tables.columns import settings_text

INK, RULE, PAPER = "#1f2328", "#d0d7de", "#ffffff"  # render_report.py recolours these three in dark mode
DARK = "#6e7781"  # legible on light and on dark paper
# seaborn's palette for the colour-blind without its yellow and its pale pink, which white paper swallows
COLOURS = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#949494", "#ca9161", "#56b4e9")

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
Tables = Mapping[str, Any]  # what read_tables gives
Figure = Axes = Any  # of Matplotlib, which is imported inside functions


def tiers_of(tables: Tables) -> list[str]:
    """Return the tiers in the order of the plan."""
    return list(dict.fromkeys(row["tier"] for row in (*tables["tiers"], *tables["best"]) if row["tier"]))


def results(tables: Tables, name: str, column: str = "items_per_second") -> list[tuple[Row, dict[str, Any]]]:
    """Return the results of a table with a value in `column` that are no training, each with what rows say of it.

    By scenario and tier, and as they are in the table within these, which is the fastest first.
    """
    tiers = tiers_of(tables)
    found = [row for row in tables[name] if row[column] is not None and row["task"] not in TRAINING]
    found.sort(key=lambda row: (scenario_order(row), tiers.index(row["tier"])))
    return [(row, about(row, tiers)) for row in found]


def about(row: Row, tiers: list[str]) -> dict[str, Any]:
    """Return what a chart's row says of any result; `tier_number` gives its tier one colour in all charts."""
    names = {name: row[name] for name in ("scenario", "loader", "tier", "slug")}
    return {**names, "tier_number": tiers.index(row["tier"]), "settings": settings_text(row)}


def reading(row: Row) -> bool:
    """Return whether a result reads every byte in one process and computes nothing."""
    return row["task"] == "read" and not row["step_ms"] and ranks_of(row) == 1


def place(row: Row) -> str:
    """Return the device and the tier of a result as one name."""
    return f"{row['device'].upper()}, {row['tier']}"


def group_of(row: Row) -> str:
    """Return the scenario and the tier of a result as one name."""
    return f"{row['scenario']}, {row['tier']}"


def lines_of(rows: Rows, column: str) -> Rows:
    """Return rows, which are as `results` has them, as lines of two and more values of a column, by these.

    A line is of a loader, tier and scenario; of several rows with the same value it has the fastest.
    """
    lines = [first_of(same, column) for same in grouped(rows, "scenario", "tier", "loader").values()]
    return [line[value] for line in lines if len(line) > 1 for value in sorted(line)]
