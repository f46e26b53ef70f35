"""From runs to an answer: one result per loader, tier and settings, and the order in which they stand."""

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from scripts.common.counting import Run, counting, works_outside
from scripts.common.groups import RESULT, by_status, first_of, grouped, key_of, speed_columns
from scripts.common.scenarios import panel_of, scenario_order
from scripts.common.settings import IN_COLUMNS
from scripts.common.statistics import median_of, outliers
from scripts.common.vocabulary import COMPARED_KEYS, REASONS, STATUSES
from scripts.decide.rounds import FINAL_ERROR, OF_TWO, Center
from scripts.decide.sessions import Round, between, table_of
from scripts.decide.utilisation import TARGET_AU_PERCENT
from scripts.tables import bottlenecks, item_lines
from scripts.tables.columns import COLUMNS, TABLES, taken
from scripts.tables.records import setting_columns

Row = dict[str, Any]
_SAME = COLUMNS["ranking"][2 : COLUMNS["ranking"].index("runs")]  # what the runs of one result have in common
_OF_RUNS = {  # how a column of a result is made from those of its ok runs
    "median": median_of,
    "largest": lambda values: max((value for value in values if value is not None), default=None),
}
_CENTER = ("items_per_second", "interval_low", "interval_high")
_BESIDE = ("bottleneck_trials", "steps", "item_lines")  # what the record of one run has of a result
_BOTTLENECK = ("bottleneck", "bottleneck_percent", "evidence")


def run_row(entry: Mapping[str, Any], record: Mapping[str, Any] | None, emulated: Collection[str] = ()) -> Row:
    """Return the row of runs.csv for a planned run.

    No columns are its speeds without parts, `bottleneck_trials`, its trials with `steps`, the `item_lines` of a user's
    own Dataset, and what its loader `declared`. `emulated`: the tiers that are.
    """
    plan = {**entry, "emulated": entry["tier"] in emulated}
    row = taken("runs", plan=plan, record=record, settings=setting_columns((record or entry)["settings"]))
    if record is None and (code := entry.get("left_out")):
        row |= {"status": "skipped", "reason": REASONS[code].text, "reason_code": code, "warnings": 0}
    elif record is None:
        reason = "no record: the run was not made, or it broke off"
        row |= {"status": "missing", "reason": reason, "warnings": 0}
    return row | {key: (record or {}).get(key) for key in (*_BESIDE, "declared")}


def results(runs: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return one row per loader x tier x slug from rows of `counted`, as in runs.csv: of its ok runs, in items/s and s.

    One failed run makes the whole result failed, without a speed: a loader that is right four times in five delivers
    wrong data. `runs` counts the ok runs that count (scripts/common/counting.py), `left_out` the others, `failed` the
    failed ones, `disturbed` those that count all the same. `outliers` are counted, never dropped; None for fewer than
    five runs. No columns are `items`, those of an epoch, and `speeds`: the items/s of the runs that count, empty
    where the result has no speed, which `rank` compares.
    """
    return [_result(same) for same in grouped(runs, *RESULT).values()]


def counted(runs: Iterable[Row]) -> list[Row]:
    """Return the rows with `counts`, whether a run with a speed counts beside the others, and `works_outside`.

    Of a result of which one failed, all that have a speed do: they are in no comparison.
    """
    runs = list(runs)
    scenarios: dict[Any, dict[Any, dict[int, Run]]] = {}
    for same in grouped((run for run in runs if run["device"]), *RESULT).values():
        if all(run["status"] != "failed" for run in same):
            counting_runs = {
                _round(run): Run(run["items_per_second"], run["disturbed_percent"] or 0.0)
                for run in same
                if run["status"] == "ok"
            }
            scenarios.setdefault(scenario_order(same[0]), {})[key_of(same[0])] = counting_runs
    kept = {key: found for results in scenarios.values() for key, found in counting(results).items()}
    outside = {key for results in scenarios.values() for key in works_outside(results)}
    return [
        {
            **run,
            "counts": run["status"] == "ok" and (key_of(run) not in kept or _round(run) in kept[key_of(run)]),
            "works_outside": key_of(run) in outside,
        }
        for run in runs
    ]


def _round(run: Mapping[str, Any]) -> Round:
    return Round(run["session"] or "", run["repeat"])


def _result(runs: list[Mapping[str, Any]]) -> Row:
    status, same = by_status(runs, ("failed", "ok", "skipped", "missing"))
    ok = [run for run in runs if run["status"] == "ok"]
    counting_ok = [run for run in ok if run["counts"]]
    measured = counting_ok if status == "ok" else []
    speeds = {_round(run): run["items_per_second"] for run in measured}
    middle = table_of({0: speeds}).center(0) if speeds else Center(None, None, None)
    return {
        **{column: same[0][column] for column in _SAME},
        **speed_columns(list(speeds.values())),
        "items_per_second": middle.speed,
        "runs": len(counting_ok),
        "left_out": len(ok) - len(counting_ok),
        "sessions": len({run["session"] for run in counting_ok}),
        "failed": sum(run["status"] == "failed" for run in runs),
        "interval_low": middle.low,
        "interval_high": middle.high,
        "speeds": speeds,
        "items": median_of(run["items"] for run in measured),
        "steady_items_per_second": _steady(middle.speed, measured),
        "outliers": outliers(speeds.values()),
        "disturbed": sum(run["disturbed"] for run in counting_ok),
        **_of_runs(measured, ok),
        **{key: next((run[key] for run in ok if run[key]), None) for key in _BESIDE},
        "status": status,
        "reason": _reason(status, same, len(runs)),
        "reason_code": next((run["reason_code"] for run in same if run["reason_code"]), None),
        "warnings": sum(run["warnings"] or 0 for run in runs),
        "declared": _declared(runs),
    }


def _steady(speed: float | None, runs: list[Mapping[str, Any]]) -> float | None:
    """Return a result's speed without epoch starts; None where its runs do not know it."""
    steady = median_of(
        run["steady_items_per_second"] / run["items_per_second"] for run in runs if run["steady_items_per_second"]
    )
    return speed * steady if speed and steady else None


def _of_runs(runs: list[Mapping[str, Any]], ok: list[Mapping[str, Any]]) -> Row:
    """Return the columns of a result that their declarations make from its runs; None without any.

    What none of those that count has is that of all `ok` ones: what was found out besides is in the first.
    """
    found: Row = {}
    for column in TABLES["ranking"].columns:
        if column.over_runs:
            made = _OF_RUNS[column.over_runs]
            of_runs = made([run[column.of] for run in runs]) if runs else None
            found[column.name] = made([run[column.of] for run in ok]) if runs and of_runs is None else of_runs
    return found


def _reason(status: str, same: list[Mapping[str, Any]], made: int) -> str:
    if status == "ok":
        return "" if len(same) == made else f"{len(same)} of {made} runs have a speed"
    kinds: dict[str, str] = {}
    for run in same:
        if run["reason"]:
            kinds.setdefault(re.sub(r"[\d.,]+", "0", run["reason"]), run["reason"])  # those of one kind once
    return "; ".join(kinds.values())


def _declared(runs: Iterable[Mapping[str, Any]]) -> Row | None:
    """Return what the last of the runs noted of its loader; None where none did."""
    noted = (run for run in runs if run["declared"])
    return max(noted, key=itemgetter("started"), default={}).get("declared")


def with_about(rows: Iterable[Mapping[str, Any]], plan: Mapping[str, Any]) -> list[Row]:
    """Return `rows` with what is said of each loader: what its runs noted, of one that never ran what the plan did."""
    told = ((row, row.get("declared") or plan["loaders"][row["loader"]]) for row in rows)
    return [{**row, "declared": said, "about": said["about"]} for row, said in told]


def with_bottleneck(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return `rows` with the name of what holds each result back, its share of the time in percent, and the evidence;
    and of a user's own Dataset what an item's time goes to.

    Of a task with steps in which no parts were left out it is compute where AU is at least 90 %, else the waiting: what
    that is made of says the result that reads every byte with the same settings. Blank where it was not looked for.
    """
    return [
        {**row, **item_lines.columns(row), **dict(zip(_BOTTLENECK, item_lines.told(row, _held_back(row)), strict=True))}
        for row in rows
    ]


def _held_back(row: Mapping[str, Any]) -> tuple[str, float | None, str]:
    if row.get("bottleneck_trials"):
        return bottlenecks.name(row["bottleneck_trials"])
    if row.get("au_percent") is None:
        return "", None, ""
    compute = row["au_percent"]
    evidence = f"steps took {compute:.0f} % of the time"
    return ("compute", compute, evidence) if compute >= TARGET_AU_PERCENT else ("waiting", 100 - compute, evidence)


def with_sharing(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return `rows` with what one process gave times the ranks, where the same was measured in one, and the loss."""
    rows = list(rows)
    same = ("loader", "tier", *COMPARED_KEYS, *(name for name in IN_COLUMNS if name != "world"), "options")
    alone = {tuple(row[key] for key in same): row["items_per_second"] for row in rows if row["world"] == 1}
    found = []
    for row in rows:
        of_one = alone.get(tuple(row[key] for key in same)) if (row["world"] or 1) > 1 else None
        times = of_one * row["world"] if of_one and row["items_per_second"] else None
        loss = 100 * (1 - row["items_per_second"] / times) if times else None
        found.append({**row, "one_rank_times_world": times, "sharing_loss_percent": loss})
    return found


def rank(rows: Iterable[Mapping[str, Any]], of: Iterable[Mapping[str, Any]] | None = None) -> list[Row]:
    """Return `rows` in the order of their speeds, ranked within each scenario (tables.panel_of), without a speed
    last.

    `percent_of_bound` is by the row's `bound_items_per_second`, and blank where there is none.
    `rank` to `rank_high` is the rank interval: 1 + those significantly faster, to all less those significantly slower;
    single runs have none. `slower_low` and `slower_high` are the interval of `times_slower_than_best`, by ratios within
    rounds: the chance of any false difference in a scenario is at most 4 %, and 2 % where loaders are compared over
    all tiers beside it. Speeds are as of the mean round, also of what left early. `of`: rows that were ranked
    before, of which `rows` are some, chosen by their speeds: these stay, and the intervals are those of all of
    them, for what is chosen as the fastest of several is faster than it is by chance. Rows are not changed.
    """
    beside: dict[Any, list[Mapping[str, Any]]] = {}
    for row in of or ():
        beside.setdefault(_order(row)[:2], []).append(row)
    groups = groupby(sorted(rows, key=_order), key=lambda row: _order(row)[:2])
    return [row for place, same in groups for row in _ranked(list(same), beside.get(place))]


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return STATUSES.index(row["status"]), scenario_order(row), -(row["items_per_second"] or 0.0), key_of(row)


def _ranked(rows: list[Mapping[str, Any]], of: list[Mapping[str, Any]] | None) -> list[Row]:
    if rows[0]["status"] != "ok":
        blank = ("rank", "rank_high", "percent_of_bound", "times_slower_than_best", "slower_low", "slower_high")
        blank += ("between_sessions_percent", "all_between_sessions_percent")
        return [{**row, **dict.fromkeys(blank)} for row in rows]
    speeds = {key_of(row): row["speeds"] for row in of or rows}
    tiers = {row["tier"] for row in of or rows}
    table, spread = table_of(speeds, OF_TWO if len(tiers) > 1 else FINAL_ERROR), between(speeds)
    centers = {
        key_of(row): Center(*(row[name] for name in _CENTER)) if of else table.center(key_of(row)) for row in rows
    }
    ordered = sorted(rows, key=lambda row: -centers[key_of(row)].speed)
    fastest, ranked = key_of(ordered[0]), []
    for row in ordered:
        key, center = key_of(row), centers[key_of(row)]
        bounds = _as_of_the_mean_round(row, center.speed)
        bound = {**row, **bounds}.get("bound_items_per_second")
        slower = table.compare(fastest, key) if key != fastest else None
        first, last = table.rank_interval(key, centers)
        alone = len(rows) > 1 and row["runs"] == 1
        steady = row["steady_items_per_second"]
        ranked.append(
            {
                **row,
                **bounds,
                **dict(zip(_CENTER, center, strict=True)),
                "steady_items_per_second": steady and steady * center.speed / row["items_per_second"],
                "rank": None if alone else first,
                "rank_high": None if alone else last,
                "percent_of_bound": 100 * center.speed / bound if bound else None,
                "between_sessions_percent": spread.own[key],
                "all_between_sessions_percent": spread.pooled,
                "times_slower_than_best": slower.ratio if slower else 1.0,
                "slower_low": slower and slower.low,
                "slower_high": slower and slower.high,
            }
        )
    return ranked


def _as_of_the_mean_round(row: Mapping[str, Any], speed: float) -> dict[str, float]:
    """Return the bounds of a row that were measured in its own runs, as its `speed` is: as of the mean round."""
    if not row.get("bound_items_per_second"):
        return {}
    scale = speed / row["items_per_second"]
    own = {"ceiling_items_per_second"} if row.get("ceiling_items_per_second") else set()
    if row.get("bound") == "compute" or (row.get("bound") == "in_memory" and own):
        own.add("bound_items_per_second")
    return {name: row[name] * scale for name in own}


def best(ranking: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return of each loader x tier (x scenario) the row with the highest speed, ranked again among these.

    A setting that left the race after its first run stands behind those that stayed. Where none has a speed it is the
    first failed, missing or skipped row, so that every loader that was asked for is seen.
    """
    panelled = [{**row, "scenario": panel_of(row)} for row in ranking]
    stayed = sorted(panelled, key=lambda row: 2 if row["status"] != "ok" else int(row["runs"] == 1))
    return rank(first_of(stayed, "loader", "tier", "scenario").values(), panelled)
