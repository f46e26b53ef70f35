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
    which: str = "fastest", notes: Sequence[str] = (), end: float | None = None, size: float = 1.0,
) -> Figure:  # fmt: skip
    """Return a panel for each `group`: points at `x`, a look for each of the `kinds` in column `kind`.

    `words` says what is written behind the points of a loader, `end` is where a dashed line stands to which rows reach.
    """
    groups, lost = paper.first_panels(rows, "group")
    counts = [max(row["place"] for row in found) + 1 for found in groups.values()]
    shown = [[row for row in found if row["place"] < paper.MOST_ROWS] for found in groups.values()]
    figure, axes = paper.scenarios(groups, [0.7 + 0.29 * min(count, paper.MOST_ROWS) for count in counts])
    for axis, found in zip(axes, shown, strict=True):
        loaders = grouped(found, "loader")
        for y, points in enumerate(loaders.values()):
            values = [row[x] for row in points]
            ends = [*values, *([] if end is None else [end])]
            axis.plot([min(ends), max(ends)], [y, y], color=DARK, linewidth=1.2, zorder=2)
            for row in points:
                axis.plot(row[x], y, zorder=3, **paper.point_look(kinds.index(row[kind])))
            if words:
                axis.annotate(words(points), (max(values), y), **paper.LABEL)
        if end is not None:
            axis.axvline(end, color=INK, linestyle="--", linewidth=1.2)
        paper.name_axis(axis, list(loaders))
        paper.number_axis(axis, label, size, () if end is None else [end, *(row[x] for row in rows)])
        if words:
            paper.room_for_words(axis)
    present = [(number, name) for number, name in enumerate(kinds) if any(row[kind] == name for row in rows)]
    paper.legend(figure, [paper.handle(name, **paper.point_look(number)) for number, name in present])
    paper.footnote(figure, [*lost, *paper.limit_note(paper.MOST_ROWS, max(counts), which), *notes])
    return figure
