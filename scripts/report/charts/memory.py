"""What each loader and its worker processes hold of memory at most, by number of workers."""

from scripts.report.charts import _strips
from scripts.report.charts._common import Figure, Rows, Tables, first_of, place, reading, results
from scripts.tables.columns import bytes_text

TITLE = "Memory against workers"
QUESTION = "How much memory does it take?"
DATA = "ranking.csv"
CATEGORY, ORDER, SECTION = "5 Costs", 110, "memory"
CAPTION = (
    "Peak memory of a loader and its worker processes together, by number of workers, while they read from a warm "
    "cache. It is PSS, which counts a shared page once. Each worker holds its own batches and imports. Where more "
    "workers bring no more speed, fewer save memory."
)
NEEDS = "the memory of a loader that reads every byte from a warm cache, which is known on Linux"


def rows(tables: Tables) -> Rows:
    """Return the peaks of PSS in bytes of reading with a warm cache, by number of workers, the least first.

    Of several settings with as many workers those of the fastest.
    """
    names = ("workers", "pss_peak_bytes", "pss_per_worker_peak_bytes", "items_per_second")
    read = [
        {**common, "group": place(row), "count": _count(row["workers"]), **{name: row[name] for name in names}}
        for row, common in results(tables, "ranking")
        if reading(row) and row["cache"] == "warm" and row["pss_peak_bytes"]
    ]
    found = list(first_of(read, "group", "loader", "workers").values())
    found.sort(key=lambda row: (row["scenario"], row["tier_number"], -1 if row["workers"] is None else row["workers"]))
    return _strips.placed(found, lambda one: min(row["pss_peak_bytes"] for row in one))


def _count(workers: int | None) -> str:
    return "knows no workers" if workers is None else "1 worker" if workers == 1 else f"{workers} workers"


def _counts(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["count"] for row in sorted(rows, key=lambda row: row["workers"] or -1)))


def _words(rows: Rows) -> str:
    return bytes_text(max(row["pss_peak_bytes"] for row in rows))


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per device and tier."""
    label = "memory at most (PSS of all processes), less is better"
    figure = _strips.draw(rows, "pss_peak_bytes", "count", _counts(rows), label, _words, "that need least")
    _strips.paper.byte_axes(figure)
    return figure
