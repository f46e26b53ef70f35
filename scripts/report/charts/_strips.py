"""Values of a loader under several scenarios on one line: a row per loader, a point per scenario."""

from collections.abc import Callable, Sequence
from typing import Any

from scripts.report.charts import _print as paper
from scripts.report.charts._common import DARK, INK, Figure, Rows, grouped


def placed(rows: Rows, order: Callable[[Rows], Any]) -> Rows:
    """Return rows by `group`, with the `place` of each one's loader in it: by what `order` says of a loader's rows."""
    found: Rows = []
    for group in grouped(rows, "group").values():
        loaders = grouped(group, "loader")
        names = sorted(loaders, key=lambda name: (order(loaders[name]), name))
        found += [{**row, "place": place} for place, name in enumerate(names) for row in loaders[name]]
    return found


def draw(
    rows: Rows, x: str, kind: str, kinds: Sequence[str], label: str, words: Callable[[Rows], str] | None = None,
    which: str = "fastest", notes: Sequence[str] = (), line: tuple[float, str] | None = None, what: str = "loaders",
) -> Figure:  # fmt: skip
    """Return a panel for each `group`, all on one axis: points at `x`, a look for each of the `kinds` in column `kind`.

    `words` says what is written behind the points of a loader, `line` is where a dashed line stands, and what it is.
    """
    groups, lost = paper.first_panels(rows, "group")
    counts = [max(row["place"] for row in found) + 1 for found in groups.values()]
    shown = [[row for row in found if row["place"] < paper.MOST_ROWS] for found in groups.values()]
    figure, axes = paper.scenarios(groups, [0.7 + 0.29 * min(count, paper.MOST_ROWS) for count in counts])
    dashed = {"color": INK, "linestyle": "--", "linewidth": 1.2}
    for axis, found in zip(axes, shown, strict=True):
        loaders = grouped(found, "loader")
        for y, points in enumerate(loaders.values()):
            values = [row[x] for row in points]
            axis.plot([min(values), max(values)], [y, y], color=DARK, linewidth=1.2, zorder=2)
            for row in points:
                axis.plot(row[x], y, zorder=3, **paper.point_look(kinds.index(row[kind])))
            if words:
                axis.annotate(words(points), (max(values), y), **paper.LABEL)
        if line:
            axis.axvline(line[0], zorder=1, **dashed)
        paper.name_axis(axis, list(loaders))
        paper.number_axis(axis, label, [row[x] for found in shown for row in found] + [line[0] if line else 0])
        if words:
            paper.room_for_words(axis)
    present = [(number, name) for number, name in enumerate(kinds) if any(row[kind] == name for row in rows)]
    handles = [paper.handle(name, **paper.point_look(number)) for number, name in present]
    paper.legend(figure, handles + ([paper.handle(line[1], **dashed)] if line else []))
    paper.footnote(figure, [*lost, *paper.limit_note(paper.MOST_ROWS, max(counts), which, what), *notes])
    return figure
