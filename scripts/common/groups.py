"""Rows that belong together, what names a result among them, and what the speeds of runs come to."""

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

from scripts.common.statistics import median_of

RESULT = ("loader", "tier", "slug")  # what names a result
key_of = itemgetter(*RESULT)


def grouped(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[Any, list[Any]]:
    """Return rows by the value of a column, or the values of several, in the order in which those first occur."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        found.setdefault(itemgetter(*names)(row), []).append(row)
    return found


def first_of(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[Any, Any]:
    """Return the first row of each of these groups."""
    return {value: same[0] for value, same in grouped(rows, *names).items()}


def names_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that name the result of a row."""
    return {name: row[name] for name in RESULT}


def speed_columns(speeds: Collection[float]) -> dict[str, Any]:
    """Return the columns that say what speeds of runs, in items/s, come to; None of none."""
    return {
        "runs": len(speeds),
        "items_per_second": median_of(speeds),
        "lowest": min(speeds, default=None),
        "highest": max(speeds, default=None),
    }


def by_status(rows: Iterable[Mapping[str, Any]], statuses: Iterable[str]) -> tuple[str, list[Any]]:
    """Return the first of `statuses` that a row has, and the rows that have it."""
    found = grouped(rows, "status")
    status = next(status for status in statuses if status in found)
    return status, found[status]
