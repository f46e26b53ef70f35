"""Items per second by loader and tier, each at its best settings: every run, the result, the bounds."""

from scripts.report.charts import _dots
from scripts.report.charts._common import Figure, Rows, Tables

TITLE = "Throughput by loader and tier"
QUESTION = "Which loader is the fastest?"
DATA = "best.csv, runs.csv, bounds.csv"
CATEGORY, ORDER, SECTION = "2 Speed", 10, "figures"
CAPTION = (
    "Throughput of each loader and tier at its best settings. Small points are runs. The large point or tall tick is "
    "the result, the bar its 95 % interval, the grey tick or line the bound. A result near its bound cannot be much "
    "faster on this machine. One far from it is limited by the loader itself, on a GPU also by the copy to it."
)
NEEDS = "a loader with a verified speed"
_INTERVAL = ("interval_low", "interval_high")
_BOUND = ("bound", "bound_items_per_second", "percent_of_bound", "batch_size")


def rows(tables: Tables) -> Rows:
    """Return the best result of each loader, tier and scenario with `repeat` None, and its runs."""
    return _dots.best_rows(tables, "items_per_second", max, (*_INTERVAL, *_BOUND, "runs", "format"))


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per scenario."""
    return _dots.draw(rows, "items_per_second", "items per second, more is better")
