"""The same loaders on several machines: the best result of each on each, with its interval and its tier."""

from scripts.report.charts import _dots
from scripts.report.charts._common import Figure, Rows, Tables, grouped, reading
from scripts.report.charts._print import MOST_LINES
from scripts.report.machines import loader_rows, machines, numbered, speed
from scripts.tables.columns import settings_text

TITLE = "Loaders across machines"
QUESTION = "How does it compare on other machines?"
DATA = "best.csv of each machine"
CATEGORY, ORDER, SECTION = "2 Speed", 160, "machines"
CAPTION = (
    "Items per second, every byte read, of each loader that two or more machines have measured. A point is the result"
    " at its best settings on its best tier there, which is named; a bar is its 95 % interval. Where the loaders' "
    "order differs between machines, a choice made on one does not hold on another."
)
NEEDS = "tables of other machines: name their folders as `machines` below `report` in config.yaml"
_NAME, _TIER = 34, 16  # characters of a machine's and a tier's name
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
    names = dict(sorted({(row["machine_number"], row["machine"]) for row in rows}))
    labels = dict(zip(names, numbered(_cut(name, _NAME) for name in names.values()), strict=True))
    shown = list(labels)[:MOST_LINES]
    lost = [labels[number] for number in labels if number not in shown]
    points = [
        {**row, "scenario": group, "repeat": None, "slug": "", "place": place, "words": _cut(row["tier"], _TIER)}
        | {"tier": labels[row["machine_number"]], "tier_number": row["machine_number"]}
        for group, found in grouped(rows, "group").items()
        for place, same in enumerate(grouped(found, "loader").values())
        for row in same
        if row["machine_number"] in shown
    ]
    notes = [f"Machines not drawn here: {'; '.join(lost)}."] if lost else []
    return _dots.draw(points, "items_per_second", "items per second, more is better", notes=notes)


def _cut(name: str, most: int) -> str:
    """Return the beginning of a name, on one line, whether it has blanks to break at or none."""
    name = "".join(sign if sign.isprintable() else " " for sign in name)
    return name if len(name) <= most else f"{name[: most - 3]}..."
