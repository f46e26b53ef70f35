"""From runs to an answer: one result per loader, tier and settings, and the order in which they stand."""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

import plugins
from measure.stats import Spread, median_of, shared_ranks, spread
from tables import COLUMNS

Row = dict[str, Any]
Bound = Callable[[Mapping[str, Any]], float | None]
_SAME = COLUMNS["ranking"][1 : COLUMNS["ranking"].index("runs")]  # what the runs of one result have in common
_STATUSES = ("ok", "failed", "missing", "skipped")  # the order in which results stand


def results(runs: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return one row per loader x tier x slug from rows as in runs.csv: the medians of its ok runs, in clips/s and s.

    One failed run makes the whole result failed, without a speed: a loader that is right four times in five
    delivers wrong data. `runs` counts the ok runs, `failed` the failed ones.
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["loader"], run["tier"], run["slug"]), []).append(run)
    return [_result(group) for group in groups.values()]


def _result(runs: list[Mapping[str, Any]]) -> Row:
    by_status = {status: [run for run in runs if run["status"] == status] for status in _STATUSES}
    status = next(name for name in ("failed", "ok", "skipped", "missing") if by_status[name])
    speed = spread(run["clips_per_second"] for run in by_status["ok"]) if status == "ok" else None
    return {
        **{column: by_status[status][0][column] for column in _SAME},
        "runs": len(by_status["ok"]),
        "failed": len(by_status["failed"]),
        "clips_per_second": speed and speed.median,
        "lowest": speed and speed.lowest,
        "highest": speed and speed.highest,
        "first_batch_seconds": median_of(run["first_batch_seconds"] for run in by_status["ok"]) if speed else None,
        "cpu_seconds_per_1000_clips": median_of(run["cpu_seconds_per_1000_clips"] for run in by_status["ok"])
        if speed
        else None,
        "status": status,
        "reason": _reason(status, by_status, len(runs)),
        "warnings": sum(run["warnings"] or 0 for run in runs),
        "about": about(runs[0]["loader"]),
    }


def _reason(status: str, by_status: Mapping[str, list[Mapping[str, Any]]], planned: int) -> str:
    if status == "ok":
        ok = len(by_status["ok"])
        return "" if ok == planned else f"{ok} of {planned} planned runs are there"
    return "; ".join(dict.fromkeys(run["reason"] for run in by_status[status] if run["reason"]))


def about(loader: str) -> str:
    """Return the loader's one-line description, or an empty string for a loader that is no longer installed."""
    if loader not in plugins.names("loaders"):
        return ""
    module = plugins.load("loaders", loader)
    return plugins.describe(module) if module.__doc__ else ""


def rank(rows: Iterable[Mapping[str, Any]], bound_of: Bound) -> list[Row]:
    """Return `rows` in the order of their medians, ranked within each device and cache state, without a speed last.

    `bound_of` returns the bound in clips/s that applies to a row; `percent_of_bound` is blank where there is none.
    Rows are not changed.
    """
    ordered = sorted(rows, key=_order)
    ranked: list[Row] = []
    for _, same in groupby(ordered, key=lambda row: (_STATUSES.index(row["status"]), row["device"], row["cache"])):
        ranked += _ranked(list(same), bound_of)
    return ranked


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = (row["loader"], row["tier"], row["slug"])
    cold = row["cache"] != "warm"
    return _STATUSES.index(row["status"]), row["device"], cold, -(row["clips_per_second"] or 0.0), names


def _ranked(rows: list[Mapping[str, Any]], bound_of: Bound) -> list[Row]:
    blank = {"rank": None, "percent_of_bound": None, "times_slower_than_best": None}
    if rows[0]["status"] != "ok":
        return [{**row, **blank} for row in rows]
    spreads = [Spread(row["clips_per_second"], row["lowest"], row["highest"], row["runs"]) for row in rows]
    ranked = []
    for row, place in zip(rows, shared_ranks(spreads), strict=True):
        bound = bound_of(row)
        speed = row["clips_per_second"]
        percent = 100 * speed / bound if bound else None
        ranked.append(
            {**row, "rank": place, "percent_of_bound": percent, "times_slower_than_best": spreads[0].median / speed}
        )
    return ranked


def best(ranking: Iterable[Mapping[str, Any]], bound_of: Bound) -> list[Row]:
    """Return of each loader x tier (x device x cache state) the row with the highest median, ranked anew.

    Where none has a speed it is the first failed, missing or skipped row, so that every loader that was asked for
    is seen.
    """
    first: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in ranking:
        first.setdefault((row["loader"], row["tier"], row["device"], row["cache"]), row)
    return rank(first.values(), bound_of)
