"""Values of a loader under several conditions on one line: a row per loader, a point per condition."""

from collections.abc import Callable, Sequence
from typing import Any

from scripts.report.charts import _page as page
from scripts.report.charts import _print as paper
from scripts.report.charts._common import DARK, INK, Figure, Rows, Spec, grouped


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
    figure, axes = paper.conditions(groups, [0.7 + 0.29 * min(count, paper.MOST_ROWS) for count in counts])
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


def spec(
    rows: Rows, x: str, kind: str, kinds: Sequence[str], title: str, tips: Sequence[Spec] = (),
    axis: Spec = page.AXIS, end: float | None = None,
) -> Spec:  # fmt: skip
    """Return the interactive chart of one group at a time; see `draw`."""
    present = [name for name in kinds if any(row[kind] == name for row in rows)]
    look = page.look_of(kind, present, [kinds.index(name) for name in present])
    scale = page.scale_of([*(row[x] for row in rows), end])
    place = {"x": page.number_axis(x, title, scale) | {"axis": axis}, "y": page.name_axis("loader")}
    ends = {op: f"{op}(datum.{op}_value, {end})" if end else f"datum.{op}_value" for op in ("min", "max")}
    line = {
        "mark": {"type": "rule", "color": DARK},
        "encoding": {**place, "x": {**place["x"], "field": "from"}, "x2": {"field": "to"}},
    }
    tooltip = [page.tip("loader"), page.tip(kind, "Condition"), *tips, page.SETTINGS]
    points = {
        "params": [page.pick(kind)],
        "mark": page.point(),
        "encoding": {**place, **look, "opacity": page.picked(), "tooltip": tooltip},
    }
    dashed = {
        "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 2, "color": DARK},
        "encoding": {"x": {"datum": end, "type": "quantitative"}},
    }
    transform = [
        {"joinaggregate": [{"op": op, "field": x, "as": f"{op}_value"} for op in ends], "groupby": ["loader"]},
        {"calculate": ends["min"], "as": "from"},
        {"calculate": ends["max"], "as": "to"},
    ]
    layers = [line, *([dashed] if end else []), points]
    return page.chart(rows, layers, {"group": "Condition"}, tracks=("loader", 26), transform=transform)
