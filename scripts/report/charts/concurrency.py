"""The figure of workers against batch size: a table of clips/s for each loader, its cells coloured on one scale."""

import textwrap
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from scripts.report.charts._parts import INK, PAPER, Rows, footnote, nothing, plain
from scripts.tables.columns import number_text

_COLOURS = "cividis"  # from dark to light without a break, for the colour-blind and for a grey printer
_ON_LIGHT, _ON_DARK = "#000000", "#fefefe"  # not INK and PAPER, which change in dark mode: the cells do not
_LOG_FROM = 10  # on a linear scale of colours, values this many times below the highest all look alike
_NONE = "-"  # in a cell without a verified speed
_NUMBERS = FuncFormatter(lambda value, _: f"{value:,.10g}")

Cells = dict[tuple[int, int], float]  # clips/s by workers and batch size


def concurrency(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s by workers and batch size, a panel per loader (and device) with at least two of both.

    Of traversing with a warm cache, on the first tier that has such results. Of several results with the same workers
    and batch size the fastest is shown.
    """
    by_tier = _by_tier(tables["ranking"])
    order = dict.fromkeys([*(row["tier"] for row in tables["tiers"]), *by_tier])
    tiers = [tier for tier in order if by_tier.get(tier)]
    if not tiers:
        return nothing(
            "No loader has verified results for two numbers of workers times two batch sizes: "
            "traversing with a warm cache, as preset: concurrency in config.yaml measures it.",
            [],
        )
    drawn = by_tier[tiers[0]]
    widest, tallest = (max(len({place[axis] for place in cells}) for cells in drawn.values()) for axis in (0, 1))
    columns = min(len(drawn), 3 if widest <= 4 else 2)
    lines = -(-len(drawn) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(8, 0.5 + lines * (0.9 + 0.32 * max(3, tallest))), squeeze=False
    )
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    scale = _scale([speed for cells in drawn.values() for speed in cells.values()])
    for axis, ((loader, device), cells) in zip(axes.flat, drawn.items(), strict=False):
        mesh = _panel(axis, cells, scale)
        several = len({device for _, device in drawn}) > 1
        title = plain(loader) + (f" ({device.upper()})" if several else "")
        axis.set_title("\n".join(textwrap.wrap(title, 72 // columns)))
    _colour_bar(figure, axes, mesh)
    notes = [f"Measured on tier {plain(tiers[0])}."]
    notes += [f"Not drawn: tier {', '.join(map(plain, tiers[1:]))}."] if tiers[1:] else []
    notes += [f"{_NONE}: no verified speed."] if any(map(_has_gaps, drawn.values())) else []
    footnote(figure, [], [" ".join(notes)])
    return figure


def _scale(speeds: list[float]) -> Normalize:
    """Return the scale of colours that all panels share."""
    if max(speeds) > _LOG_FROM * min(speeds):
        return LogNorm(min(speeds), max(speeds))
    return Normalize(0, max(speeds))


def _colour_bar(figure: Figure, axes: Any, mesh: Any) -> None:
    logarithmic = isinstance(mesh.norm, LogNorm)
    label = "clips per second" + ("\n(logarithmic scale)" if logarithmic else "")
    ticks = LogLocator(subs=(1, 3)) if logarithmic else MaxNLocator(5)
    bar = figure.colorbar(mesh, ax=axes, label=label, format=_NUMBERS, ticks=ticks, aspect=30, pad=0.02)
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.outline.set_visible(False)
    bar.solids.set_rasterized(False)
    bar.solids.set_edgecolor("face")  # without it browsers draw hairlines between the colours


def _has_gaps(cells: Cells) -> bool:
    workers, sizes = map(set, zip(*cells, strict=True))
    return len(cells) < len(workers) * len(sizes)


def _by_tier(ranking: Rows) -> dict[str, dict[tuple[str, str], Cells]]:
    """Return the cells by tier and by (loader, device), the fastest first, of those with two workers and sizes."""
    found: dict[str, dict[tuple[str, str], Cells]] = {}
    for row in ranking:
        plainly = row["task"] == "traverse" and row["cache"] == "warm" and not row["step_ms"]
        if plainly and row["status"] == "ok" and row["workers"] is not None:
            cells = found.setdefault(row["tier"], {}).setdefault((row["loader"], row["device"]), {})
            place = (row["workers"], row["batch_size"])
            cells[place] = max(row["clips_per_second"], cells.get(place, 0.0))
    return {
        tier: dict(sorted(_swept(loaders).items(), key=lambda item: (-max(item[1].values()), item[0])))
        for tier, loaders in found.items()
    }


def _swept(loaders: dict[tuple[str, str], Cells]) -> dict[tuple[str, str], Cells]:
    return {
        key: cells for key, cells in loaders.items() if all(len(set(axis)) > 1 for axis in zip(*cells, strict=True))
    }


def _panel(axis: Axes, cells: Cells, scale: Normalize) -> Any:
    """Draw one loader's cells, each with its number; return what the colour bar is made of."""
    workers, sizes = (sorted(set(values)) for values in zip(*cells, strict=True))
    speeds = np.array([[cells.get((count, size), np.nan) for count in workers] for size in sizes])
    mesh = axis.pcolormesh(np.ma.masked_invalid(speeds), cmap=_COLOURS, norm=scale, edgecolors=PAPER, linewidth=1)
    for line, size in enumerate(sizes):
        for column, count in enumerate(workers):
            speed = cells.get((count, size))
            colour = INK if speed is None else _ON_LIGHT if scale(speed) > 0.5 else _ON_DARK
            text = _NONE if speed is None else number_text(speed)
            axis.text(column + 0.5, line + 0.5, text, ha="center", va="center", size=7.5, color=colour)
    axis.set_xticks(np.arange(len(workers)) + 0.5, workers)
    axis.set_yticks(np.arange(len(sizes)) + 0.5, sizes)
    axis.set(xlabel="workers or threads", ylabel="batch size")
    axis.grid(visible=False)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    return mesh
