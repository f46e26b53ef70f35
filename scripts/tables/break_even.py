"""Rows of break_even.csv: after how many epochs a faster format has paid for its conversion.

What a format costs to prepare is `seconds` of formats.csv alone: writing it from the corpus, once, on this machine.
What comes before is the same for all formats, and copying to a tier is not counted.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from scripts.common.statistics import compare

Row = dict[str, Any]
ALONE = "no other format was measured here"
CHEAPEST = "itself the cheapest to prepare"
SLOWER = "slower: it never pays"
UNTOLD = "not distinguishable in speed: whether it ever pays is not known"


def rows(best: Iterable[Mapping[str, Any]], formats: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield a row for each device, tier and format that was written and has a verified speed.

    `best`: rows as `ranking.best` gives them, with their `speeds`; those that traverse from a warm cache without a step
    count. `formats`: rows of formats.csv. A format stands for its fastest loader; an epoch reads all clips that were
    written. It is held against the cheapest to prepare, by medians, and the cheapest itself, where it is also the
    fastest, against the next cheapest: it pays at once (0 epochs). `break_even_epochs` is None with a reason where a
    format never pays, is itself the cheapest or alone, or cannot be told apart in speed.
    """
    written = {one["format"]: one for one in formats if one["seconds"] is not None and one["clips"]}
    measured = [row for row in best if _counts(row) and row["format"] in written]
    measured.sort(key=_where)
    for _, same in groupby(measured, key=_where):
        fastest: dict[str, Row] = {}
        for row in sorted(same, key=lambda row: -row["clips_per_second"]):
            fastest.setdefault(row["format"], _costs(row, written[row["format"]]))
        yield from _held_against(sorted(fastest.values(), key=_cost))


def _counts(row: Mapping[str, Any]) -> bool:
    return row["status"] == "ok" and (row["task"], row["cache"], row["step_ms"]) == ("traverse", "warm", 0)


def _where(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["device"], row["tier"]


def _cost(one: Row) -> tuple[float, float]:
    return one["prepare_seconds"], one["epoch_seconds"]


def _costs(row: Mapping[str, Any], written: Mapping[str, Any]) -> Row:
    names = {key: row[key] for key in ("device", "tier", "format", "loader", "slug", "speeds")}
    seconds = written["clips"] / row["clips_per_second"]
    return {**names, "prepare_seconds": written["seconds"], "epoch_seconds": seconds}


def _held_against(costs: list[Row]) -> Iterator[Row]:
    """Yield the rows of one device and tier, the cheapest to prepare first."""
    cheapest, *others = costs
    if not others:
        yield cheapest | {"break_even_epochs": None, "reason": ALONE}
    elif all(compare(cheapest["speeds"], other["speeds"]).faster for other in others):
        yield _pair(cheapest, others[0])
    else:
        yield cheapest | {"break_even_epochs": None, "reason": CHEAPEST}
    for other in others:
        yield _pair(other, cheapest)


def _pair(one: Row, other: Row) -> Row:
    columns = ("format", "loader", "prepare_seconds", "epoch_seconds")
    row = one | {f"against_{column}": other[column] for column in columns}
    found = compare(one["speeds"], other["speeds"])
    if not found.faster:
        return row | {"break_even_epochs": None, "reason": SLOWER if found.slower else UNTOLD}
    dearer, sooner = one["prepare_seconds"] - other["prepare_seconds"], other["epoch_seconds"] - one["epoch_seconds"]
    return row | {"break_even_epochs": max(0.0, dearer / sooner), "reason": ""}
