"""Items per second against the number of workers: the result and the range of its runs."""

from scripts.report.charts import _curves
from scripts.report.charts._common import Figure, Rows, Tables

TITLE = "Scaling with workers"
QUESTION = "How many workers?"
DATA = "ranking.csv"
CATEGORY, ORDER, SECTION = "4 Settings", 60, "scaling"
CAPTION = (
    "Items per second against the number of workers, at the fastest settings for each number. A point is the result, "
    "a bar the range of its runs. Where a line falls, moving batches between processes costs more than reading them: "
    "use fewer workers. Loaders with one number of workers only are left out."
)
NEEDS = "a loader with verified results for two numbers of workers (`sweep.workers`)"


def rows(tables: Tables) -> Rows:
    """Return items/s by number of workers."""
    return _curves.swept(tables, "workers")


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per loader and scenario, a line per tier."""
    return _curves.draw_grid(rows, "workers", "workers")
