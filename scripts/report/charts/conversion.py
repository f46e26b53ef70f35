"""What each format costs before the first epoch: the seconds to write all items."""

from scripts.report.charts import _print as paper
from scripts.report.charts._common import COLOURS, PAPER, Figure, Rows, Tables

TITLE = "Conversion cost by format"
QUESTION = "What does a format cost?"
DATA = "formats.csv"
CATEGORY, ORDER, SECTION = "5 Costs", 130, "conversion"
CAPTION = (
    "Seconds to write all items in each format, once before the first epoch. A fast format pays only when it is read "
    "often enough to earn back its conversion."
)
NEEDS = "a written format"


def rows(tables: Tables) -> Rows:
    """Return the seconds and bytes that each written format took, the quickest first."""
    rows = [dict(row) for row in tables["formats"] if row["seconds"] is not None and row["bytes"] is not None]
    return sorted(rows, key=lambda row: (row["seconds"], row["format"]))


def draw(rows: Rows) -> Figure:
    """Return the picture: a bar per format."""
    figure, [axis] = paper.grid(1, 1, 1.1 + 0.36 * len(rows), 0)
    axis.barh(range(len(rows)), [row["seconds"] for row in rows], color=COLOURS[0], edgecolor=PAPER)
    for number, row in enumerate(rows):
        paper.number_at(axis, row["seconds"], row["seconds"], number)
    paper.name_axis(axis, [row["format"] for row in rows])
    axis.set(xlabel="seconds to write all items", xlim=(0, (rows[-1]["seconds"] or 1) * 1.2))
    axis.xaxis.set_major_formatter(paper.plain_numbers())
    return figure
