"""Rows that belong together, and what the speeds of runs come to."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pandas as pd

from scripts.common.statistics import spread


def grouped(rows: Iterable[Mapping[str, Any]], *names: str) -> list[list[Mapping[str, Any]]]:
    """Return lists of the rows that have the same values in these columns, in the order in which they first occur."""
    rows = list(rows)
    keys = pd.DataFrame([[row[name] for name in names] for row in rows], columns=names, dtype=object)
    same = keys.groupby(list(names), sort=False, dropna=False)
    return [[rows[place] for place in found.index] for _, found in same]


def speed_columns(speeds: Collection[float]) -> dict[str, Any]:
    """Return the columns that say what speeds of runs, in clips/s, come to; None of none."""
    middle = spread(speeds)
    return {
        "runs": len(speeds),
        "clips_per_second": middle and middle.median,
        "lowest": middle and middle.lowest,
        "highest": middle and middle.highest,
    }
