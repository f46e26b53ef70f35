"""The figure of the distance to the bound: for each tier, what part of what is possible each loader reaches."""

from collections.abc import Collection, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scripts.report.charts._parts import (
    INK,
    MARKERS,
    RULE,
    SERIES,
    Rows,
    by_place,
    footnote,
    legend,
    limit_note,
    loader_rows,
    log_axis,
    nothing,
    panel_rows,
    place_title,
)
from scripts.report.charts.training import TRAINING

_MOST_ROWS = 14  # loaders in a panel
_BOUNDS = {"warm": "what memory allows", "storage": "what its storage allows", "compute": "what the steps allow"}
_LINEAR_FROM = 1.0  # percent: a linear axis shows nothing of what is below

Kind = tuple[str, str]  # condition and bound


def roofline(tables: Mapping[str, Any]) -> Figure:
    """Return percent of the bound that applies, a panel per tier, a row per loader, a marker per condition.

    Of what is no training, at each one's best settings; the loader that comes nearest to its bound first.
    """
    rows = [row for row in tables["best"] if row["percent_of_bound"] and row["task"] not in TRAINING]
    places = by_place(rows, tables)
    if not places:
        text = "No result has a bound to be compared with: the warm one is measured with every campaign, that of the "
        return nothing(f"{text}storage where fio is installed.", [])
    kinds = {_kind(row): None for row in sorted(rows, key=lambda row: (row["cache"] != "warm", row["step_ms"] or 0))}
    looks = {kind: _look(number) for number, kind in enumerate(kinds)}
    loaders = {place: _loaders(found, kinds) for place, found in places.items()}
    shown = {place: names[:_MOST_ROWS] for place, names in loaders.items()}
    figure, axes = panel_rows([0.7 + 0.28 * len(names) for names in shown.values()])
    for axis, (place, names) in zip(axes, shown.items(), strict=True):
        _panel(axis, [row for row in places[place] if row["loader"] in names], names, looks)
        _percent_axis(axis, [row["percent_of_bound"] for row in rows])
        axis.set_title(place_title(place, places))
    handles = [Line2D([], [], label=f"{name}: {_BOUNDS[bound]}", **look) for (name, bound), look in looks.items()]
    legend(figure, handles)
    footnote(figure, [], limit_note(_MOST_ROWS, max(map(len, loaders.values())), "nearest to a bound"))
    return figure


def _look(number: int) -> dict[str, Any]:
    marker, colour = MARKERS[number % len(MARKERS)], SERIES[number % len(SERIES)]
    return {"marker": marker, "color": colour, "linestyle": "", "markersize": 7}


def _kind(row: Mapping[str, Any]) -> Kind:
    """Return under which condition a result was measured, as its panel has it, and the bound that applies."""
    _, _, condition = row["panel"].partition(", ")
    return condition or "warm cache", row["bound"]


def _loaders(rows: Rows, kinds: Collection[Kind]) -> list[str]:
    """Return the loaders, that which is nearest to its bound first: by the first of the kinds that it has."""
    order = list(kinds)
    rows = sorted(rows, key=lambda row: (order.index(_kind(row)), -row["percent_of_bound"], row["loader"]))
    return list(dict.fromkeys(row["loader"] for row in rows))


def _panel(axis: Axes, rows: Rows, loaders: list[str], looks: Mapping[Kind, Any]) -> None:
    axis.axvline(100, color=INK, linestyle="--", linewidth=1.2)
    for row in rows:
        y, percent = loaders.index(row["loader"]), row["percent_of_bound"]
        axis.plot([percent, 100], [y, y], color=RULE, linewidth=1.2, zorder=1)
        low, high = row["interval_low"], row["interval_high"]
        if low is not None and high is not None:
            ends = [100 * end / row["bound_clips_per_second"] for end in (low, high)]
            axis.plot(ends, [y, y], color=INK, linewidth=1, zorder=2)
        axis.plot(percent, y, zorder=3, **looks[_kind(row)])
    loader_rows(axis, loaders)


def _percent_axis(axis: Axes, percents: Collection[float]) -> None:
    """Give the x axis the range of all panels, by logarithms where some are below 1 %."""
    label, lowest, highest = (
        "% of the bound that applies (dashed), more is better",
        min(percents),
        max(100.0, *percents),
    )
    if lowest < _LINEAR_FROM:
        axis.set_xlim(lowest / 1.5, highest * 1.3)
        log_axis(axis, "x")
        label += " (logarithmic scale)"
    else:
        axis.set_xlim(0, highest * 1.05)
    axis.set_xlabel(label)
