"""The figures of clips/s and of the time to the first batch: a row per loader, its runs, its median, the bounds."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scripts.report.charts._parts import (
    BOUND,
    INK,
    TICK,
    Rows,
    footnote,
    legend,
    limit_note,
    loader_rows,
    nothing,
    number_at,
    number_axis,
    panel_rows,
    plain,
    result_row,
    tier_handles,
    tier_look,
    tiers_of,
    values_of,
)
from scripts.report.charts.training import TRAINING
from scripts.tables.columns import number_text, panels

_ROW_BOUNDS = ("storage", "compute")  # bounds that differ from row to row
_MOST_ROWS, _LEAST_ROWS = 48, 10  # loaders: of all panels together, and of one panel at least


def throughput(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s by loader and tier at each one's best settings: every run, the median, the bounds."""
    return _by_loader(tables, "clips_per_second", "clips per second, more is better", fastest=max)


def first_batch(tables: Mapping[str, Any]) -> Figure:
    """Return seconds from before construction to the first batch, by loader and tier, at the settings of throughput."""
    label = "seconds to the first batch, construction included, less is better"
    return _by_loader(tables, "first_batch_seconds", label, fastest=min)


def _by_loader(tables: Mapping[str, Any], column: str, label: str, fastest: Callable[..., float]) -> Figure:
    every = [row for row in tables["best"] if row["task"] not in TRAINING]
    names = panels(row for row in every if row[column] is not None)
    if not names:
        return nothing("No loader has a verified result to draw.", every)
    tiers, most = tiers_of(tables), max(_LEAST_ROWS, _MOST_ROWS // len(names))
    ordered = {panel: _loaders(every, panel, column, fastest) for panel in names}
    loaders = {panel: found[:most] for panel, found in ordered.items()}
    figure, axes = panel_rows([0.7 + len(loaders[panel]) * max(0.3, 0.19 * len(tiers)) for panel in names])
    values = values_of(tables["runs"], column)
    for axis, panel in zip(axes, names, strict=True):
        best = [row for row in every if row["panel"] == panel and row["tier"] and row["loader"] in loaders[panel]]
        _rows_of_points(axis, best, values, column, loaders[panel], tiers)
        if column == "clips_per_second":
            _bound_lines(axis, tables["bounds"], {_work(row) for row in best if row["bound"] == "warm"})
        number_axis(axis, label)
        axis.set_title(panel if len(names) > 1 else "", loc="left")
    handles = [*tier_handles(tiers, tiers), Line2D([], [], label="median", **TICK)]
    if column == "clips_per_second" and any(row["bound"] in _ROW_BOUNDS for row in every):
        handles.append(Line2D([], [], label="bound of the row", **TICK | {"markeredgecolor": BOUND}))
    legend(figure, handles)
    undrawn = [row for row in every if not row["tier"] or row["loader"] not in loaders.get(row["panel"], ())]
    footnote(figure, undrawn, limit_note(most, max(map(len, ordered.values()))))
    return figure


def _work(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["device"], row["batch_size"]


def _loaders(best: Rows, panel: str, column: str, fastest: Callable[..., float]) -> list[str]:
    """Return the loaders of a panel, best first, those without a value last."""
    values: dict[str, list[float]] = {}
    for row in best:
        if row["panel"] == panel and row["tier"]:
            values.setdefault(row["loader"], []).extend([] if row[column] is None else [row[column]])
    sign = -1 if fastest is max else 1
    return sorted(values, key=lambda name: (not values[name], sign * fastest(values[name], default=0), name))


def _rows_of_points(
    axis: Axes, best: Rows, values: Mapping[Any, list[float]], column: str, loaders: list[str], tiers: list[str]
) -> None:
    """Draw a row per loader, within it one per tier: a marker for every run, a tick and a number for the median."""
    look, tiers = tier_look(tiers), [tier for tier in tiers if tier in {row["tier"] for row in best}]
    step = 0.7 / len(tiers)
    largest = max(_bound(row) or row[column] or 0.0 for row in best)
    for row in best:
        y = loaders.index(row["loader"]) + (tiers.index(row["tier"]) - (len(tiers) - 1) / 2) * step
        if row[column] is None:
            word = f"{plain(row['tier'])}: {row['status']}"
            axis.annotate(word, (0.01, y), xycoords=("axes fraction", "data"), va="center", size=8)
            continue
        of_runs = values[row["loader"], row["tier"], row["slug"]]
        end = result_row(axis, row, of_runs, y, step * 0.42, look[row["tier"]], column)
        bound = _bound(row) if column == "clips_per_second" else None
        if bound:
            axis.plot([bound] * 2, [y - step * 0.45, y + step * 0.45], color=BOUND, linewidth=2.4, zorder=4)
            if end < bound < max(1.3 * end, end + 0.12 * largest):
                end = bound  # which the number would cover
        number_at(axis, row[column], end, y)
    loader_rows(axis, loaders)


def _bound(row: Mapping[str, Any]) -> float | None:
    """Return the bound that is this row's own and no line through the panel."""
    return row["bound_clips_per_second"] if row["bound"] in _ROW_BOUNDS else None


def _bound_lines(axis: Axes, bounds: Rows, applying: set[tuple[str, int]]) -> None:
    """Draw the warm bounds of these (device, batch size) as lines, with their numbers above the panel."""
    styles = (("dashed", "--"), ("dotted", ":"), ("dash-dotted", "-."))
    labels = []
    fitting = [row for row in bounds if row["bound"] == "warm" and _work(row) in applying]
    for number, row in enumerate(row for row in fitting if row["clips_per_second"]):
        name, style = styles[number % len(styles)]
        axis.axvline(row["clips_per_second"], color=INK, linestyle=style, linewidth=1.2)
        speed = number_text(row["clips_per_second"])
        labels.append(f"{name}: the {row['bound']} bound for batch {row['batch_size']}, {speed} clips/s")
    axis.set_title("\n".join(labels), loc="right", fontsize=8, fontweight="normal")
