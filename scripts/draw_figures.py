"""Draws the report's figures from the tables, each as SVG and PNG: see `FIGURES`, at the end.

    python scripts/draw_figures.py --tables results/tables/demo --out report/figures

Tiers differ in colour and in marker, so that the figures survive a grey printer. The same tables give the same bytes.
"""

import argparse
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from errors import run_main
from figure_concurrency import concurrency
from figure_parts import INK, PAPER, RULE, Rows, footnote, legend, nothing, plain
from files import whole_file
from tables import number_text, panels, read_tables

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
TRAINING = ("train", "lightning")  # tasks with a figure of their own
BOUND = "#6e7781"  # legible on light and on dark paper
_ROW_BOUNDS = ("storage", "compute")  # bounds that differ from row to row
_TICK = {"color": INK, "marker": "|", "markersize": 10, "markeredgewidth": 1.2, "linestyle": ""}
_LOG_FROM = 100  # a linear axis shows no difference among values this many times smaller than its end
_RC = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "axes.edgecolor": RULE, "grid.color": RULE,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "grid.linewidth": 0.7,
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "legend.frameon": False,
    "font.size": 9, "axes.labelsize": 9, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9,
    "font.family": "DejaVu Sans", "text.parse_math": False, "figure.constrained_layout.use": True,
    "svg.hashsalt": "feedrate", "savefig.dpi": 150,
}  # fmt: skip
_LABEL = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "size": 8}
_LABEL |= {"bbox": {"boxstyle": "square,pad=0.1", "facecolor": PAPER, "linewidth": 0}}
_NUMBERS = FuncFormatter(lambda value, _: f"{value:,.10g}")
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def throughput(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s by loader and tier at each one's best settings: every run, the median, the bounds."""
    return _by_loader(tables, "clips_per_second", "clips per second, more is better", fastest=max)


def first_batch(tables: Mapping[str, Any]) -> Figure:
    """Return seconds from before construction to the first batch, by loader and tier, at the settings of throughput."""
    label = "seconds to the first batch, construction included, less is better"
    return _by_loader(tables, "first_batch_seconds", label, fastest=min)


def _by_loader(tables: Mapping[str, Any], column: str, label: str, fastest: Callable[..., float]) -> Figure:
    every = _reading(tables["best"])
    names = panels(row for row in every if row[column] is not None)
    if not names:
        return nothing("No loader has a verified result to draw.", every)
    tiers = _tiers(tables)
    loaders = {panel: _loaders(every, panel, column, fastest) for panel in names}
    heights = [0.7 + len(loaders[panel]) * max(0.3, 0.19 * len(tiers)) for panel in names]
    figure, axes = plt.subplots(
        len(names), figsize=(8, sum(heights) + 0.8), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for axis, panel in zip(axes[:, 0], names, strict=True):
        best = [row for row in every if row["panel"] == panel and row["tier"]]
        _rows_of_points(axis, best, tables["runs"], column, loaders[panel], tiers)
        if column == "clips_per_second":
            _bound_lines(axis, tables["bounds"], {_work(row) for row in best if row["bound"] == "warm"})
        _number_axis(axis, label)
        axis.set_title(panel if len(names) > 1 else "", loc="left")
    handles = [*_tier_handles(tiers), Line2D([], [], label="median", **_TICK)]
    if column == "clips_per_second" and any(row["bound"] in _ROW_BOUNDS for row in every):
        handles.append(Line2D([], [], label="bound of the row", **_TICK | {"markeredgecolor": BOUND}))
    legend(figure, handles)
    footnote(figure, [row for row in every if row["panel"] not in names or not row["tier"]])
    return figure


def _reading(rows: Rows) -> Rows:
    """Return the results of what is no training, which has a figure of its own."""
    return [row for row in rows if row["task"] not in TRAINING]


def _work(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["device"], row["batch_size"]


def _rows_of_points(axis: Axes, best: Rows, runs: Rows, column: str, loaders: list[str], tiers: list[str]) -> None:
    """Draw a row per loader, within it one per tier: a marker for every run, a tick and a number for the median."""
    look, tiers = _look(tiers), [tier for tier in tiers if tier in {row["tier"] for row in best}]
    step = 0.7 / len(tiers)
    largest = max(_bound(row) or row[column] or 0.0 for row in best)
    for row in best:
        y = loaders.index(row["loader"]) + (tiers.index(row["tier"]) - (len(tiers) - 1) / 2) * step
        if row[column] is None:
            word = f"{plain(row['tier'])}: {row['status']}"
            axis.annotate(word, (0.01, y), xycoords=("axes fraction", "data"), va="center", size=8)
            continue
        end = _row(axis, row, _values(runs, row, column), y, step * 0.42, look[row["tier"]], column)
        bound = _bound(row) if column == "clips_per_second" else None
        if bound:
            axis.plot([bound] * 2, [y - step * 0.45, y + step * 0.45], color=BOUND, linewidth=2.4, zorder=4)
            if end < bound < max(1.3 * end, end + 0.12 * largest):
                end = bound  # which the number would cover
        axis.annotate(number_text(row[column]), (end, y), zorder=5, **_LABEL)
    axis.set_yticks(range(len(loaders)), [plain(loader) for loader in loaders])
    axis.set_ylim(len(loaders) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def _bound(row: Mapping[str, Any]) -> float | None:
    """Return the bound that is this row's own and no line through the panel."""
    return row["bound_clips_per_second"] if row["bound"] in _ROW_BOUNDS else None


def _values(runs: Rows, row: Mapping[str, Any], column: str) -> list[float]:
    """Return what the runs of a result have in a column, those alone that have something."""
    names = ("loader", "tier", "slug")
    return [run[column] for run in runs if run[column] is not None and all(run[name] == row[name] for name in names)]


def _row(
    axis: Axes, row: Mapping[str, Any], values: list[float], y: float, half: float, look: tuple[str, Any], column: str,
    hollow: bool = False,
) -> float:  # fmt: skip
    """Draw a result at height `y`: its runs, a bar for the median's interval (or the range), the median.

    Return the place where all that ends on the right.
    """
    marker, colour = look
    low, high = (row["interval_low"], row["interval_high"]) if column == "clips_per_second" else (None, None)
    ends = [min(values), max(values)] if low is None or high is None else [low, high]
    fill = {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.2} if hollow else {"color": colour, "linewidth": 0}
    axis.scatter(values, [y] * len(values), s=30, marker=marker, alpha=0.6, zorder=3, **fill)
    axis.plot(ends, [y, y], color=INK, linewidth=1, marker="|", markersize=5, zorder=4)
    axis.plot([row[column]] * 2, [y - half, y + half], color=INK, linewidth=1.4, zorder=4)
    return max(*values, *ends)


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


def _number_axis(axis: Axes, label: str) -> None:
    """Begin the x axis at 0, or scale it by logarithms where the values span too much, and say so."""
    values = [float(x) for line in axis.lines for x in line.get_xdata() if x > 0]
    logarithmic = max(values) > _LOG_FROM * min(values)
    if logarithmic:
        axis.set_xscale("log")
        axis.set_xlim(min(values) / 2, max(values) * 3)
        many = max(values) > 1e4 * min(values)
        axis.xaxis.set_major_locator(LogLocator(subs=(1,) if many else (1, 3)))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.xaxis.set_minor_locator(NullLocator())
    else:
        axis.set_xlim(0, max(values) * 1.15)
    axis.xaxis.set_major_formatter(_NUMBERS)
    axis.set_xlabel(f"{label} (logarithmic scale)" if logarithmic else label)


def scaling(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s against workers, a panel per loader and a line per tier: the median and the range of its runs.

    Of several settings with the same number of workers the fastest is drawn.
    """
    chosen = _best_by_workers(_reading(tables["ranking"]))
    counts: dict[tuple[str, str], set[int]] = {}
    for row in chosen:
        counts.setdefault((row["loader"], row["panel"]), set()).add(row["workers"])
    drawn = [key for key, workers in counts.items() if len(workers) > 1]
    if not drawn:
        return nothing("No loader has verified results for two numbers of workers.", tables["best"])
    keys = {(row["loader"], row["tier"], row["slug"]) for row in chosen}
    frame = pd.DataFrame(run for run in tables["runs"] if (run["loader"], run["tier"], run["slug"]) in keys)
    frame = frame[frame.status == "ok"]
    columns = min(3, len(drawn))
    lines = -(-len(drawn) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(8, 0.9 + 1.9 * lines), squeeze=False)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    tiers = _tiers(tables)
    for axis, (loader, panel) in zip(axes.flat, drawn, strict=False):
        _scaling_panel(axis, frame[(frame.loader == loader) & (frame.panel == panel)], tiers)
        axis.set_title(plain(loader) + (f" ({panel})" if len(panels(chosen)) > 1 else ""))
    legend(figure, _tier_handles(tiers))
    left_out = sorted({plain(loader) for loader, panel in counts if (loader, panel) not in drawn})
    lines_below = [f"One number of workers only: {', '.join(left_out)}."] if left_out else []
    footnote(figure, tables["best"], lines_below)
    return figure


def _best_by_workers(ranking: Rows) -> Rows:
    """Return of each loader, tier, panel and number of workers the fastest row; the ranking is sorted."""
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in ranking:
        if row["status"] == "ok" and row["workers"] is not None:
            first.setdefault((row["loader"], row["tier"], row["panel"], row["workers"]), row)
    return list(first.values())


def _scaling_panel(axis: Axes, frame: pd.DataFrame, tiers: list[str]) -> None:
    present = [tier for tier in tiers if tier in set(frame.tier)]
    look = _look(tiers)
    sns.lineplot(
        frame, x="workers", y="clips_per_second", hue="tier", style="tier", hue_order=present, style_order=present,
        palette={tier: look[tier][1] for tier in present}, markers={tier: look[tier][0] for tier in present},
        dashes=False, estimator="median", errorbar=("pi", 100), err_style="bars", markersize=7, legend=False, ax=axis,
    )  # fmt: skip
    axis.set_ylim(0, frame.clips_per_second.max() * 1.1)
    axis.xaxis.set_major_locator(FixedLocator(sorted(set(frame.workers))))
    axis.yaxis.set_major_locator(MaxNLocator(4))
    axis.yaxis.set_major_formatter(_NUMBERS)
    axis.set(xlabel="workers", ylabel="clips per second")
    axis.grid(axis="x", visible=False)


def training(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s in training by loader and tier, bare and by Lightning, at each one's fastest settings."""
    lost = [row for row in tables["best"] if row["task"] in TRAINING and row["status"] != "ok"]
    results = {(row["loader"], row["tier"], row["slug"]): row for row in tables["ranking"] if row["status"] == "ok"}
    fastest: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in sorted(tables["training"], key=_fastest_training):
        fastest.setdefault((row["device"], row["loader"], row["tier"]), row)
    if not fastest:
        return nothing("No loader has a verified training to draw.", lost)
    devices = list(dict.fromkeys(sorted(device for device, _, _ in fastest)))
    loaders = {
        device: list(dict.fromkeys(loader for other, loader, _ in fastest if other == device)) for device in devices
    }
    look, tiers = _look(_tiers(tables)), [tier for tier in _tiers(tables) if tier in {key[2] for key in fastest}]
    heights = [0.7 + len(loaders[device]) * max(0.45, 0.38 * len(tiers)) for device in devices]
    figure, axes = plt.subplots(
        len(devices), figsize=(8, sum(heights) + 0.8), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    step = 0.76 / (len(tiers) * len(TRAINING))
    for axis, device in zip(axes[:, 0], devices, strict=True):
        for row in (row for (other, _, _), row in fastest.items() if other == device):
            for place, task in enumerate(TRAINING):
                result = results.get((row["loader"], row["tier"], f"{row['slug']}-{task}"))
                if result is not None:
                    lane = tiers.index(row["tier"]) * len(TRAINING) + place
                    y = loaders[device].index(row["loader"]) + (lane - (len(tiers) * len(TRAINING) - 1) / 2) * step
                    values = _values(tables["runs"], result, "clips_per_second")
                    shape = (step * 0.42, look[row["tier"]], "clips_per_second", task == "lightning")
                    end = _row(axis, result, values, y, *shape)
                    axis.annotate(number_text(result["clips_per_second"]), (end, y), zorder=5, **_LABEL)
        axis.set_yticks(range(len(loaders[device])), [plain(loader) for loader in loaders[device]])
        axis.set_ylim(len(loaders[device]) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        _number_axis(axis, "clips per second in training, more is better")
        axis.set_title(device.upper() if len(devices) > 1 else "", loc="left")
    hollow = {"color": INK, "linestyle": "", "marker": "o", "markersize": 6}
    handles = [
        *(handle for handle in _tier_handles(_tiers(tables)) if handle.get_label() in map(plain, tiers)),
        Line2D([], [], label="median", **_TICK), Line2D([], [], label="bare loop", **hollow),
        Line2D([], [], label="Lightning", **hollow, markerfacecolor=PAPER),
    ]  # fmt: skip
    legend(figure, handles)
    footnote(figure, lost)
    return figure


def _fastest_training(row: Mapping[str, Any]) -> float:
    return -max(row["bare_clips_per_second"] or 0, row["lightning_clips_per_second"] or 0)


def conversion(tables: Mapping[str, Any]) -> Figure:
    """Return what each format costs: seconds to write all clips, and the bytes that it takes."""
    rows = [row for row in tables["formats"] if row["seconds"] is not None and row["bytes"] is not None]
    if not rows:
        return nothing("No format has a record of its conversion.", [])
    rows.sort(key=lambda row: (row["seconds"], row["format"]))
    largest = max(row["bytes"] for row in rows)
    unit, size = next(((u, s) for u, s in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if largest >= s), ("kB", 1e3))
    figure, axes = plt.subplots(1, 2, figsize=(8, 1.1 + 0.36 * len(rows)), sharey=True)
    frame = pd.DataFrame(rows).assign(size=lambda table: table.bytes / size, name=lambda table: table.format.map(plain))
    colours = sns.color_palette("colorblind")
    panels = (
        ("seconds", "seconds to write all clips", colours[0], ""),
        ("size", f"{unit} on the disk", colours[1], "//"),
    )
    for axis, (column, label, colour, hatch) in zip(axes, panels, strict=True):
        sns.barplot(frame, x=column, y="name", color=colour, hatch=hatch, edgecolor=PAPER, saturation=1, ax=axis)
        for number, value in enumerate(frame[column]):
            axis.annotate(number_text(value), (value, number), **_LABEL)
        axis.set(xlabel=label, ylabel="", xlim=(0, (frame[column].max() or 1) * 1.2))
        axis.xaxis.set_major_formatter(_NUMBERS)
        axis.xaxis.set_major_locator(MaxNLocator(5))
    return figure


FIGURES = {
    "throughput": throughput,
    "scaling": scaling,
    "concurrency": concurrency,
    "first_batch": first_batch,
    "training": training,
    "conversion": conversion,
}


def _tiers(tables: Mapping[str, Any]) -> list[str]:
    """Return the tiers in the order of the plan."""
    return list(dict.fromkeys(row["tier"] for row in (*tables["tiers"], *tables["best"]) if row["tier"]))


def _look(tiers: list[str]) -> dict[str, tuple[str, Any]]:
    """Return the marker and the colour of each tier."""
    colours = sns.color_palette("colorblind", len(tiers))
    return {tier: (_MARKERS[number % len(_MARKERS)], colours[number]) for number, tier in enumerate(tiers)}


def _tier_handles(tiers: list[str]) -> list[Any]:
    return [
        Line2D([], [], marker=marker, color=colour, linestyle="", markersize=7, label=plain(tier))
        for tier, (marker, colour) in _look(tiers).items()
    ]


def _loaders(best: Rows, panel: str, column: str, fastest: Callable[..., float]) -> list[str]:
    """Return the loaders of a panel, best first, those without a value last."""
    values: dict[str, list[float]] = {}
    for row in best:
        if row["panel"] == panel and row["tier"]:
            values.setdefault(row["loader"], []).extend([] if row[column] is None else [row[column]])
    sign = -1 if fastest is max else 1
    return sorted(values, key=lambda name: (not values[name], sign * fastest(values[name], default=0), name))


def draw(tables: Mapping[str, Any], out: Path) -> None:
    """Write every figure into `out` as NAME.svg and NAME.png, each file whole or not at all."""
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        plt.switch_backend("agg")
        sns.set_theme(style="whitegrid", rc=_RC)
        for name, function in FIGURES.items():
            figure = function(tables)
            with whole_file(out / f"{name}.svg", "wb") as file:
                figure.savefig(file, format="svg", metadata=_NO_METADATA)
            with whole_file(out / f"{name}.png", "wb") as file:
                figure.savefig(file, format="png", metadata={"Software": None})
            plt.close(figure)


def main() -> None:
    """Draw all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", required=True, type=Path, help="folder that make_tables.py wrote")
    parser.add_argument("--out", required=True, type=Path, help="folder for the figures")
    arguments = parser.parse_args()
    draw(read_tables(arguments.tables), arguments.out)


if __name__ == "__main__":
    run_main(main)
