"""Lines of values against a number, with points: a line for each loader (or format), of one group at a time."""

from collections.abc import Callable

from scripts.report.charts import _print as paper
from scripts.report.charts._common import PAPER, Axes, Figure, Row, Rows, Tables, group_of, grouped, lines_of, results

_MOST_PANELS, _LEAST_PANELS = 18, 3  # of the grid, and of one scenario at least
_RANGE = ("interval_low", "interval_high", "lowest", "highest")


def swept(tables: Tables, column: str) -> Rows:
    """Return items/s by a setting: of several results with the same value of it the fastest.

    Of lines with two points and more, a line for each loader, tier and scenario.
    """
    names = (column, "items_per_second", *_RANGE)
    found = [
        {**common, "group": group_of(row), **{name: row[name] for name in names}}
        for row, common in results(tables, "ranking")
        if row[column] is not None
    ]
    return lines_of(found, column)


def draw_grid(rows: Rows, column: str, label: str, logarithmic: bool = False) -> Figure:
    """Return items/s against a setting, a panel per loader and scenario and a line per tier, each with its range."""
    from matplotlib.ticker import MaxNLocator

    scenarios = grouped(rows, "scenario")
    most = max(_LEAST_PANELS, _MOST_PANELS // len(scenarios))
    loaders = {panel: _fastest_first(found) for panel, found in scenarios.items()}
    drawn = [one for found in loaders.values() for one in list(found.items())[:most]]
    columns = min(3, len(drawn))
    figure, axes = paper.grid(len(drawn), columns, 1.9, 0.9)
    for number, (axis, (name, found)) in enumerate(zip(axes, drawn, strict=True)):
        for line in grouped(found, "tier_number").values():
            x, middle = ([row[name] for row in line] for name in (column, "items_per_second"))
            down = [max(0.0, row["items_per_second"] - row["lowest"]) for row in line]
            up = [max(0.0, row["highest"] - row["items_per_second"]) for row in line]
            look = {**paper.point_look(line[0]["tier_number"]), "markersize": 5, "linestyle": "-", "linewidth": 1.5}
            axis.errorbar(x, middle, yerr=(down, up), capsize=2, elinewidth=1.2, **look)
        if logarithmic:
            axis.set_xscale("log", base=2)
        paper.count_ticks(axis, (row[column] for row in found), most=9)
        axis.set_ylim(0, max(row["highest"] for row in found) * 1.1)
        axis.yaxis.set_major_locator(MaxNLocator(4))
        axis.yaxis.set_major_formatter(paper.plain_numbers())
        axis.grid(axis="x", visible=False)
        axis.set_title(paper.plain(name) + (f"\n{found[0]['scenario']}" if len(scenarios) > 1 else ""))
        axis.set_xlabel(label if number + columns >= len(drawn) else "")
        axis.set_ylabel("items per second" if number % columns == 0 else "")
    paper.legend(figure, paper.tier_handles(rows))
    paper.footnote(figure, paper.limit_note(most, max(map(len, loaders.values()))))
    return figure


def _fastest_first(rows: Rows) -> dict[str, Rows]:
    loaders = grouped(rows, "loader").items()
    return dict(sorted(loaders, key=lambda item: (-max(row["items_per_second"] for row in item[1]), item[0])))


def draw_panels(
    rows: Rows, by: str, x: str, y: str, mark: Callable[[Row], bool | None], words: Callable[[Rows], str],
    finish: Callable[[Axes, Rows], None], which: str = "fastest", what: str = "loaders",
) -> Figure:  # fmt: skip
    """Return a panel for each group with a line for each value of `by`; the look of a name is the same in all.

    `mark` says whether a row has a point of its own, filled (True) or hollow (False), `words` what the legend says of
    the rows of a line; `finish` is given each axis, to scale and name it.
    """
    groups, lost = paper.first_panels(rows, "group")
    lines = {group: grouped(found, by) for group, found in groups.items()}
    shown = {group: dict(list(found.items())[: paper.MOST_LINES]) for group, found in lines.items()}
    looks = paper.line_looks(name for found in shown.values() for name in found)
    figure, axes = paper.scenarios(groups, [max(2.7, 0.7 + 0.36 * len(found)) for found in shown.values()])
    for axis, found in zip(axes, shown.values(), strict=True):
        handles = []
        for name, line in found.items():
            look = {**looks[name], "linewidth": 1.5}
            handles.append(paper.handle(words(line), **look))
            axis.plot([row[x] for row in line], [row[y] for row in line], **look | {"marker": ""})
            for row in line:
                if (filled := mark(row)) is not None:
                    fill = look["color"] if filled else PAPER
                    point = {"marker": look["marker"], "markerfacecolor": fill, "markersize": 6}
                    axis.plot(row[x], row[y], color=look["color"], zorder=4, **point)
        finish(axis, [row for line in found.values() for row in line])
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.03), "alignment": "left"}
        axis.legend(handles=handles, fontsize=8, handlelength=3, **place)
    limit = paper.limit_note(paper.MOST_LINES, max(map(len, lines.values())), which, what)
    paper.footnote(figure, [*lost, *limit])
    return figure
