"""What the tables say to do: for each goal the result to use, those it cannot be distinguished from, and why.

One winner does not serve all: the fastest may take all memory, or need a conversion that a short project never earns.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from scripts.common.counting import Name
from scripts.common.statistics import CLOSE, compare
from scripts.common.text import duration_text
from scripts.common.utilisation import TARGET_AU_PERCENT
from scripts.common.vocabulary import COLD
from scripts.decide import rounds
from scripts.decide.choice import Compared
from scripts.report.model import Answer, candidate, model_of, unit_of
from scripts.report.verdict_texts import (
    LACKING,
    Caution,
    against_text,
    asked,
    au_text,
    cautions,
    had_now,
    in_memory,
    in_random_order,
    key,
    no_feeder,
    no_rival,
    no_speed,
    place,
    speed_text,
    starving,
)
from scripts.tables.columns import bytes_text, number_text, scenario_order, scenarios
from scripts.tables.groups import first_of
from scripts.tables.step_au import MEASURED

OVER_TIERS = "Their files are in memory on every tier, so that loaders are compared over all tiers together. "
_NO_ANSWER = {
    **{"form": "use", "behind": None, "longer": None, "certain": "", "row": None, "ties": [], "fact": "", "reason": ""},
    **{"against": None, "lacking": "", "cautions": [], "caveat": ""},
}
SLOWEST = 2.0  # times slower than the fastest: beyond it, little memory recommends nothing

Row = Mapping[str, Any]
Rows = Sequence[Row]
Tables = Mapping[str, Any]
Verdict = dict[str, Any]


def verdicts(tables: Tables) -> list[Verdict]:
    """Return a verdict for each goal and device, in the order of the goals, from what `tables.read_tables` gives.

    - `goal`: fastest, fastest_cold, least_memory, simplest or cheapest. `device`. `title`: the goal in words.
    - `row`: the row of `best` or `ranking` to use, or None. `ties`: the rows, one of each loader and tier, that
      are not distinguishable from it by this goal. Single runs distinguish nothing.
    - `form`, of goals by speed: `use` (it is significantly the fastest, or at most CLOSE times slower than any that
      ties, or it alone feeds the user's own step), `equal` (all that tie significantly differ by less than CLOSE) or
      `noisy` (none is recommended; the first is the least behind). `behind`: how many times slower than any of the ties
      it is at most;
      `longer`: how many times as many rounds would settle it; `certain`: what is significantly slower.
    - `fact`: what the goal is about, such as ``203 MB at its peak``. `reason`: the rule by which it was chosen, speed
      with interval and bound, and what the bottleneck is.
    - `against`: None, or `row`, the best result of `report.now` in the same scenario, `times_faster`, `faster_low` and
      `faster_high` (99 % interval; None for single runs and for the same result), and `text`.
    - `lacking`: what it needs, where there is no row or nothing to compare it with; else empty.
    - `cautions`: what to know before one acts on it, each a Caution; `caveat` is their texts in one.
    """
    rows = sorted((row for row in tables["best"] if row["scenario"]), key=scenario_order)
    devices = list(dict.fromkeys(row["device"] for row in rows)) or [""]
    goals = (_fastest, _fastest_cold, _least_memory, _simplest, _cheapest)
    return [goal(tables, device) for goal in goals for device in devices]


def main_panel(best: Rows, device: str) -> Rows:
    """Return the device's rows of `best` in the first scenario in which anything ran: reading from a warm cache, if
    it did.

    It is the first one with a speed, where there is any; where nothing ran at all the first that there is.
    """
    rows = [row for row in best if row["device"] == device]
    ran = [row for row in rows if row["status"] != "skipped"]
    names = scenarios(row for row in ran if row["items_per_second"]) or scenarios(ran) or scenarios(rows)
    return [row for row in rows if row["scenario"] == names[0]] if names else []


def _fastest(tables: Tables, device: str) -> Verdict:
    rows = main_panel(tables["best"], device)
    title = f"Fastest ({rows[0]['scenario']})" if rows else "Fastest"
    return _by_speed(tables, rows, {"goal": "fastest", "device": device, "title": title}, LACKING["run"])


def _fastest_cold(tables: Tables, device: str) -> Verdict:
    scenarios = {"device": device, "task": "read", "cache": "cold", "step_ms": 0}
    rows = [row for row in tables["best"] if all(row[name] == value for name, value in scenarios.items())]
    named = _named("fastest_cold", device, "Fastest in random order from a cold disk")
    random = [row for row in rows if row["items_per_second"] and in_random_order(row)]
    return _by_speed(tables, random or rows, named, LACKING["cold"])


def _by_speed(tables: Tables, rows: Rows, named: Verdict, absent: str) -> Verdict:
    """Return the verdict for the fastest of `rows`, or for the cheapest of those that cannot be distinguished from it.

    `absent`: what is lacking where there are none.
    """
    ranked = _with_speed(rows)
    if not ranked:
        return _none(named, no_speed(rows) if rows else absent)
    table = compared(tables, ranked[0])
    beside = (row for row in tables["ranking"] if row["scenario"] == ranked[0]["scenario"])
    every = {key(row): row for row in (*beside, *ranked)}
    step_ms = asked(tables, "step_ms")

    def starves(row: Row) -> bool:
        return step_ms is not None and not _feeds(tables, row, step_ms)

    choice, others = table.choose(
        map(key, ranked), lambda one: _expense(tables, every[one]), lambda one: starves(every[one])
    )
    first, *equals = (every[one] for one in (choice.key, *others))
    fact = f"{number_text(first['items_per_second'])} items/s"
    fed = None if starves(first) else step_ms
    rule = _rule(fed, choice.behind <= CLOSE, [first, *equals]) if equals and choice.form != "noisy" else ""
    rule += OVER_TIERS if equals and table.loaders else ""
    found = _verdict(tables, named, [first, *equals], fact, rule)
    if step_ms is not None and fed is None and first["step_au_percent"] is not None:
        feeding = next((one for one in ranked if not starves(one)), None)
        minded = [starving(first, step_ms, feeding, _answer(tables, first)), *found["cautions"]]
        found |= _minded(minded)
    certain = _certain(table, ranked, [first, *equals], had_now(tables, first)) if equals else ""
    more = table.rounds_to_settle(map(key, ranked)) if choice.form == "noisy" else 0
    longer = inf if more is None else 1 + more / max(row["runs"] for row in ranked)
    return found | {"form": choice.form, "behind": choice.behind, "longer": longer, "certain": certain}


def compared(tables: Tables, row: Row) -> Compared:
    """Return the comparison of a result with the best ones of its scenario, all at once.

    Whatever a report says of how many times faster one is than another comes from here. By themselves they compare as
    their ranks are made, and over all tiers where a warm cache holds the files of each (decide/choice.py).
    """
    beside = _with_speed(one for one in tables["best"] if one["scenario"] == row["scenario"])
    settings = _with_speed(one for one in tables["ranking"] if one["scenario"] == row["scenario"])
    tiers = {one["tier"] for one in settings}
    together = len(tiers) > 1 and all(_from_memory(tables, one) for one in settings)
    return Compared(speeds_of(tables, (*beside, row)), speeds_of(tables, settings), together)


def _from_memory(tables: Tables, row: Row) -> bool:
    """Return whether a result read files that its machine's memory held, on a tier that is not emulated."""
    local = any(one["tier"] == row["tier"] and one["path"] for one in tables["tiers"])
    return row["cache"] not in COLD and local and not row["emulated"]


def speeds_of(tables: Tables, rows: Iterable[Row]) -> dict[Name, dict[int, float]]:
    """Return {name: {round: items per second}} of results, of the runs that count."""
    speeds: dict[Name, dict[int, float]] = {key(one): {} for one in rows}
    for run in tables["runs"]:
        if run["counts"] and key(run) in speeds:
            speeds[key(run)][run["repeat"]] = run["items_per_second"]
    return speeds


def _with_speed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["items_per_second"]]


def _rule(step_ms: float | None, close: bool, rows: Rows) -> str:
    """Return how the first of `rows` was chosen of those that lead, in words; `step_ms`: the user's own step, where it
    feeds that.
    """
    fed = "" if step_ms is None else f"what feeds your step of {step_ms:g} ms at {TARGET_AU_PERCENT:g} % AU"
    if not close:
        others = ", ".join(f"{place(row)} ({au_text(row['step_au_percent'])} AU)" for row in rows[1:])
        return (
            f"As fast, as far as can be said: {others}. Of {fed} (the share of a training's time that is its steps), "
            f"it is the least behind; it has {au_text(rows[0]['step_au_percent'])}. "
        )
    return (
        f"The cheapest surely within {100 * (CLOSE - 1):.0f} % of the fastest: {fed}{', ' if fed else ''}the fewest "
        "copies in RAM, batches that last, the fewest workers, the least CPU time, the least memory. "
    )


def _expense(tables: Tables, row: Row) -> tuple[Any, ...]:
    """Return what makes one of several equal results the cheaper one, what counts most first."""
    return (
        in_memory(tables, row["tier"]) + bool(row["declared"]["preloads"]),
        row["batch_lifetime"] != "lasting",
        row["workers"] or 0,
        row["cpu_seconds_per_1000_items"] or inf,
        row["pss_peak_bytes"] or inf,
    )


def _certain(table: Compared, rows: Rows, equals: Rows, had: Row | None) -> str:
    """Return which of the `rows` is significantly slower than each of the `equals`: `had`, else the slowest one; or
    empty.
    """
    slower = {}
    leading = {one["loader"] for one in equals} if table.loaders else set()
    for row in rows:
        if row not in equals and row["loader"] not in leading:
            lows = [table.compare(key(one), key(row)).low for one in equals]
            if all(lows) and min(lows) > 1:
                slower[place(row)] = row is had, min(lows)
    if not slower:
        return ""
    name = max(slower, key=slower.__getitem__)
    return f"{name} is at least {number_text(slower[name][1], 2)} times slower than each of these"


def _least_memory(tables: Tables, device: str) -> Verdict:
    named = _named("least_memory", device, f"Least memory, at most {SLOWEST:g} times slower")
    rows = _ranked(tables, device)
    if not rows:
        return _by_speed(tables, main_panel(tables["best"], device), named, LACKING["run"])
    near = [row for row in rows if row["times_slower_than_best"] <= SLOWEST and row["pss_peak_bytes"]]
    near = [row for row in near if not in_memory(tables, row["tier"])] or near
    if not near:
        return _none(named, LACKING["memory"])
    near.sort(key=lambda row: (row["pss_peak_bytes"], -row["items_per_second"]))
    lean = list(first_of(near, "loader", "tier").values())
    least = _of_runs(tables, lean[0], "pss_peak_bytes")
    ties = [row for row in lean[1:] if not compare(_of_runs(tables, row, "pss_peak_bytes"), least).faster]
    lean[0], *ties = sorted([lean[0], *ties], key=lambda row: bool(row["declared"]["preloads"]))
    rule = (
        "The least memory at its peak (PSS of all its processes), where there is a choice on a tier whose files are "
        "not in memory; of the same, first what does not hold the whole set. "
    )
    fact = f"{bytes_text(lean[0]['pss_peak_bytes'])} at its peak"
    return _verdict(tables, named, [lean[0], *ties], fact, rule)


def _simplest(tables: Tables, device: str) -> Verdict:
    step_ms = asked(tables, "step_ms")
    words = "your training step" if step_ms is None else f"a training step of {step_ms:g} ms"
    named = _named("simplest", device, f"Simplest (fewest workers) that sustains {words} at {TARGET_AU_PERCENT:g} % AU")
    rows = _ranked(tables, device)
    if not rows:
        return _by_speed(tables, main_panel(tables["best"], device), named, LACKING["run"])
    if step_ms is None:
        return _none(named, LACKING["step"])
    sustained = [row for row in rows if _feeds(tables, row, step_ms)]
    if not sustained:
        return _none(named, no_feeder(rows, step_ms, [_answer(tables, row) for row in rows]))
    formats = {row["format"]: row for row in tables["formats"]}

    def effort(row: Row) -> tuple[float, ...]:
        return row["workers"] or 0, in_memory(tables, row["tier"]), _known(formats, row, "files")

    sustained.sort(key=lambda row: (effort(row), _known(formats, row, "seconds"), -row["items_per_second"]))
    ordered = first_of(sustained, "loader", "tier").values()
    same = [row for row in ordered if effort(row) == effort(sustained[0])]
    rule = (
        "The fewest workers (processes or threads), then a tier whose files are not in memory, then the fewest "
        "files; of the same effort, first what is written soonest. "
    )
    fact = f"{_workers_text(same[0]['workers'])}, {_fed(same[0], _answer(tables, same[0]))}"
    return _verdict(tables, named, same, fact, rule)


def _sustains(row: Row, step_ms: float) -> bool:
    """Return whether a result feeds a step: what was tried with it says so, or else its rate significantly does."""
    if row["step_au_from"] == MEASURED:
        return row["step_au_percent"] >= TARGET_AU_PERCENT
    if row["minimum_step_ms"] is not None:
        return row["minimum_step_ms"] <= step_ms
    return row["step_au_low"] is not None and row["step_au_low"] >= TARGET_AU_PERCENT


def _feeds(tables: Tables, row: Row, step_ms: float) -> bool:
    """Return whether a result feeds the user's own training: the step, with batch and data as the config says.

    What was tried with the step was tried with its own batch, and with files that were in memory.
    """
    answer, same = _answer(tables, row), asked(tables, "batch") in (None, row["batch_size"])
    if answer is None:
        return _sustains(row, step_ms)
    return bool(answer.sustains) and (not same or _sustains(row, step_ms))


def _answer(tables: Tables, row: Row) -> Answer | None:
    """Return what a result gives to the user's own training; None where batch and data are those that were measured."""
    corpus = tables["dataset"]["corpus"]
    same = asked(tables, "batch") in (None, row["batch_size"]) and asked(tables, "gigabytes") is None
    if not corpus or same:
        return None
    items = next((run["items"] for run in tables["runs"] if run["items"]), 0)
    data = unit_of(corpus).stored_bytes, items
    return candidate(row, tables, *data).answer(model_of(tables, row["batch_size"]), *data)


def _fed(row: Row, answer: Answer | None) -> str:
    if answer and answer.au is not None:
        return f"{answer.au_text} AU with your batch and data"
    texts = []
    if row["step_au_percent"] is not None:
        texts.append(f"{au_text(row['step_au_percent'])} AU ({row['step_au_from']})")
    if row["minimum_step_ms"] is not None:
        texts.append(f"sustains steps from {number_text(row['minimum_step_ms'], 2)} ms on")
    return ", ".join(texts)


def _workers_text(workers: int | None) -> str:
    return "1 worker" if workers == 1 else f"{workers or 'no'} workers"


def _cheapest(tables: Tables, device: str) -> Verdict:
    named = _named("cheapest", device, "Cheapest to prepare")
    rows = [row for row in main_panel(tables["best"], device) if row["items_per_second"]]
    if not rows:
        return _by_speed(tables, main_panel(tables["best"], device), named, LACKING["run"])
    formats = {row["format"]: row for row in tables["formats"] if row["seconds"] is not None}
    timed = [row for row in rows if row["format"] in formats]
    if not timed:
        return _none(named, LACKING["preparation"])
    first, *others = sorted(timed, key=lambda row: (formats[row["format"]]["seconds"], -row["items_per_second"]))
    same = [row for row in others if row["format"] == first["format"]]
    speeds = speeds_of(tables, [first, *same])
    ties = [row for row in same if not rounds.compare(speeds[key(first)], speeds[key(row)]).faster]
    written = formats[first["format"]]
    rule = (
        f"The format that was written soonest ({written['files']} files, {bytes_text(written['bytes'])}), and the "
        "fastest that reads it. Each was written once: times near one another may change places. "
    )
    fact = f"{duration_text(written['seconds'])} to write, {number_text(first['items_per_second'])} items/s"
    return _verdict(tables, named, [first, *ties], fact, rule)


def _named(goal: str, device: str, title: str) -> Verdict:
    return {"goal": goal, "device": device, "title": f"{title} ({device.upper()})" if device else title}


def _none(named: Verdict, lacking: str) -> Verdict:
    return named | _NO_ANSWER | {"lacking": lacking}


def _verdict(tables: Tables, named: Verdict, rows: Rows, fact: str, rule: str) -> Verdict:
    """Return the verdict for the first of `rows`, which the others cannot be distinguished from."""
    row, *ties = rows
    beside = (one for one in tables["best"] if one["scenario"] == row["scenario"])
    found = {"row": row, "ties": ties, "fact": fact, "reason": rule + speed_text(row)}
    found |= {"against": _against(tables, row), "lacking": no_rival(beside)}
    return named | _NO_ANSWER | found | _minded(cautions(tables, row))


def _minded(found: Iterable[Caution]) -> Verdict:
    found = list(found)
    return {"cautions": found, "caveat": " ".join(one.text for one in found)}


def _against(tables: Tables, row: Row) -> Verdict | None:
    had = had_now(tables, row)
    if had is None:
        return None
    if key(had) == key(row):
        same = {"row": had, "times_faster": 1.0, "faster_low": None, "faster_high": None}
        return {**same, "text": "It is what you have now."}
    found = compared(tables, row).compare(key(row), key(had))
    ratios = {"times_faster": found.ratio, "faster_low": found.low, "faster_high": found.high}
    return {"row": had, **ratios, "text": against_text(found, row, had)}


def _ranked(tables: Tables, device: str) -> Rows:
    """Return all settings with a speed in the device's main scenario, the fastest first."""
    names = {row["scenario"] for row in main_panel(tables["best"], device)}
    return [row for row in tables["ranking"] if row["scenario"] in names and row["items_per_second"]]


def _known(formats: Mapping[str, Row], row: Row, column: str) -> float:
    found = formats.get(row["format"], {}).get(column)
    return inf if found is None else found


def _of_runs(tables: Tables, row: Row, column: str) -> list[float]:
    """Return what the runs of a result that count have in a column."""
    return [run[column] for run in tables["runs"] if key(run) == key(row) and run["counts"] and run[column]]
