"""Workers against batch size: a table of items/s for each loader, its cells coloured by speed."""

import textwrap
from typing import Any

from scripts.report.charts import _print as paper
from scripts.report.charts._common import INK, PAPER, Figure, Rows, Tables, first_of, grouped, place, reading, results
from scripts.tables.columns import number_text

TITLE = "Workers against batch size"
QUESTION = "Which of both together?"
DATA = "ranking.csv"
CATEGORY, ORDER, SECTION = "4 Settings", 80, "scaling"
CAPTION = (
    "Items per second by number of workers (or threads) and batch size, when reading with a warm cache. Of several "
    "results with the same two numbers, the fastest. More of either helps up to a point; batches that processes hand "
    "over cost more the larger they are."
)
NEEDS = (
    "a loader with verified results for two numbers of workers and two batch sizes: `preset: concurrency` in "
    "config.yaml measures them"
)
_COLOURS = "cividis"  # from dark to light without a break, for the colour-blind and for a grey printer
_ON_LIGHT, _ON_DARK = "#000000", "#fefefe"  # not INK and PAPER, which change in dark mode: the cells do not
_LOG_FROM = 10  # on a linear scale of colours, values this many times below the highest all look alike
_NONE = "-"  # in a cell without a verified speed
_MOST_PANELS = 18


def rows(tables: Tables) -> Rows:
    """Return items/s by number of workers and batch size, the loader with the fastest cell first.

    Of loaders, devices and tiers with two numbers of workers and two batch sizes and more.
    """
    names = ("workers", "batch_size", "items_per_second")
    found = [
        {**common, "group": f"{row['loader']}, {place(row)}", **{name: row[name] for name in names}}
        for row, common in results(tables, "ranking")
        if reading(row) and row["cache"] == "warm" and row["workers"] is not None
    ]
    cells = first_of(found, "group", "workers", "batch_size")
    groups = grouped((cells[name] for name in sorted(cells)), "group").values()
    swept = [one for one in groups if all(len({row[name] for row in one}) > 1 for name in ("workers", "batch_size"))]
    swept.sort(key=lambda one: (one[0]["tier_number"], -max(row["items_per_second"] for row in one)))
    return [row for one in swept for row in one]


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per loader, device and tier, all on one scale of colours."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    drawn = grouped(rows, "group")
    shown = list(drawn.items())[:_MOST_PANELS]
    sizes = [[len({row[name] for row in found}) for _, found in shown] for name in ("workers", "batch_size")]
    columns = min(len(shown), 3 if max(sizes[0]) <= 4 else 2)
    figure, axes = paper.grid(len(shown), columns, 0.9 + 0.32 * max(3, *sizes[1]), 0.5)
    speeds = [row["items_per_second"] for _, found in shown for row in found]
    logarithmic = max(speeds) > _LOG_FROM * min(speeds)
    scale = LogNorm(min(speeds), max(speeds)) if logarithmic else Normalize(0, max(speeds))
    for axis, (name, found) in zip(axes, shown, strict=True):
        mesh = _panel(axis, found, scale)
        axis.set_title("\n".join(textwrap.wrap(paper.plain(name), 72 // columns)))
    label = "items per second" + ("\n(logarithmic scale)" if logarithmic else "")
    ticks = LogLocator(subs=(1, 3)) if logarithmic else MaxNLocator(5)
    look = {"format": paper.plain_numbers(), "ticks": ticks, "aspect": 30, "pad": 0.02}
    bar = figure.colorbar(mesh, ax=figure.axes, label=label, **look)
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.outline.set_visible(False)
    bar.solids.set_rasterized(False)
    bar.solids.set_edgecolor("face")  # without it browsers draw hairlines between the colours
    gaps = any(width * height > len(found) for width, height, (_, found) in zip(*sizes, shown, strict=True))
    lost = list(drawn)[_MOST_PANELS:]
    notes = [f"{_NONE}: no verified speed."] if gaps else []
    paper.footnote(figure, notes + ([f"Not drawn here: {'; '.join(map(paper.plain, lost))}."] if lost else []))
    return figure


def _panel(axis: Any, rows: Rows, scale: Any) -> Any:
    """Draw one loader's cells, each with its number; return what the colour bar is made of."""
    import numpy as np

    cells = {(row["workers"], row["batch_size"]): row["items_per_second"] for row in rows}
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
    axis.spines[:].set_visible(False)
    return mesh
