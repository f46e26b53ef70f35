"""The decision: tables in, verdict.json out, codes and numbers alone (docs/verdict.schema.json, docs/decision.md).

The terminal, the page and the README show it and decide nothing; the session asks it whom to explain.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from scripts.common.errors import UserError
from scripts.common.groups import first_of
from scripts.decide.capacity import Answer, answers, items_of, yours_of
from scripts.decide.cautions import cautions, slower_with_workers
from scripts.decide.choice import Compared
from scripts.decide.confidence import confidence, lost
from scripts.decide.goals import expense, goals
from scripts.decide.panel import asked, compared, devices, had_now, key, main_panel, with_speed
from scripts.decide.transformed import with_transforms

VERSION = 1  # of verdict.json: raised where a key changes its meaning or goes

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def verdict(tables: Tables) -> dict[str, Any]:
    """Return what verdict.json holds of tables as `read_tables` gives them.

    Raises UserError for numbers of the user's own training that none has, such as a step below 0.
    """
    shown = [row for row in tables["best"] if row["batch_size"]]
    yours = yours_of(tables, shown[0]["batch_size"] if shown else 32)
    for name in yours.problems():
        raise UserError(
            f"report.{name}: found {getattr(yours, name):g}, allowed is a number above 0. Change it in config.yaml."
        )
    corpus = tables["dataset"]["corpus"]
    natural, items = items_of(tables) if corpus else (None, None)
    found = [_answer(tables, device) for device in devices(tables)]
    return {
        "version": VERSION,
        "dataset": tables["dataset"]["dataset"],
        "yours": yours._asdict(),
        "now": asked(tables, "now"),
        "training": _training(tables["dataset"]["config"].get("training"), found[0]),
        "data": {"item_bytes": natural, "items": items},
        "answers": found,
    }


def _training(training: Row | None, answer: Row) -> dict[str, Any] | None:
    """Return the numbers of the user's training, and its AU and speed with the choice as the loader."""
    if training is None:
        return None
    au = next((one["au"] for one in answer["candidates"] if one["id"] == answer["choice"]), None)
    most = training["headspace_items_per_second"]
    rate = au * most / 100 if au is not None and most else None
    return {**training, "choice_au": au, "choice_items_per_second": rate}


def _answer(tables: Tables, device: str) -> dict[str, Any]:
    """Return the answer of one device.

    Of the results that keep up with the user's step the cheapest is the choice: a training gains nothing from reading
    that is faster still. Where none is known to keep up it is the fastest, or the cheapest of those tied with it.
    """
    rows = main_panel(tables["ranking"], device)
    fast, best = with_speed(rows), with_speed(main_panel(tables["best"], device))
    table = compared(tables, best[0]) if best else None
    able = answers(tables, fast)
    ordered = sorted(fast, key=lambda one: (expense(tables, one), -one["items_per_second"]))
    keeping = [row for row in ordered if able and able[row["id"]][1].keeps_up]
    of_goals = goals(tables, device, keeping)
    found = _choice(table, best, of_goals[0], keeping)
    row = next((one for one in fast if one["id"] == found["choice"]), None)
    known = [answer for _, answer in able.values() if answer.source != "unknown"]
    found["why"] = "keeps_up" if keeping else "none_keeps_up" if known else "fastest" if row else of_goals[0]["lacking"]
    found |= {"device": device, "scenario": rows[0]["scenario"] if rows else None, "lost": lost(tables, device)}
    found["factor"] = _factor(table, best) if found["form"] == "noisy" else None
    now = row and _against(tables, table, row, able)
    explain = (found["choice"], now and now["id"], of_goals[0]["id"])  # in the order in which there may be time
    return found | {
        "sessions": row["sessions"] if row else 0,
        "now": now,
        "transforms": with_transforms(tables, device),
        "confidence": {**confidence(tables, found, row), "factor": found.pop("factor")},
        "candidates": [_candidate(one, *able[one["id"]]) for one in fast] if able else [],
        "preference": [one["id"] for one in ordered],
        "explain": list(dict.fromkeys(filter(None, explain))),
        "cautions": [*(cautions(tables, row) if row else []), *slower_with_workers(table, rows)],
        "goals": of_goals,
    }


def _choice(table: Compared | None, best: list[Row], fastest: Mapping[str, Any], keeping: list[Row]) -> dict[str, Any]:
    """Return `choice`, `why`, `form`, `ties`, `at_most_times` and `slower` of an answer.

    `best`: the rows with a speed, one of each loader and tier. `fastest`: the goal. `keeping`: what keeps up.
    """
    if table is None:
        nothing = {"choice": None, "why": fastest["lacking"], "form": "none", "ties": []}
        return nothing | {"at_most_times": None, "slower": None}
    if not keeping:
        found = {"choice": fastest["id"], "form": fastest["form"], "ties": fastest["ties"]}
        return found | {"at_most_times": fastest["behind"], "slower": _slower(table, best, fastest)}
    chosen, *others = first_of(keeping, "loader").values()
    most = table.behind(key(chosen), map(key, best))
    found = {"choice": chosen["id"], "form": "use", "ties": [one["id"] for one in others]}
    return found | {"at_most_times": most if isfinite(most) else None, "slower": None}


def _factor(table: Compared, best: list[Row]) -> float | None:
    """Return how many times as many rounds are likely to settle which one to use; None where none would."""
    more = table.rounds_to_settle(map(key, best))
    return None if more is None else 1 + more / max(row["runs"] for row in best)


def _slower(table: Compared, best: list[Row], fastest: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result that is slower than each of those that lead, by the most times at least; None of none."""
    first = [one for one in best if one["id"] in (fastest["id"], *fastest["ties"])]
    leading, found = {row["loader"] for row in first}, {}
    for row in (one for one in best if one["loader"] not in leading):
        lows = [table.compare(key(one), key(row)).low for one in first]
        if all(lows) and min(lows) > 1:
            found[row["id"]] = min(lows)
    name = max(found, key=found.__getitem__, default=None)
    return name and {"id": name, "times": found[name]}


def _against(
    tables: Tables, table: Compared, row: Row, able: Mapping[str, tuple[Any, Answer]]
) -> dict[str, Any] | None:
    """Return how the choice compares with the user's current loader: speed, with its 99 % interval, and AU of both."""
    had = had_now(tables, row)
    if had is None:
        return None
    own, other = (able[one["id"]][1] if able else None for one in (row, had))
    same, found = had["id"] == row["id"], table.compare(key(row), key(had))
    ends = {"low": None, "high": None} if same else {"low": found.low, "high": found.high}
    utilisation = {"au": own and own.au, "au_now": other and other.au, "au_most_now": other and other.most}
    return {"id": had["id"], "times": 1.0 if same else found.ratio, **ends, **utilisation}


_ABOUT = ("loader", "tier", "slug", "format", "workers", "batch_size")
_SPEED = ("items_per_second", "interval_low", "interval_high")


def _candidate(row: Row, able: Any, answer: Answer) -> dict[str, Any]:
    found = {"id": row["id"], **{name: row[name] for name in (*_ABOUT, *_SPEED)}, **able.told()}
    answered = {"au": answer.au, "au_low": answer.low, "au_most": answer.most, "source": answer.source}
    return {**found, **answered, "keeps_up": answer.keeps_up}
