"""How far the first answer may be trusted: one grade from A to D, its cause, and what to do about it."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

from scripts.common.statistics import CLOSE
from scripts.common.vocabulary import TRAINING
from scripts.report.commands import command, lengthened
from scripts.report.verdict_texts import in_memory, runs_text
from scripts.tables.drift import DRIFT_PERCENT

FEW_RUNS = 3  # below it nothing is concluded
MANY_RUNS = 7  # from here on a result's own scatter is known
NOISY, UNSTEADY = 10.0, 5.0  # percent: of the control run's variation, and of its drift over the session
LEFT_OUT_PERCENT = 33.0  # of the runs
MOST_MINUTES, MOST_TIMES = 600, 50  # of a session that is advised; times as many runs as now

Tables = Mapping[str, Any]


class Confidence(NamedTuple):
    """`grade`: A act on it, B act on it if the cause does not matter to you, C measure longer first, D do not act."""

    grade: str
    cause: str
    advice: str

    @property
    def text(self) -> str:
        """The grade with its cause and what to do, in sentences."""
        return " ".join(filter(None, (f"Confidence {self.grade}: {self.cause}", self.advice)))


def confidence(tables: Tables, verdict: Mapping[str, Any]) -> Confidence:
    """Return the confidence in a verdict by speed. The worst that was seen decides."""
    row = verdict["row"]
    if row is None:
        return Confidence("D", "nothing has a verified speed.", "")
    if row["runs"] < FEW_RUNS:
        return Confidence("D", f"{_runs(row)}.", _longer(tables, row, 3.0))
    if verdict["form"] == "noisy":
        if not isfinite(verdict["longer"]):
            return Confidence("C", "too few runs are shared to tell the first ones apart.", _shared(tables, verdict))
        cause = f"each of the first ones may be more than {100 * (CLOSE - 1):.0f} % behind another."
        return Confidence("C", cause, _longer(tables, row, verdict["longer"]))
    found = _of_the_machine(tables, row)
    if not found and verdict["behind"] is not None and verdict["behind"] > CLOSE:
        slower = f"{100 * (verdict['behind'] - 1):.0f} %"
        cause = f"it feeds your step, and may be read {slower} more slowly than what does not."
        found = Confidence("B", cause, _longer(tables, row, 2.0))
    return found or Confidence("A", _quiet(tables, row), "")


def _of_the_machine(tables: Tables, row: Mapping[str, Any]) -> Confidence | None:
    noise = [one for one in tables["noise"] if one["device"] == row["device"]]
    drift = max((abs(one["drift_percent"]) for one in noise if one["drift_seen"]), default=0.0)
    varied = max((one["variation_percent"] or 0.0 for one in noise), default=0.0)
    left_out = 100 * row["left_out"] / (row["runs"] + row["left_out"])
    idle = "Stop other programs, or measure when the machine is idle."
    if left_out > LEFT_OUT_PERCENT:
        return Confidence("B", f"other programs took the CPU from {left_out:.0f} % of its runs.", idle)
    if drift >= max(UNSTEADY, DRIFT_PERCENT):
        return Confidence("B", f"the machine changed its speed by {drift:.0f} % over the session.", idle)
    if varied > NOISY:
        seen = row["left_out"] or row["disturbed"]  # else it is the machine's own, or a GPU's host that submits
        advice = idle if seen else _longer(tables, row, 2.0)
        return Confidence("B", f"the same work varied by {varied:.0f} % over the session.", advice)
    if row["runs"] < MANY_RUNS:
        return Confidence("B", f"{_runs(row)}.", _longer(tables, row, 2.0))
    return None


def _quiet(tables: Tables, row: Mapping[str, Any]) -> str:
    varied = [one["variation_percent"] for one in tables["noise"] if one["device"] == row["device"]]
    steady = f", the same work varied by {max(varied):.1f} %" if varied and all(varied) else ""
    return f"{_runs(row)}{steady}."


def _runs(row: Mapping[str, Any]) -> str:
    return f"{row['loader']} has {runs_text(row)}"


def _shared(tables: Tables, verdict: Mapping[str, Any]) -> str:
    """Return what to type for results to be run side by side."""
    tied = {row["tier"] for row in (verdict["row"], *verdict["ties"])}
    if tables["dataset"]["measure"].get("ram_copies") != "one" or not any(in_memory(tables, tier) for tier in tied):
        return _longer(tables, verdict["row"], 3.0)
    together = command(tables, "measure='{ram_copies: all}'")
    return f"Copies in RAM are there one after the other, so that they never are. Where all fit, type: `{together}`"


def _longer(tables: Tables, row: Mapping[str, Any], factor: float) -> str:
    """Return what to type for a session so many times longer."""
    minutes = tables["dataset"]["measure"].get("minutes")
    timed = isinstance(minutes, int | float) and row["task"] not in TRAINING
    if factor > MOST_TIMES or (timed and factor * minutes > MOST_MINUTES):
        return "The machine is too noisy for this question: measure when it is idle."
    length, longer = lengthened(tables, row, max(1.5, factor))
    return f"About {length} would settle it: `{longer}`"
