"""What the charts' pictures are made of: panels, axes, legends, the footnote, a picture without data."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Any

from scripts.report.charts._common import COLOURS, INK, PAPER, Axes, Figure, Rows, grouped

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
MOST_LINES = len(COLOURS)  # in one panel
MOST_ROWS = 14  # of loaders in one panel
MOST_PANELS = 8  # below each other
LOG_FROM = 100  # a linear axis shows no difference among values this many times smaller than its end
TICK = {"color": INK, "marker": "|", "markersize": 10, "markeredgewidth": 1.2, "linestyle": ""}
LABEL = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "size": 8, "zorder": 5}
LABEL |= {"bbox": {"boxstyle": "square,pad=0.1", "facecolor": PAPER, "linewidth": 0}}


def plain(text: str) -> str:
    """Return a name on one line, short enough for a figure."""
    return textwrap.shorten("".join(sign if sign.isprintable() else " " for sign in text), 40, placeholder="...")


def point_look(number: int) -> dict[str, Any]:
    """Return the marker and the colour of the points of the kind with a number, from 0."""
    look = {"marker": MARKERS[number % len(MARKERS)], "color": COLOURS[number % len(COLOURS)]}
    return {**look, "linestyle": "", "markersize": 7}


def line_looks(names: Iterable[Any]) -> dict[Any, dict[str, Any]]:
    """Return the colour, marker and dashes of the line of each name; the first `MOST_LINES` differ in all three."""
    count, looks = len(COLOURS), {}
    for number, name in enumerate(dict.fromkeys(names)):
        turn = (number + number // count) % count
        looks[name] = {"color": COLOURS[number % count], "marker": MARKERS[turn], "linestyle": _DASHES[turn]}
    return looks


def handle(label: str, **look: Any) -> Any:
    """Return an entry of a legend: a point or a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)


def patch(label: str, **look: Any) -> Any:
    """Return an entry of a legend: an area."""
    from matplotlib.patches import Patch

    return Patch(label=label, **look)


def tier_handles(rows: Rows) -> list[Any]:
    """Return the entries of the rows' tiers."""
    tiers = sorted({(row["tier_number"], row["tier"]) for row in rows})
    return [handle(plain(tier), **point_look(number)) for number, tier in tiers]


def scenarios(groups: Mapping[str, Rows], heights: Sequence[float], width: float = 8) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each group, each below the other and of its height in inches; and its axes.

    The panels have the groups' names as titles where there are several.
    """
    import matplotlib.pyplot as plt

    ratios = {"height_ratios": heights}
    figure, axes = plt.subplots(len(heights), figsize=(width, sum(heights) + 0.8), squeeze=False, gridspec_kw=ratios)
    for axis, name in zip(axes[:, 0], groups, strict=True):
        axis.set_title(plain(name) if len(groups) > 1 else "", loc="left")
    return figure, list(axes[:, 0])


def grid(count: int, columns: int, height: float, room: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels in columns, each of a height in inches, with `room` for the rest; its axes."""
    import matplotlib.pyplot as plt

    lines = -(-count // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(8, room + lines * height), squeeze=False)
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def first_panels(rows: Rows, column: str) -> tuple[dict[str, Rows], list[str]]:
    """Return the rows by the first `MOST_PANELS` groups, and the line of the footnote that says so, or none."""
    groups = grouped(rows, column)
    shown = dict(list(groups.items())[:MOST_PANELS])
    lost = list(groups)[MOST_PANELS:]
    return shown, [f"Not drawn here: {'; '.join(map(plain, lost))}."] if lost else []


def name_axis(axis: Axes, names: Sequence[str]) -> None:
    """Make the y axis a list of names, the first on top."""
    axis.set_yticks(range(len(names)), [plain(name) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def number_axis(axis: Axes, label: str, values: Iterable[float] = ()) -> None:
    """Begin the x axis at 0, or scale it by logarithms where the values span too much, and say so.

    The values are those in the axis where none are given.
    """
    drawn = [float(x) for line in axis.lines for x in line.get_xdata()]
    values = [value for value in values or drawn if value > 0]
    logarithmic = max(values) > LOG_FROM * min(values)
    if logarithmic:
        axis.set_xlim(min(values) / 2, max(values) * 3)
        log_axis(axis, "x")
    else:
        axis.set_xlim(0, max(values) * 1.15)
        axis.xaxis.set_major_formatter(plain_numbers())
    axis.set_xlabel(f"{label} (logarithmic scale)" if logarithmic else label)


def byte_axes(figure: Figure) -> None:
    """Write the numbers of the x axes, which are bytes, in MB, GB and the like."""
    from matplotlib.ticker import EngFormatter

    for axis in figure.axes:
        axis.xaxis.set_major_formatter(EngFormatter("B"))


def room_for_words(axis: Axes) -> None:
    """Widen the x axis for what is written behind its last point."""
    low, high = axis.get_xlim()
    axis.set_xlim(low, high * (high / low) ** 0.35 if axis.get_xscale() == "log" else high * 1.25)


def plain_numbers() -> Any:
    """Return what writes an axis's numbers: 1,400 and 0.02."""
    from matplotlib.ticker import StrMethodFormatter

    return StrMethodFormatter("{x:,.10g}")


def log_axis(axis: Axes, name: str) -> None:
    """Scale the axis `name` (x or y) by logarithms, with plain numbers on it; its limits are set already."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    low, high = axis.get_xlim() if name == "x" else axis.get_ylim()
    axis.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    side = axis.xaxis if name == "x" else axis.yaxis
    side.set_major_locator(LogLocator(subs=(1,) if high > 1e4 * low else (1, 3) if high > 30 * low else (1, 2, 5)))
    side.set_major_formatter(plain_numbers())
    side.set_minor_formatter(NullFormatter())
    side.set_minor_locator(NullLocator())


def count_ticks(axis: Axes, counts: Iterable[float], most: int = 10) -> None:
    """Name on the x axis the values that were measured, but for those that would stand on top of each other."""
    from matplotlib.ticker import FixedLocator, NullLocator

    values = sorted(set(counts))
    places = [log2(value) if axis.get_xscale() == "log" else value for value in values]
    least = (places[-1] - places[0]) / most
    kept: list[int] = []
    for number in reversed(range(len(values))):
        if not kept or places[kept[-1]] - places[number] >= least:
            kept.append(number)
    axis.xaxis.set_major_locator(FixedLocator([values[number] for number in reversed(kept)]))
    axis.xaxis.set_major_formatter(plain_numbers())
    axis.xaxis.set_minor_locator(NullLocator())


def legend(figure: Figure, handles: list[Any]) -> None:
    """Draw the legend above the figure, in as many columns as it is wide enough for."""
    inches = 0.5 + 0.08 * max(len(handle.get_label()) for handle in handles)
    columns = max(1, min(len(handles), int(figure.get_figwidth() / inches)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, handletextpad=0.3)


def limit_note(shown: int, count: int, which: str = "fastest", what: str = "loaders") -> list[str]:
    """Return the line of a footnote that says that a panel has but `shown` of up to `count` loaders; or no line."""
    if count <= shown:
        return []
    return [f"Each panel shows the {shown} {which} of up to {count} {what}; the tables hold all."]


def footnote(figure: Figure, lines: Iterable[str]) -> None:
    """Write lines below the figure."""
    text = "\n".join(line for one in lines for line in textwrap.wrap(one, 110))
    if text:
        figure.supxlabel(text, x=0.01, ha="left", fontsize=8)


def nothing(needs: str) -> Figure:
    """Return a figure that says what it would need."""
    figure, [axis] = grid(1, 1, 1.8, 0)
    axis.set_axis_off()
    text = "\n".join(textwrap.wrap(f"Nothing to draw. It would need {needs.replace('`', '')}.", 90))
    axis.text(0.5, 0.5, text, ha="center", va="center", size=11)
    return figure
