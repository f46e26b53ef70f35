"""From runs to an answer: one result per loader, tier and settings, and the order in which they stand."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from math import inf
from typing import Any

from scripts.common import plugins
from scripts.common.statistics import compare, interval, median_of, outliers, shared_ranks, spread
from scripts.tables import bottlenecks
from scripts.tables.columns import COLUMNS, MEMORY, panel_of, panel_order

Row = dict[str, Any]
_SAME = COLUMNS["ranking"][1 : COLUMNS["ranking"].index("runs")]  # what the runs of one result have in common
_MEDIANS = ("first_batch_seconds", "cpu_seconds_per_1000_clips", "au_percent", "step_limit_ms")
_BOTTLENECK = ("bottleneck", "bottleneck_percent", "evidence")
FED_PERCENT = 90.0  # AU from which a training waits for its own steps alone
_STATUSES = ("ok", "failed", "missing", "skipped")  # the order in which results stand


def results(runs: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return one row per loader x tier x slug from rows as in runs.csv: the medians of its ok runs, in clips/s and s.

    One failed run makes the whole result failed, without a speed: a loader that is right four times in five
    delivers wrong data. `runs` counts the ok runs, `failed` the failed ones, `disturbed` the ok ones that something
    else on the machine disturbed. `outliers` are counted, never dropped; None for fewer than five runs. `speeds` is no
    column: the ok runs' clips/s, empty where the result has no speed, which `rank` compares.
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["loader"], run["tier"], run["slug"]), []).append(run)
    return [_result(group) for group in groups.values()]


def _result(runs: list[Mapping[str, Any]]) -> Row:
    by_status = {status: [run for run in runs if run["status"] == status] for status in _STATUSES}
    status = next(name for name in ("failed", "ok", "skipped", "missing") if by_status[name])
    speeds = [run["clips_per_second"] for run in by_status["ok"]] if status == "ok" else []
    speed, middle = spread(speeds), interval(speeds)
    return {
        **{column: by_status[status][0][column] for column in _SAME},
        "runs": len(by_status["ok"]),
        "failed": len(by_status["failed"]),
        "clips_per_second": speed and speed.median,
        "lowest": speed and speed.lowest,
        "highest": speed and speed.highest,
        "interval_low": middle and middle.low,
        "interval_high": middle and middle.high,
        "speeds": speeds,
        "outliers": outliers(speeds),
        "disturbed": sum(run["disturbed"] for run in by_status["ok"]),
        **{column: median_of(run[column] for run in by_status["ok"]) if speed else None for column in _MEDIANS},
        "shortest_step_ms": _shortest_step(by_status["ok"]) if speed else None,
        **{column: _largest(by_status["ok"], column) if speed else None for column in MEMORY},
        "explained": bottlenecks.middle([run["explained"] for run in by_status["ok"] if run["explained"]]),
        "status": status,
        "reason": _reason(status, by_status, len(runs)),
        "warnings": sum(run["warnings"] or 0 for run in runs),
        "about": about(runs[0]["loader"]),
    }


def _reason(status: str, by_status: Mapping[str, list[Mapping[str, Any]]], planned: int) -> str:
    if status == "ok":
        ok = len(by_status["ok"])
        return "" if ok == planned else f"{ok} of {planned} planned runs are there"
    kinds: dict[str, str] = {}
    for run in by_status[status]:
        if run["reason"]:
            kinds.setdefault(re.sub(r"[\d.,]+", "0", run["reason"]), run["reason"])  # those of one kind once
    return "; ".join(kinds.values())


def about(loader: str) -> str:
    """Return the loader's one-line description, or an empty string for a loader that is no longer installed."""
    if loader not in plugins.names("loaders"):
        return ""
    module = plugins.load("loaders", loader)
    return plugins.describe(module) if module.__doc__ else ""


def _largest(runs: Iterable[Mapping[str, Any]], column: str) -> float | None:
    return max((run[column] for run in runs if run[column] is not None), default=None)


def _shortest_step(runs: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the median of the shortest steps; None where none was looked for, or the median lies above the limit."""
    looked = [run for run in runs if run["step_limit_ms"] is not None]
    middle = median_of(inf if run["shortest_step_ms"] is None else run["shortest_step_ms"] for run in looked)
    return None if middle == inf else middle


def with_bottleneck(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return `rows` with the name of what holds each result back, its share of the time in percent, and the evidence.

    Of a task with steps in which no parts were left out it is compute where AU is at least 90 %, else the feeding: what
    that is made of says the result that traverses with the same settings. Blank where it was not looked for.
    """
    return [{**row, **dict(zip(_BOTTLENECK, _held_back(row), strict=True))} for row in rows]


def _held_back(row: Mapping[str, Any]) -> tuple[str, float | None, str]:
    if row.get("explained"):
        return bottlenecks.name(row["explained"])
    if row.get("au_percent") is None:
        return "", None, ""
    compute = row["au_percent"]
    evidence = f"steps took {compute:.0f} % of the time"
    return ("compute", compute, evidence) if compute >= FED_PERCENT else ("feeding", 100 - compute, evidence)


def rank(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return `rows` in the order of their medians, ranked within each panel (tables.panel_of), without a speed last.

    `percent_of_bound` is by the row's `bound_clips_per_second`, and blank where there is none.
    `slower_low` and `slower_high` are the 99 % interval of `times_slower_than_best`: a row whose interval holds 1
    cannot be told from the best. Blank for the best itself, and where one of the two is a single run. Rows are not
    changed.
    """
    ordered = sorted(rows, key=_order)
    ranked: list[Row] = []
    for _, same in groupby(ordered, key=lambda row: (_STATUSES.index(row["status"]), panel_order(row))):
        ranked += _ranked(list(same))
    return ranked


def tied_with_best(row: Mapping[str, Any]) -> bool:
    """Return whether a row of `rank` cannot be told from the best of its panel, or is the best."""
    return row["rank"] == 1 or (row["slower_low"] is not None and row["slower_low"] <= 1)


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = (row["loader"], row["tier"], row["slug"])
    return _STATUSES.index(row["status"]), panel_order(row), -(row["clips_per_second"] or 0.0), names


def _ranked(rows: list[Mapping[str, Any]]) -> list[Row]:
    if rows[0]["status"] != "ok":
        blank = ("rank", "percent_of_bound", "times_slower_than_best", "slower_low", "slower_high")
        return [{**row, **dict.fromkeys(blank)} for row in rows]
    leader = rows[0]
    ranked = []
    for row, place in zip(rows, shared_ranks([row["speeds"] for row in rows]), strict=True):
        bound, speed = row.get("bound_clips_per_second"), row["clips_per_second"]
        slower = compare(leader["speeds"], row["speeds"]) if row is not leader else None
        ranked.append(
            {
                **row,
                "rank": place,
                "percent_of_bound": 100 * speed / bound if bound else None,
                "times_slower_than_best": leader["clips_per_second"] / speed,
                "slower_low": slower and slower.low,
                "slower_high": slower and slower.high,
            }
        )
    return ranked


def best(ranking: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return of each loader x tier (x panel) the row with the highest median, ranked anew.

    Where none has a speed it is the first failed, missing or skipped row, so that every loader that was asked for
    is seen.
    """
    first: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in ranking:
        first.setdefault((row["loader"], row["tier"], panel_of(row)), row)
    return rank(first.values())
