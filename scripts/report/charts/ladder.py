"""The figure of the ladder: a waterfall of clips/s from rung to rung; bars of one length are one gain in times."""

import math
import textwrap
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from scripts.report.charts._parts import INK, LABEL, PAPER, SERIES, Rows, footnote, legend, log_axis, nothing, plain
from scripts.tables.columns import number_text

_LOOKS = {"start": (SERIES[5], ""), "faster": (SERIES[0], ""), "slower": (SERIES[1], "//")}  # colour, hatch
_NAMES = {"start": "where it begins", "faster": "faster than the rung below", "slower": "slower"}
_WIDTH = 36  # characters in a line beside or within the axis
_ACROSS = 72  # characters of a number that fit across the axis
_LEAST_SPAN = 10  # of the scale, in times: fewer have no tick


def ladder(tables: Mapping[str, Any]) -> Figure:
    """Return a row per rung: a bar from the speed of the rung below to its own, with both as numbers.

    The scale is logarithmic. A rung without a speed has its reason in words instead.
    """
    rungs = tables["ladder"]
    known = [row for row in rungs if row["clips_per_second"] is not None]
    if not known:
        return nothing(_without_speeds(rungs), [])
    speeds = [row["clips_per_second"] for row in known]
    left = min(speeds) / 2
    figure, axis = plt.subplots(figsize=(8, 1.3 + 0.56 * len(rungs)))
    room = min(0.75, max(len(_numbers(row)) for row in known) / _ACROSS)  # right of the bars, as a share of the axis
    axis.set_xlim(left, left * max((max(speeds) / left) ** (1 / (1 - room)), _LEAST_SPAN))
    log_axis(axis, "x")
    drawn = _bars(axis, rungs, left)
    _axes(axis, rungs)
    legend(figure, [Patch(label=_NAMES[kind], **_look(kind)) for kind in _NAMES if kind in drawn])
    notes = [f"Step {row['step']}: {row['reason']}." for row in known if row["reason"]]
    tiers = ", ".join(dict.fromkeys(plain(row["tier"]) for row in known))
    about = f"Measured on tier {tiers}, warm cache. Beside each bar: the median in clips per second"
    gains = ", and how many times faster that is than the rung below, with the 99 % interval" if len(known) > 1 else ""
    footnote(figure, [], [f"{about}{gains}.", *notes])
    return figure


def _without_speeds(rungs: Rows) -> str:
    if not rungs:
        return "The ladder was not measured: preset: ladder in config.yaml climbs it, one optimisation at a time."
    lost = rungs[0]
    reason = " ".join(_lines(lost["reason"] or "", 4))
    return f"No rung of the ladder has a verified speed. Step {lost['step']}, {lost['status']}: {reason}"


def _look(kind: str) -> dict[str, Any]:
    colour, hatch = _LOOKS[kind]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": PAPER, "linewidth": 0}


def _bars(axis: Axes, rungs: Rows, left: float) -> set[str]:
    """Draw each rung's bar, or why there is none; return the kinds of bars that were drawn."""
    below: tuple[float, float] | None = None  # place and speed of the last bar
    kinds = set()
    for place, row in enumerate(rungs):
        speed = row["clips_per_second"]
        if speed is None:
            _reason(axis, place, row, below[1] if below else left)
            continue
        start = below[1] if below else left
        kind = "start" if below is None else "faster" if speed >= start else "slower"
        kinds.add(kind)
        low, high = sorted((start, speed))
        axis.barh(place, high - low, left=low, height=0.62, zorder=2, **_look(kind))
        if below is not None:
            axis.plot([start, start], [below[0] - 0.31, place + 0.31], color=INK, linewidth=0.8, zorder=3)
        axis.plot([speed, speed], [place - 0.31, place + 0.31], color=INK, linewidth=1.6, zorder=4)
        if row["interval_low"] is not None:
            axis.plot([row["interval_low"], row["interval_high"]], [place, place], color=INK, linewidth=1.2, zorder=4)
        end = max(high, row["interval_high"] or 0)
        axis.annotate(_numbers(row), (end, place), zorder=5, **LABEL)
        below = (place, speed)
    return kinds


def _numbers(row: Mapping[str, Any]) -> str:
    """Return a rung's speed, and its gain with the interval, or that it may be none."""
    speed = number_text(row["clips_per_second"])
    if row["times_faster"] is None:
        return speed
    gain = f"{speed}   \N{MULTIPLICATION SIGN}{number_text(row['times_faster'])}"
    if row["faster_low"] is None:
        return f"{gain} (one run: no interval)"
    if row["faster_low"] <= 1 <= row["faster_high"]:
        return f"{gain} (not told apart)"
    return f"{gain} ({number_text(row['faster_low'])} to {number_text(row['faster_high'])})"


def _reason(axis: Axes, place: int, row: Mapping[str, Any], speed: float) -> None:
    """Write why a rung has no speed beside the line that passes it, on the side with more room."""
    low, high = map(math.log, axis.get_xlim())
    on_the_left = math.log(speed) - low > (high - low) / 2
    text = "\n".join(_lines(f"{row['status']}: {row['reason']}", 3))
    align = {"ha": "right", "xytext": (-6, 0)} if on_the_left else {"ha": "left", "xytext": (6, 0)}
    axis.annotate(text, (speed, place), zorder=5, **LABEL | align)


def _lines(text: str, most: int) -> list[str]:
    """Return a text from outside as lines of a figure."""
    return [plain(line) for line in textwrap.wrap(text, _WIDTH, max_lines=most, placeholder=" ...")]


def _axes(axis: Axes, rungs: Rows) -> None:
    names = ["\n".join([*_lines(f"{row['step']}. {row['change']}", 2), plain(row["loader"])]) for row in rungs]
    axis.set_yticks(range(len(rungs)), names)
    axis.set_ylim(len(rungs) - 0.5, -0.5)
    axis.set_xlabel("clips per second (logarithmic scale: bars of one length are one gain in times)")
    axis.grid(axis="y", visible=False)
