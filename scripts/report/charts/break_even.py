"""The figure of break-even epochs: the time spent on each format, conversion included, against the number of epochs."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scripts.report.charts._parts import (
    MOST_LINES,
    PAPER,
    Rows,
    by_place,
    footnote,
    log_axis,
    nothing,
    panel_rows,
    place_title,
    plain,
    series_look,
    side_legend,
)
from scripts.tables.columns import number_text

_LEAST_EPOCHS, _MOST_EPOCHS = 100.0, 1e6  # that the axis ends at
_UNITS = (("hours", 3600), ("minutes", 60))  # and their seconds


def break_even(tables: Mapping[str, Any]) -> Figure:
    """Return the time spent against epochs, a panel per tier and a line per format, by its fastest loader.

    Where a line crosses that of the format which is cheapest to prepare there is a ring: from there on it has paid.
    """
    known = [row for row in tables["break_even"] if None not in (row["prepare_seconds"], row["epoch_seconds"])]
    places = by_place(known, tables)
    if not places:
        text = "No format has both a record of its conversion and a verified loader that traverses it from a warm "
        return nothing(f"{text}cache: task traverse, cache warm in config.yaml.", [])
    shown = {place: _shown(rows) for place, rows in places.items()}
    look, unit = series_look(row["format"] for rows in shown.values() for row in rows), time_unit(known)
    figure, axes = panel_rows([max(2.9, 0.7 + 0.36 * len(rows)) for rows in shown.values()])
    for axis, (place, rows) in zip(axes, shown.items(), strict=True):
        _panel(axis, rows, look, unit)
        axis.set_title(place_title(place, places))
    count = max(map(len, places.values()))
    note = (
        f"Each panel shows the cheapest format and the {MOST_LINES - 1} fastest of up to {count}; the tables hold all."
    )
    footnote(figure, [], [note] if count > MOST_LINES else [])
    return figure


def time_unit(rows: Iterable[Mapping[str, Any]]) -> tuple[str, int]:
    """Return the unit of the time axis and its seconds: that in which 100 epochs of the slowest format take 2 or more.

    The report's chart has it too.
    """
    longest = max(row["prepare_seconds"] + _LEAST_EPOCHS * row["epoch_seconds"] for row in rows)
    return next(((name, seconds) for name, seconds in _UNITS if longest >= 2 * seconds), ("seconds", 1))


def _shown(rows: Rows) -> Rows:
    """Return the format that is the cheapest to prepare and those whose epochs are shortest, in that order."""
    cheapest = min(rows, key=lambda row: (row["prepare_seconds"], row["epoch_seconds"], row["format"]))
    others = [row for row in rows if row is not cheapest]
    return [cheapest, *sorted(others, key=lambda row: (row["epoch_seconds"], row["format"]))][:MOST_LINES]


def _panel(axis: Axes, rows: Rows, look: Mapping[str, Any], unit: tuple[str, int]) -> None:
    crossings = [row["break_even_epochs"] for row in rows if row["break_even_epochs"] is not None]
    end = min(_MOST_EPOCHS, max([_LEAST_EPOCHS, *(3 * epochs for epochs in crossings)]))
    epochs = np.geomspace(1, end, 200)
    handles, highest, lowest = [], [], []
    for row in rows:
        style = look[row["format"]]
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.5}
        spent = (row["prepare_seconds"] + epochs * row["epoch_seconds"]) / unit[1]
        axis.plot(epochs, spent, **line)
        crossing = row["break_even_epochs"]
        if crossing is not None and 1 <= crossing <= end:
            place = (crossing, (row["prepare_seconds"] + crossing * row["epoch_seconds"]) / unit[1])
            ring = {"marker": style["marker"], "color": style["color"], "markerfacecolor": PAPER, "markersize": 8}
            axis.plot(*place, zorder=4, markeredgewidth=1.6, **ring)
        handles.append(Line2D([], [], label=_label(row), marker=style["marker"], **line))
        highest.append(spent[-1])
        lowest.append(spent[0])
    axis.set_xlim(1, end)
    axis.set_ylim(min(lowest) / 1.4, max(highest) * 1.4)
    log_axis(axis, "x")
    log_axis(axis, "y")
    axis.set(xlabel="epochs (logarithmic scale)", ylabel=f"{unit[0]}, conversion included\n(logarithmic scale)")
    side_legend(axis, handles)


def _label(row: Mapping[str, Any]) -> str:
    """Return what the legend says of a format: its loader, and when it has paid."""
    epochs = row["break_even_epochs"]
    if epochs is None:
        paid = row["reason"]
    elif epochs <= 1:
        paid = "pays within the first epoch"
    else:
        paid = f"pays after {number_text(epochs, 2)} epochs"
    return "\n".join([f"{plain(row['format'])}, by {plain(row['loader'])}:", *textwrap.wrap(paid, 36)])
