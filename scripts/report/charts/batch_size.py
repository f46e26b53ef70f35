"""Items per second against the batch size: the result and the range of its runs."""

from scripts.report.charts import _curves
from scripts.report.charts._common import Figure, Rows, Tables

TITLE = "Scaling with batch size"
QUESTION = "Which batch size?"
DATA = "ranking.csv"
CATEGORY, ORDER, SECTION = "4 Settings", 70, "scaling"
CAPTION = (
    "Items per second against the batch size, at the fastest settings for each. A point is the result, a bar the "
    "range of its runs. Where a line rises, each batch has a cost of its own, which larger batches share. Where it is"
    " flat, a smaller batch loses nothing."
)
NEEDS = "a loader with verified results for two batch sizes (`sweep.batch_size`)"


def rows(tables: Tables) -> Rows:
    """Return items/s by batch size."""
    return _curves.swept(tables, "batch_size")


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per loader and scenario, a line per tier."""
    return _curves.draw_grid(rows, "batch_size", "items in a batch", logarithmic=True)
