"""Items per second against the number of workers: the result and the range of its runs."""

from scripts.report.charts import _curves
from scripts.report.charts._common import Figure, Rows, Tables

TITLE = "Scaling with workers"
QUESTION = "How many workers?"
DATA = "ranking.csv"
CATEGORY, ORDER, SECTION = "4 Settings", 60, "scaling"
CAPTION = (
    "Items per second against the number of workers, of the fastest settings for each number: the result, with the "
    "range of its runs as a bar. A line that falls says that moving batches between processes costs more than reading"
    " them: use fewer workers. What was measured with one number of workers only is not here."
)
NEEDS = "a loader with verified results for two numbers of workers (`sweep.workers`)"


def rows(tables: Tables) -> Rows:
    """Return items/s by number of workers."""
    return _curves.swept(tables, "workers")


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per loader and scenario, a line per tier."""
    return _curves.draw_grid(rows, "workers", "workers")
