"""For each goal the result to use, and those that it cannot be told from: one winner does not serve all.

The fastest may take all memory, or need a conversion that a short project never earns.
"""

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

from scripts.common.groups import first_of
from scripts.common.statistics import compare
from scripts.decide import rounds
from scripts.decide.panel import (
    asked,
    compared,
    in_memory,
    in_random_order,
    key,
    main_panel,
    speeds_of,
    with_speed,
)

SLOWEST = 2.0  # times slower than the fastest: beyond it, little memory recommends nothing

Row = Mapping[str, Any]
Rows = Sequence[Row]
Tables = Mapping[str, Any]
Goal = dict[str, Any]


def expense(tables: Tables, row: Row) -> tuple[Any, ...]:
    """Return what makes one of several results the cheaper one, what counts most first.

    Copies of the data in memory, batches that do not last, processes and threads, CPU time, memory.
    """
    return (
        in_memory(tables, row["tier"]) + bool(row["declared"]["preloads"]),
        row["batch_lifetime"] != "lasting",
        at_work(row),
        row["cpu_seconds_per_1000_items"] or inf,
        row["pss_peak_bytes"] or inf,
    )


def at_work(row: Row) -> int:
    """Return how many processes and threads work for a loader: its workers, or the threads that were seen to."""
    return max(row["workers"] or 0, row["loader_threads"] or 0)


def goals(tables: Tables, device: str, keeping: Rows) -> list[Goal]:
    """Return the goals of a device in their order; `keeping`: what keeps up with the user's step, the cheapest first.

    - `goal`: fastest, fastest_cold, least_memory, simplest or cheapest. `id`: the result, or None.
    - `ties`: the results, one of each loader and tier, that are not distinguishable from it by this goal.
    - `form`: `use`, `equal` (all ties significantly within a quarter) or `noisy` (none is recommended,
      `id` is the least behind). `behind`: how many times slower than a tie it is at most, or None.
    - `value`: what the goal is about, in items/s, bytes, processes and threads, or seconds.
    - `lacking`: None, or the code of what an answer needs.
    """
    return [
        _fastest(tables, device),
        _fastest_cold(tables, device),
        _least_memory(tables, device),
        _simplest(tables, device, keeping),
        _cheapest(tables, device),
    ]


def _fastest(tables: Tables, device: str) -> Goal:
    return by_speed(tables, main_panel(tables["best"], device), "fastest", "no_run")


def _fastest_cold(tables: Tables, device: str) -> Goal:
    scenario = {"device": device, "task": "read", "cache": "cold", "step_ms": 0}
    rows = [row for row in tables["best"] if all(row[name] == value for name, value in scenario.items())]
    random = [row for row in with_speed(rows) if in_random_order(row)]
    return by_speed(tables, random or rows, "fastest_cold", "no_cold")


def by_speed(tables: Tables, rows: Rows, name: str, absent: str) -> Goal:
    """Return the goal for the fastest of `rows`, or for the cheapest of those that cannot be told from it."""
    ranked = with_speed(rows)
    if not ranked:
        return _none(name, "no_speed" if rows else absent)
    beside = (row for row in tables["ranking"] if row["scenario"] == ranked[0]["scenario"])
    every = {key(row): row for row in (*beside, *ranked)}
    choice, ties = compared(tables, ranked[0]).choose(map(key, ranked), lambda one: expense(tables, every[one]))
    found = _goal(name, every[choice.key], [every[one] for one in ties], every[choice.key]["items_per_second"])
    behind = choice.behind if isfinite(choice.behind) else None
    return found | {"form": choice.form, "behind": behind}


def _least_memory(tables: Tables, device: str) -> Goal:
    rows = with_speed(main_panel(tables["ranking"], device))
    if not rows:
        return _none("least_memory", _absent(tables, device))
    near = [row for row in rows if row["times_slower_than_best"] <= SLOWEST and row["pss_peak_bytes"]]
    near = [row for row in near if not in_memory(tables, row["tier"])] or near
    if not near:
        return _none("least_memory", "no_memory")
    near.sort(key=lambda row: (row["pss_peak_bytes"], -row["items_per_second"]))
    lean = list(first_of(near, "loader", "tier").values())
    least = _memory_of_runs(tables, lean[0])
    ties = [row for row in lean[1:] if not compare(_memory_of_runs(tables, row), least).faster]
    first, *ties = sorted([lean[0], *ties], key=lambda row: bool(row["declared"]["preloads"]))
    return _goal("least_memory", first, ties, first["pss_peak_bytes"])


def _simplest(tables: Tables, device: str, keeping: Rows) -> Goal:
    if not with_speed(main_panel(tables["best"], device)):
        return _none("simplest", _absent(tables, device))
    if not keeping:
        return _none("simplest", "no_step" if asked(tables, "step_ms") is None else "none_keeps_up")
    ordered = [*first_of(keeping, "loader", "tier").values()]
    same = [row for row in ordered[1:] if expense(tables, row)[:3] == expense(tables, ordered[0])[:3]]
    return _goal("simplest", ordered[0], same, at_work(ordered[0]))


def _cheapest(tables: Tables, device: str) -> Goal:
    rows = with_speed(main_panel(tables["best"], device))
    if not rows:
        return _none("cheapest", _absent(tables, device))
    seconds = {row["format"]: row["seconds"] for row in tables["formats"] if row["seconds"] is not None}
    timed = [row for row in rows if row["format"] in seconds]
    if not timed:
        return _none("cheapest", "no_preparation")
    first, *others = sorted(timed, key=lambda row: (seconds[row["format"]], -row["items_per_second"]))
    same = [row for row in others if row["format"] == first["format"]]
    speeds = speeds_of(tables, [first, *same])
    ties = [row for row in same if not rounds.compare(speeds[key(first)], speeds[key(row)]).faster]
    return _goal("cheapest", first, ties, seconds[first["format"]])


def _absent(tables: Tables, device: str) -> str:
    return "no_speed" if main_panel(tables["best"], device) else "no_run"


def _goal(name: str, row: Row, ties: Rows, value: float) -> Goal:
    found = {"goal": name, "id": row["id"], "ties": [one["id"] for one in ties], "value": value}
    return found | {"form": "use", "behind": None, "lacking": None}


def _none(name: str, lacking: str) -> Goal:
    return {"goal": name, "id": None, "ties": [], "value": None, "form": "none", "behind": None, "lacking": lacking}


def _memory_of_runs(tables: Tables, row: Row) -> list[float]:
    """Return the peak memory of a result's runs that count, in bytes."""
    return [
        run["pss_peak_bytes"]
        for run in tables["runs"]
        if key(run) == key(row) and run["counts"] and run["pss_peak_bytes"]
    ]
