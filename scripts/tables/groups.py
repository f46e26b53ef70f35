"""Rows that belong together, and what the speeds of runs come to."""

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

from scripts.common.statistics import spread


def grouped(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[Any, list[Any]]:
    """Return rows by the value of a column, or the values of several, in the order in which those first occur."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        found.setdefault(itemgetter(*names)(row), []).append(row)
    return found


def first_of(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[Any, Any]:
    """Return the first row of each of these groups."""
    return {value: same[0] for value, same in grouped(rows, *names).items()}


def speed_columns(speeds: Collection[float]) -> dict[str, Any]:
    """Return the columns that say what speeds of runs, in items/s, come to; None of none."""
    middle = spread(speeds)
    return {
        "runs": len(speeds),
        "items_per_second": middle and middle.median,
        "lowest": middle and middle.lowest,
        "highest": middle and middle.highest,
    }
