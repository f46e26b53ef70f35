"""What each format costs before the first epoch: the seconds to write all items."""

from scripts.report.charts import _print as paper
from scripts.report.charts._common import COLOURS, PAPER, Figure, Rows, Tables
from scripts.tables.columns import number_text

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
    seconds = [row["seconds"] for row in rows]
    bars = axis.barh(range(len(rows)), seconds, color=COLOURS[0], edgecolor=PAPER)
    axis.bar_label(bars, map(number_text, seconds), padding=6, size=8)
    paper.name_axis(axis, [row["format"] for row in rows])
    axis.set(xlabel="seconds to write all items", xlim=(0, (seconds[-1] or 1) * 1.2))
    axis.xaxis.set_major_formatter(paper.plain_numbers())
    return figure
