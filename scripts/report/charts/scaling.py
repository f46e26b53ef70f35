"""The figures of clips/s against workers and against batch size: a panel per loader."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scripts.report.charts._parts import (
    NUMBERS,
    Rows,
    count_ticks,
    footnote,
    legend,
    limit_note,
    nothing,
    plain,
    tier_handles,
    tier_look,
    tiers_of,
)
from scripts.report.charts.training import TRAINING
from scripts.tables.columns import panels

_MOST_PANELS, _LEAST_PANELS = 18, 3  # of the figure, and of one device and condition at least

Key = tuple[str, str]  # loader and panel


def scaling(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s against workers, a panel per loader and a line per tier: the median and the range of its runs.

    Of several settings with the same number of workers the fastest is drawn.
    """
    return _scaling(tables, "workers", "workers", ("number of workers", "numbers of workers"))


def batch_size(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s against batch size, in the same form; of several settings with one batch size the fastest."""
    return _scaling(tables, "batch_size", "clips in a batch", ("batch size", "batch sizes"))


def _scaling(tables: Mapping[str, Any], column: str, label: str, names: tuple[str, str]) -> Figure:
    """Return the figure of a column; `names` has what its values are called, one of them and several."""
    lost = [row for row in tables["best"] if row["task"] not in TRAINING]
    fastest = _fastest(tables["ranking"], column)
    several = {key: rows for key, rows in fastest.items() if len({row[column] for row in rows}) > 1}
    if not several:
        text = f"No loader has verified results for two {names[1]}: sweep.{column} in config.yaml lists them."
        return nothing(text, lost)
    drawn, most = _limited(several)
    columns = min(3, len(drawn))
    lines = -(-len(drawn) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(8, 0.9 + 1.9 * lines), squeeze=False)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    tiers, conditions = tiers_of(tables), panels(row for key in drawn for row in several[key])
    for number, (axis, (loader, panel)) in enumerate(zip(axes.flat, drawn, strict=False)):
        _panel(axis, several[loader, panel], column, tiers)
        axis.set_title(plain(loader) + (f"\n{panel}" if len(conditions) > 1 else ""))
        axis.set_xlabel(label if number + columns >= len(drawn) else "")
        axis.set_ylabel("clips per second" if number % columns == 0 else "")
    legend(figure, tier_handles(tiers, {row["tier"] for key in drawn for row in several[key]}))
    single = sorted({plain(loader) for loader, _ in fastest} - {plain(loader) for loader, _ in several})
    notes = [f"One {names[0]} only: {', '.join(single)}."] if single else []
    alone = [panel for panel in panels(row for rows in fastest.values() for row in rows) if panel not in conditions]
    notes += [f"One {names[0]} only for all loaders: {'; '.join(alone)}."] if alone else []
    notes += limit_note(most, max(sum(panel == other for _, other in several) for panel in conditions), "fastest")
    footnote(figure, lost, notes)
    return figure


def _fastest(ranking: Rows, column: str) -> dict[Key, Rows]:
    """Return of each loader and panel, for each tier and value of `column`, the fastest row; the ranking is sorted."""
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in ranking:
        if row["status"] == "ok" and row[column] is not None and row["task"] not in TRAINING:
            first.setdefault((row["loader"], row["tier"], row["panel"], row[column]), row)
    found: dict[Key, Rows] = {}
    for row in first.values():
        found.setdefault((row["loader"], row["panel"]), []).append(row)
    return found


def _limited(found: Mapping[Key, Rows]) -> tuple[list[Key], int]:
    """Return the loaders that are drawn of each panel, the fastest first, and how many those are at most."""
    names = panels(row for rows in found.values() for row in rows)
    most = max(_LEAST_PANELS, _MOST_PANELS // len(names))
    return [key for name in names for key in [key for key in found if key[1] == name][:most]], most


def _panel(axis: Axes, rows: Rows, column: str, tiers: list[str]) -> None:
    for tier, (marker, colour) in tier_look(tiers).items():
        line = sorted((row for row in rows if row["tier"] == tier), key=lambda row: row[column])
        if line:
            middle = [row["clips_per_second"] for row in line]
            down = [row["clips_per_second"] - row["lowest"] for row in line]
            up = [row["highest"] - row["clips_per_second"] for row in line]
            look = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.5, "elinewidth": 1.2}
            axis.errorbar([row[column] for row in line], middle, yerr=(down, up), capsize=2, **look)
    if column == "batch_size":
        axis.set_xscale("log", base=2)
    count_ticks(axis, (row[column] for row in rows), most=9)
    axis.set_ylim(0, max(row["highest"] for row in rows) * 1.1)
    axis.yaxis.set_major_locator(MaxNLocator(4))
    axis.yaxis.set_major_formatter(NUMBERS)
    axis.grid(axis="x", visible=False)
