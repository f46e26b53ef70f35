"""The same loaders on several machines: the best result of each on each, with its interval and its tier."""

from scripts.report.charts import _print as paper
from scripts.report.charts._common import Axes, Figure, Row, Rows, Tables, grouped, reading
from scripts.report.machines import loader_rows, machines, numbered, speed
from scripts.tables.columns import number_text, settings_text

TITLE = "Loaders across machines"
QUESTION = "How does it compare on other machines?"
DATA = "best.csv of each machine"
CATEGORY, ORDER, SECTION = "2 Speed", 160, "machines"
CAPTION = (
    "Items per second, every byte read, of each loader that two or more machines have measured: the result at its best "
    "settings, on its best tier there, which is named, as a point, and its 95 % interval as a bar. Where the loaders' "
    "order differs from machine to machine, a choice made on one does not hold on another."
)
NEEDS = "tables of other machines: name their folders as `machines` below `report` in config.yaml"
_NAME, _TIER = 40, 16  # characters of a machine's and a tier's name
_VALUES = ("items_per_second", "interval_low", "interval_high")


def rows(tables: Tables) -> Rows:
    """Return the results of reading of loaders that stand on two machines and more.

    By scenario (`group`) and loader, the fastest on this machine first; `machine_number` counts from this machine, 0.
    """
    found = machines(tables)
    rows = []
    for line in loader_rows(found):
        cells = [(number, row) for number, row in enumerate(line["cells"]) if speed(row) and reading(row)]
        if len(cells) > 1:
            for number, row in cells:
                names = {"group": line["scenario"], "loader": line["loader"], "machine": found[number].name}
                names |= {"machine_number": number, "tier": row["tier"], "settings": settings_text(row)}
                rows.append({**names, **{name: row[name] for name in _VALUES}})
    return rows


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per scenario, in it a row per loader, within that a track per machine."""
    groups, lost = paper.first_panels(rows, "group")
    names = dict(sorted({(row["machine_number"], row["machine"]) for row in rows}))
    labels = numbered(_cut(name, _NAME) for name in names.values())
    shown = dict(list(zip(names, labels, strict=True))[: paper.MOST_LINES])
    loaders = {group: grouped(found, "loader") for group, found in groups.items()}
    most = max(map(len, loaders.values()))
    height = max(0.3, 0.17 * len(shown))
    figure, axes = paper.scenarios(groups, [0.7 + height * min(len(one), paper.MOST_ROWS) for one in loaders.values()])
    for axis, found in zip(axes, loaders.values(), strict=True):
        drawn = dict(list(found.items())[: paper.MOST_ROWS])
        for y, points in enumerate(drawn.values()):
            for row in points:
                if row["machine_number"] in shown:
                    track = list(shown).index(row["machine_number"]) - (len(shown) - 1) / 2
                    _point(axis, row, y + 0.75 * track / len(shown))
        paper.name_axis(axis, list(drawn))
        paper.number_axis(axis, "items per second, more is better")
        paper.room_for_words(axis)
    paper.legend(figure, [paper.handle(name, **paper.point_look(number)) for number, name in shown.items()])
    more = [f"Machines not drawn here: {'; '.join(labels[len(shown) :])}."] if len(labels) > len(shown) else []
    paper.footnote(figure, [*lost, *more, *paper.limit_note(paper.MOST_ROWS, most)])
    return figure


def _point(axis: Axes, row: Row, y: float) -> None:
    """Draw a result, its interval, and behind them its number and its tier."""
    value, look = row["items_per_second"], paper.point_look(row["machine_number"])
    ends = [row["interval_low"] or value, row["interval_high"] or value]
    axis.plot(ends, [y, y], color=look["color"], linewidth=2, zorder=3)
    axis.plot(value, y, **look | {"markersize": 6, "zorder": 4})
    axis.annotate(f"{number_text(value)} {_cut(row['tier'], _TIER)}", (max(ends), y), **paper.LABEL)


def _cut(name: str, most: int) -> str:
    """Return the beginning of a name, on one line, whether it has blanks to break at or none."""
    name = "".join(sign if sign.isprintable() else " " for sign in name)
    return name if len(name) <= most else f"{name[: most - 3]}..."
