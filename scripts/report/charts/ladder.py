"""The ladder of optimisations: a waterfall of items/s from step to step; bars of one length are one gain in times."""

import textwrap
from typing import Any

from scripts.report.charts import _print as paper
from scripts.report.charts._common import COLOURS, INK, PAPER, Axes, Figure, Row, Rows, Tables
from scripts.tables.columns import number_text

TITLE = "Ladder of optimisations"
QUESTION = "What does each optimisation gain?"
DATA = "ladder.csv"
CATEGORY, ORDER, SECTION = "3 Causes", 30, "ladder"
CAPTION = (
    "From a plain loop upwards, one change at a time, on this machine with a warm cache. Each bar goes from the items"
    " per second of the previous step to its own. Bars of the same length are the same gain. A bar to the left is a "
    "change that costs speed here; a step that could not run says why."
)
NEEDS = (
    "a verified speed of one of its steps: `preset: ladder` in config.yaml measures them, one optimisation at a time"
)
_LOOKS = {  # by gain: colour and hatch
    "first": (COLOURS[5], ""),
    "faster": (COLOURS[0], ""),
    "slower": (COLOURS[1], "//"),
    "not distinguishable": (COLOURS[7], ""),
}
_WIDTH = 36  # characters in a line beside or within the axis
_ACROSS = 72  # characters of a number that fit across the axis
_REASON = {"xycoords": ("axes fraction", "data"), "va": "center", "size": 8}
_LEAST_SPAN = 10  # of the scale, in times: fewer have no tick


def rows(tables: Tables) -> Rows:
    """Return the steps, each with the items/s of the last one `before` it that has a speed, its `gain` and its `label`.

    Empty where no step has a speed.
    """
    found, before = [], None
    for step in tables["ladder"]:
        found.append({**step, "ladder_step": f"{step['step']}. {step['change']}", "before": before, **_gain(step)})
        before = step["items_per_second"] or before
    return found if before is not None else []


def _gain(step: Row) -> dict[str, str]:
    """Return what is to be said of a step: against the previous one, and in words behind its bar."""
    if step["items_per_second"] is None:
        return {"gain": "no speed", "label": f"{step['status']}: {step['reason']}"}
    speed, low, high = number_text(step["items_per_second"]), step["faster_low"], step["faster_high"]
    if step["times_faster"] is None:
        return {"gain": "first", "label": speed}
    label = f"{speed}   \N{MULTIPLICATION SIGN}{number_text(step['times_faster'])}"
    if low is None or high is None:
        return {"gain": "not distinguishable", "label": f"{label} (one run: no interval)"}
    if low <= 1 <= high:
        return {"gain": "not distinguishable", "label": f"{label} (not distinguishable)"}
    gain = "faster" if low > 1 else "slower"
    return {"gain": gain, "label": f"{label} ({number_text(low)} to {number_text(high)})"}


def draw(rows: Rows) -> Figure:
    """Return the picture: a row per step, on a logarithmic scale."""
    known = [row for row in rows if row["items_per_second"] is not None]
    speeds = [row["items_per_second"] for row in known]
    left = min(speeds) / 2
    figure, [axis] = paper.grid(1, 1, 1.3 + 0.56 * len(rows), 0)
    room = min(0.75, max(len(row["label"]) for row in known) / _ACROSS)  # right of the bars, as a share of the axis
    axis.set_xlim(left, left * max((max(speeds) / left) ** (1 / (1 - room)), _LEAST_SPAN))
    paper.log_axis(axis, "x")
    for y, row in enumerate(rows):
        if row["items_per_second"] is None:
            axis.annotate("\n".join(_lines(row["label"], 3)), (0.01, y), **_REASON)
        else:
            _bar(axis, y, row, row["before"] or left)
    names = ["\n".join([*_lines(row["ladder_step"], 2), paper.plain(row["loader"])]) for row in rows]
    paper.name_axis(axis, [""] * len(rows))
    axis.set_yticklabels(names)
    axis.set_xlabel("items per second (logarithmic scale: bars of one length are one gain in times)")
    gains = [gain for gain in _LOOKS if any(row["gain"] == gain for row in rows)]
    paper.legend(figure, [paper.patch(gain, **_look(gain)) for gain in gains])
    tiers = ", ".join(dict.fromkeys(paper.plain(row["tier"]) for row in known))
    gain = ", and how many times the previous step that is, with the 99 % interval" if len(known) > 1 else ""
    notes = [f"Step {row['step']}: {row['reason']}." for row in known if row["reason"]]
    paper.footnote(figure, [f"Measured on tier {tiers}. Beside each bar: items per second{gain}.", *notes])
    return figure


def _look(gain: str) -> dict[str, Any]:
    colour, hatch = _LOOKS[gain]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": PAPER, "linewidth": 0}


def _bar(axis: Axes, y: int, row: Row, start: float) -> None:
    speed = row["items_per_second"]
    axis.barh(y, abs(speed - start), left=min(start, speed), height=0.62, zorder=2, **_look(row["gain"]))
    if row["before"]:
        axis.plot([start, start], [y - 0.69, y + 0.31], color=INK, linewidth=0.8, zorder=3)
    axis.plot([speed, speed], [y - 0.31, y + 0.31], color=INK, linewidth=1.6, zorder=4)
    if row["interval_low"] is not None:
        axis.plot([row["interval_low"], row["interval_high"]], [y, y], color=INK, linewidth=1.2, zorder=4)
    axis.annotate(row["label"], (max(start, speed, row["interval_high"] or 0), y), **paper.LABEL)


def _lines(text: str, most: int) -> list[str]:
    """Return a text from outside as lines of a figure."""
    return [paper.plain(line) for line in textwrap.wrap(text, _WIDTH, max_lines=most, placeholder=" ...")]
