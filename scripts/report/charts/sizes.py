"""Whether the data set fits into memory: the bytes of each format against the RAM of the machine."""

from scripts.report.charts import _strips
from scripts.report.charts._common import Figure, Rows, Tables
from scripts.tables.columns import bytes_text, number_text

TITLE = "Size of the data set against memory"
QUESTION = "Does the data set fit into memory?"
DATA = "formats.csv, host.json"
CATEGORY, ORDER, SECTION = "5 Costs", 150, "sizes"
CAPTION = (
    "Size of the data set in each format, training and validation together, and as a share of RAM. The line is the "
    "RAM of the smallest machine of the session. A data set that fits into free memory comes from the page cache from"
    " the second epoch on. A larger one comes from its storage in each epoch."
)
NEEDS = "a written format"


def rows(tables: Tables) -> Rows:
    """Return the bytes of each format, the smallest first, and the share of the smallest machine's RAM in percent."""
    found = (one["host"].get("memory_bytes") for one in tables["host"]["hosts"])
    ram = min((value for value in found if value), default=None)
    return [
        {
            **{name: row[name] for name in ("format", "bytes", "files", "items")},
            **{"ram_bytes": ram, "of_ram_percent": 100 * row["bytes"] / ram if ram else None},
        }
        for row in sorted(tables["formats"], key=lambda row: (row["bytes"] or 0, row["format"]))
        if row["bytes"]
    ]


def draw(rows: Rows) -> Figure:
    """Return the picture: a point per format."""
    points = [
        {**row, "group": "", "loader": row["format"], "place": place, "kind": "the data set"}
        for place, row in enumerate(rows)
    ]
    ram = rows[0]["ram_bytes"]
    notes = [] if ram else ["How much memory the machine has is not known: no run has noted it."]
    look = {"which": "smallest", "what": "formats", "notes": notes}
    look |= {"line": (ram, f"RAM of the machine, {bytes_text(ram)}") if ram else None}
    figure = _strips.draw(points, "bytes", "kind", ["the data set"], "size of the data set", _words, **look)
    _strips.paper.byte_axes(figure)
    return figure


def _words(points: Rows) -> str:
    [row] = points
    share = f", {number_text(row['of_ram_percent'], 2)} % of RAM" if row["ram_bytes"] else ""
    return f"{bytes_text(row['bytes'])}{share}"
