"""What the report's figures share: colours, markers, axes, panels, legends, the footnote, a figure without data."""

import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from scripts.tables.columns import number_text

INK, RULE, PAPER = "#1f2328", "#d0d7de", "#ffffff"  # render_report.py recolours these three in dark mode
BOUND = "#6e7781"  # legible on light and on dark paper
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# seaborn's palette for the colour-blind without its yellow and its pale pink, which white paper swallows.
SERIES = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#949494", "#ca9161", "#56b4e9")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
MOST_LINES = len(SERIES)  # in one panel
TICK = {"color": INK, "marker": "|", "markersize": 10, "markeredgewidth": 1.2, "linestyle": ""}
LABEL = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "size": 8}
LABEL |= {"bbox": {"boxstyle": "square,pad=0.1", "facecolor": PAPER, "linewidth": 0}}
NUMBERS = FuncFormatter(lambda value, _: f"{value:,.10g}")
_LOG_FROM = 100  # a linear axis shows no difference among values this many times smaller than its end
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))

Rows = list[dict[str, Any]]
Place = tuple[str, str]  # device and tier


def plain(text: str) -> str:
    """Return a name on one line, short enough for a figure."""
    return textwrap.shorten("".join(sign if sign.isprintable() else " " for sign in text), 40, placeholder="...")


def byte_unit(largest: float) -> tuple[str, float]:
    """Return the unit in which so many bytes are best shown, and how many bytes it is."""
    return next((unit for unit in _UNITS if largest >= unit[1]), _UNITS[-1])


def tiers_of(tables: Mapping[str, Any]) -> list[str]:
    """Return the tiers in the order of the plan."""
    return list(dict.fromkeys(row["tier"] for row in (*tables["tiers"], *tables["best"]) if row["tier"]))


def tier_look(tiers: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """Return the marker and the colour of each tier."""
    colours = sns.color_palette("colorblind", len(tiers))
    return {tier: (MARKERS[number % len(MARKERS)], colours[number]) for number, tier in enumerate(tiers)}


def tier_handles(tiers: Sequence[str], present: Container[str]) -> list[Any]:
    """Return what stands in a legend for each of the `tiers` that is present in the figure."""
    return [
        Line2D([], [], marker=marker, color=colour, linestyle="", markersize=7, label=plain(tier))
        for tier, (marker, colour) in tier_look(tiers).items()
        if tier in present
    ]


def series_look(names: Iterable[Any]) -> dict[Any, dict[str, Any]]:
    """Return the colour, marker and dashes of the line of each name; the first `MOST_LINES` differ in all three."""
    count = len(SERIES)
    return {
        name: {
            "color": SERIES[number % count],
            "marker": MARKERS[(number + number // count) % count],
            "linestyle": _DASHES[(number + number // count) % count],
        }
        for number, name in enumerate(dict.fromkeys(names))
    }


def traversing(rows: Iterable[dict[str, Any]], cache: str = "warm") -> Rows:
    """Return the sound results of what reads every byte and computes nothing, with this state of the page cache."""
    return [
        row
        for row in rows
        if (row["task"], row["cache"], row["status"]) == ("traverse", cache, "ok") and not row["step_ms"]
    ]


def by_place(rows: Iterable[dict[str, Any]], tables: Mapping[str, Any]) -> dict[Place, Rows]:
    """Return the rows of each device and tier that has some: devices by name, tiers in the order of the plan."""
    found: dict[Place, Rows] = {}
    for row in rows:
        found.setdefault((row["device"], row["tier"]), []).append(row)
    tiers = [*tiers_of(tables), *(tier for _, tier in found)]
    return {place: found[place] for place in sorted(found, key=lambda place: (place[0], tiers.index(place[1])))}


def place_title(place: Place, places: Iterable[Place]) -> str:
    """Return the title of a panel: its tier, and its device where there are several."""
    device, tier = place
    return f"{device.upper()}, {plain(tier)}" if len({one for one, _ in places}) > 1 else plain(tier)


def panel_rows(heights: Sequence[float], width: float = 8) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure of panels below each other, each of its height in inches, and room for legend and footnote."""
    figure, axes = plt.subplots(
        len(heights), figsize=(width, sum(heights) + 0.8), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    return figure, axes[:, 0]


def loader_rows(axis: Axes, loaders: Sequence[str]) -> None:
    """Make the y axis a list of loaders, the first on top."""
    axis.set_yticks(range(len(loaders)), [plain(loader) for loader in loaders])
    axis.set_ylim(len(loaders) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def number_axis(axis: Axes, label: str) -> None:
    """Begin the x axis at 0, or scale it by logarithms where the values span too much, and say so."""
    values = [float(x) for line in axis.lines for x in line.get_xdata() if x > 0]
    logarithmic = max(values) > _LOG_FROM * min(values)
    if logarithmic:
        axis.set_xlim(min(values) / 2, max(values) * 3)
        log_axis(axis, "x")
    else:
        axis.set_xlim(0, max(values) * 1.15)
        axis.xaxis.set_major_formatter(NUMBERS)
    axis.set_xlabel(f"{label} (logarithmic scale)" if logarithmic else label)


def log_axis(axis: Axes, name: str) -> None:
    """Scale the axis `name` (x or y) by logarithms, with plain numbers on it; its limits are set already."""
    low, high = axis.get_xlim() if name == "x" else axis.get_ylim()
    axis.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    side = axis.xaxis if name == "x" else axis.yaxis
    side.set_major_locator(LogLocator(subs=(1,) if high > 1e4 * low else (1, 3) if high > 30 * low else (1, 2, 5)))
    side.set_major_formatter(NUMBERS)
    side.set_minor_formatter(NullFormatter())
    side.set_minor_locator(NullLocator())


def count_ticks(axis: Axes, counts: Iterable[float], most: int = 10) -> None:
    """Name on the x axis the values that were measured, but for those that would stand on top of each other."""
    values = sorted(set(counts))
    places = [float(np.log2(value)) if axis.get_xscale() == "log" else value for value in values]
    apart = (places[-1] - places[0]) / most
    kept: list[int] = []
    for number in reversed(range(len(values))):
        if not kept or places[kept[-1]] - places[number] >= apart:
            kept.append(number)
    axis.xaxis.set_major_locator(FixedLocator([values[number] for number in reversed(kept)]))
    axis.xaxis.set_major_formatter(NUMBERS)
    axis.xaxis.set_minor_locator(NullLocator())


def side_legend(axis: Axes, handles: list[Any], title: str = "") -> None:
    """Draw a panel's legend on its right."""
    axis.legend(
        handles=handles, title=title, loc="upper left", bbox_to_anchor=(1.0, 1.03), fontsize=8, title_fontsize=8,
        alignment="left", handlelength=3,
    )  # fmt: skip


def legend(figure: Figure, handles: list[Any]) -> None:
    """Draw the legend above the figure, in as many columns as it is wide enough for."""
    inches = 0.5 + 0.08 * max(len(handle.get_label()) for handle in handles)
    columns = max(1, min(len(handles), int(figure.get_figwidth() / inches)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, handletextpad=0.3)


def limit_note(shown: int, count: int, which: str = "fastest") -> list[str]:
    """Return the line of a footnote that says that a panel has but `shown` of up to `count` loaders; or no line."""
    if count <= shown:
        return []
    return [f"Each panel shows the {shown} {which} of up to {count} loaders; the tables hold all."]


def footnote(figure: Figure, best: Rows, lines: Iterable[str] = ()) -> None:
    """Write below the figure which results have no point in it, and why in one word."""
    lines = list(lines)
    shown = {row["loader"] for row in best if row["status"] == "ok"}
    for status in ("failed", "missing", "skipped"):
        lost = [row for row in best if row["status"] == status]
        names = {f"{row['loader']} ({row['tier']})" if row["loader"] in shown else row["loader"] for row in lost}
        if names:
            lines.append(f"No verified speed, {status}: {', '.join(sorted(map(plain, names)))}.")
    if lines:
        text = "\n".join(line for one in lines for line in textwrap.wrap(one, 110))
        figure.supxlabel(text, x=0.01, ha="left", fontsize=8)


def nothing(text: str, best: Rows) -> Figure:
    """Return a figure that says in words why there is nothing in it."""
    figure, axis = plt.subplots(figsize=(8, 1.8))
    axis.set_axis_off()
    axis.text(0.5, 0.5, "\n".join(textwrap.wrap(text, 90)), ha="center", va="center", size=11)
    footnote(figure, best)
    return figure


def values_of(runs: Rows, column: str) -> dict[tuple[str, str, str], list[float]]:
    """Return what the runs of each result (loader, tier, slug) have in a column, those alone that have something."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        if run[column] is not None:
            found.setdefault((run["loader"], run["tier"], run["slug"]), []).append(run[column])
    return found


def result_row(
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


def number_at(axis: Axes, value: float, x: float, y: float) -> None:
    """Write a number behind the place `x`."""
    axis.annotate(number_text(value), (x, y), zorder=5, **LABEL)
