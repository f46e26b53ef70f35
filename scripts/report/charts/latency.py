"""The figure of how evenly batches come: the share of batches that came within a time, with p50 and p99."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scripts.report.charts._parts import (
    MOST_LINES,
    PAPER,
    RULE,
    Rows,
    by_place,
    footnote,
    limit_note,
    log_axis,
    nothing,
    panel_rows,
    place_title,
    plain,
    series_look,
    side_legend,
    traversing,
)
from scripts.tables.columns import number_text

_FEW_BATCHES = 100  # below, the slowest of a hundred is not known
_SHOWN = (50, 99)  # percent

Key = tuple[str, str, str]  # loader, tier and slug
Quantiles = dict[float, float]  # milliseconds by percent


def latency(tables: Mapping[str, Any]) -> Figure:
    """Return the distribution of the time from one batch to the next, a panel per tier and a line per loader.

    Of traversing with a warm cache, at the settings with which each loader is fastest.
    """
    quantiles, batches = _quantiles(tables["latencies"])
    places = by_place((row for row in traversing(tables["best"]) if _key(row) in quantiles), tables)
    if not places:
        text = "No loader has noted the time from one batch to the next: it is of results that traverse from a warm "
        return nothing(f"{text}cache, in epochs of at least two batches.", [])
    shown = {place: rows[:MOST_LINES] for place, rows in places.items()}
    drawn = [row for rows in shown.values() for row in rows]
    look = series_look(row["loader"] for row in drawn)
    figure, axes = panel_rows([max(2.5, 0.6 + 0.34 * len(rows)) for rows in shown.values()])
    several_sizes = len({row["batch_size"] for row in drawn}) > 1
    times = [ms for row in drawn for ms in quantiles[_key(row)].values() if ms > 0] or [1.0]
    for axis, (place, rows) in zip(axes, shown.items(), strict=True):
        axis.set_xlim(min(times) / 1.3, max(times) * 1.3)
        _panel(axis, rows, quantiles, look, several_sizes)
        axis.set_title(place_title(place, places))
    few = sorted({plain(row["loader"]) for row in drawn if batches[_key(row)] < _FEW_BATCHES})
    notes = [f"Fewer than {_FEW_BATCHES} batches, so that p99 is hardly known: {', '.join(few)}."] if few else []
    footnote(figure, [], limit_note(MOST_LINES, max(map(len, places.values()))) + notes)
    return figure


def _quantiles(latencies: Rows) -> tuple[dict[Key, Quantiles], dict[Key, int]]:
    """Return of each result the milliseconds by percent, and the number of batches."""
    quantiles: dict[Key, Quantiles] = {}
    for row in latencies:
        quantiles.setdefault(_key(row), {})[row["percent"]] = row["milliseconds"]
    return quantiles, {_key(row): row["batches"] for row in latencies}


def _key(row: Mapping[str, Any]) -> Key:
    return row["loader"], row["tier"], row["slug"]


def _panel(
    axis: Axes, rows: Rows, quantiles: Mapping[Key, Quantiles], look: Mapping[str, Any], several_sizes: bool
) -> None:
    handles = []
    for row in rows:
        found, style = quantiles[_key(row)], look[row["loader"]]
        percents = sorted(found)
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.5}
        axis.plot([found[percent] for percent in percents], percents, **line)
        for percent, fill in zip(_SHOWN, (style["color"], PAPER), strict=True):
            dot = {"marker": style["marker"], "color": style["color"], "markerfacecolor": fill, "markersize": 6}
            axis.plot(found[percent], percent, zorder=4, **dot)
        middle, high = (number_text(found[percent]) for percent in _SHOWN)
        size = f", batch {row['batch_size']}" if several_sizes else ""
        label = f"{plain(row['loader'])}{size}\np50 {middle} ms, p99 {high} ms"
        handles.append(Line2D([], [], marker=style["marker"], label=label, **line))
    for percent in _SHOWN:
        axis.axhline(percent, color=RULE, linewidth=1, zorder=1)
    log_axis(axis, "x")
    axis.set(
        xlabel="milliseconds from one batch to the next (logarithmic scale)", ylabel="% of batches", ylim=(-2, 104)
    )
    axis.set_yticks([0, 25, 50, 75, 99])
    axis.grid(axis="y", visible=False)
    side_legend(axis, handles)
