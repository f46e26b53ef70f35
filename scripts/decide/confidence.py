"""How far the answer may be trusted: a grade from A to D with its cause, and how long a session would settle it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scripts.decide.panel import main_panel, with_speed

FEW_ROUNDS = 3  # below it nothing is concluded
MANY_ROUNDS = 7  # from here on a result's own scatter is known
NOISY, LOUD, UNSTEADY = 10.0, 25.0, 5.0  # percent: of the control run's variation, and of its drift over the session
LEFT_OUT_PERCENT = 33.0  # of the runs
LOST_PERCENT = 20.0  # of the loaders

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


class Doubt(NamedTuple):
    """Why an answer is not of grade A: the grade that it has for that, a code, and its numbers."""

    grade: str
    code: str
    values: Mapping[str, Any]


def confidence(tables: Tables, answer: Mapping[str, Any], row: Row | None) -> dict[str, Any]:
    """Return `grade`, the `code` and `values` of its cause, and `doubts`, all codes that lower it, the worst first.

    A: act on it. B: act on it if the cause does not matter to you. C: measure longer, or again, first. D: do not act.
    """
    found = sorted(_doubts(tables, answer, row), key=lambda one: one.grade, reverse=True)
    if not found:
        found = [Doubt("A", "settled", {"rounds": row["runs"], **_steady(tables, row)})]
    worst = found[0]
    cause = {"grade": worst.grade, "code": worst.code, "values": dict(worst.values)}
    return cause | {"doubts": [one.code for one in found]}


def _doubts(tables: Tables, answer: Mapping[str, Any], row: Row | None) -> Iterator[Doubt]:
    if row is None:
        yield Doubt("D", "no_speed", {})
        return
    if row["runs"] < FEW_ROUNDS:
        yield Doubt("D", "few_rounds", {"rounds": row["runs"]})
    if answer["form"] == "noisy":
        yield Doubt("C", "not_settled", {"at_most_times": answer["at_most_times"]})
    yield from _lost(answer["lost"], tables, answer["device"])
    yield from _of_the_machine(tables, row)
    if FEW_ROUNDS <= row["runs"] < MANY_ROUNDS:
        yield Doubt("B", "few_rounds", {"rounds": row["runs"]})


def _lost(lost: Sequence[Row], tables: Tables, device: str) -> Iterator[Doubt]:
    if not lost:
        return
    measured = {one["loader"] for one in with_speed(main_panel(tables["ranking"], device))}
    count = sum(not one["some"] for one in lost)
    values = {"lost": count, "of": count + len(measured), "codes": sorted({one["code"] for one in lost})}
    share = 100 * count / values["of"]
    if count:
        yield Doubt("C" if share >= LOST_PERCENT else "B", "lost", values)


def _of_the_machine(tables: Tables, row: Row) -> Iterator[Doubt]:
    noise = [one for one in tables["noise"] if one["device"] == row["device"]]
    drift = max((abs(one["drift_percent"]) for one in noise if one["drift_seen"]), default=0.0)
    varied = max((one["variation_percent"] or 0.0 for one in noise), default=0.0)
    left_out = 100 * row["left_out"] / (row["runs"] + row["left_out"]) if row["left_out"] else 0.0
    if row["disturbed"] and row["disturbed"] == row["runs"]:
        yield Doubt("C", "all_disturbed", {"rounds": row["runs"]})
    if varied > LOUD:
        yield Doubt("C", "varied", {"percent": varied})
    elif varied > NOISY:
        yield Doubt("B", "varied", {"percent": varied})
    if left_out > LEFT_OUT_PERCENT:
        yield Doubt("B", "left_out", {"percent": left_out})
    if drift >= UNSTEADY:
        yield Doubt("B", "drift", {"percent": drift})


def _steady(tables: Tables, row: Row) -> dict[str, float]:
    varied = [one["variation_percent"] for one in tables["noise"] if one["device"] == row["device"]]
    return {"percent": max(varied)} if varied and all(varied) else {}


def lost(tables: Tables, device: str) -> list[dict[str, Any]]:
    """Return what was asked for in the device's main scenario and has no speed though its loader could run here.

    - `loader`, `code` (`failed`, `missing`, or the record's own reason code), `reason`, `results`: how many of them.
    - `some`: whether other results of the loader have a speed.
    """
    panel = main_panel(tables["ranking"], device)
    measured = {row["loader"] for row in with_speed(panel)}
    gone: dict[tuple[str, str], list[Row]] = {}
    for row in panel:
        if row["status"] in ("failed", "missing"):
            gone.setdefault((row["loader"], row["reason_code"] or row["status"]), []).append(row)
    return [
        {"loader": loader, "code": code, "reason": rows[0]["reason"], "results": len(rows), "some": loader in measured}
        for (loader, code), rows in gone.items()
    ]
