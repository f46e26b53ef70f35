"""Seconds from before a loader is constructed to its first batch, at the settings of the throughput chart."""

from scripts.report.charts import _dots
from scripts.report.charts._common import Figure, Rows, Tables

TITLE = "Time to first batch"
QUESTION = "How soon can the training begin?"
DATA = "best.csv, runs.csv"
CATEGORY, ORDER, SECTION = "2 Speed", 100, "latency"
CAPTION = (
    "Seconds from before a loader is constructed to its first batch, at its best settings: every run as a point, with"
    " the median. It counts at every start of a training, and where workers are not kept, at every epoch; for short "
    "experiments it can outweigh throughput."
)
NEEDS = "a loader with a verified speed"


def rows(tables: Tables) -> Rows:
    """Return the seconds of the best results with `repeat` None, the quickest loaders first, and of their runs."""
    return _dots.best_rows(tables, "first_batch_seconds", min)


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per scenario."""
    return _dots.draw(rows, "first_batch_seconds", "seconds to the first batch, construction included, less is better")
