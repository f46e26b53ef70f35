"""How evenly batches come: a row per loader with the time of half of its batches, of 99 in 100, and of the slowest."""

from scripts.decide.panel import key
from scripts.report.charts import _strips
from scripts.report.charts._common import Figure, Rows, Tables, group_of, grouped, results
from scripts.tables.columns import number_text

TITLE = "Time between batches"
QUESTION = "How evenly do batches come?"
DATA = "latencies.csv, best.csv"
CATEGORY, ORDER, SECTION = "2 Speed", 50, "latency"
CAPTION = (
    "Time between one batch and the next, at each loader's best settings. Half of the batches come within the first "
    "mark, 99 of 100 within the second, all within the third. The first batch of an epoch is left out. Where marks "
    "are left of the line of your step, workers have the next batch ready when a step ends. Marks far apart are "
    "batches that come late now and then: they stall a training although the mean is fast. More prefetch hides them, "
    "and takes memory."
)
NEEDS = "timed batches (`latencies.csv` is empty)"
_FEW_BATCHES = 100  # below, the slowest of a hundred is not known
_MARKS = {  # by column: percent of the batches, and what the legend says
    "p50_ms": (50, "half of the batches came within (p50)"),
    "p99_ms": (99, "99 of 100 came within (p99)"),
    "slowest_ms": (100, "the slowest batch"),
}
_LEAST = 0.001  # ms: a logarithmic axis has no 0


def rows(tables: Tables) -> Rows:
    """Return the best results of each scenario and tier, the steadiest first, each with its three times in ms.

    `batches` are those that were timed; `step_ms` is the user's own (`report.step_ms`), None where none is given.
    """
    found = {result: _times(same) for result, same in grouped(tables["latencies"], "loader", "tier", "slug").items()}
    step_ms = tables["dataset"]["report"].get("step_ms")
    shown = [
        {**common, "group": group_of(row), **found[key(row)], "step_ms": step_ms}
        for row, common in results(tables, "best")
        if key(row) in found
    ]
    return _strips.placed(shown, lambda one: min(row["p99_ms"] for row in one))


def _times(quantiles: Rows) -> dict[str, float]:
    times = {row["percent"]: max(row["milliseconds"], _LEAST) for row in quantiles}
    return {"batches": quantiles[0]["batches"], **{column: times[percent] for column, (percent, _) in _MARKS.items()}}


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per scenario and tier, a row per loader with its three times."""
    kinds = [words for _, words in _MARKS.values()]
    points = [
        {**row, "kind": words, "milliseconds": row[column]} for row in rows for column, (_, words) in _MARKS.items()
    ]
    few = sorted({_strips.paper.plain(row["loader"]) for row in rows if row["batches"] < _FEW_BATCHES})
    notes = [f"Fewer than {_FEW_BATCHES} batches, so that p99 is hardly known: {', '.join(few)}."] if few else []
    step_ms = rows[0]["step_ms"]
    look = {"which": "steadiest", "notes": notes, "line": (step_ms, f"your step, {step_ms:,g} ms") if step_ms else None}
    label = "milliseconds from one batch to the next, less is better"
    return _strips.draw(points, "milliseconds", "kind", kinds, label, _words, **look)


def _words(points: Rows) -> str:
    return ", ".join(number_text(row["milliseconds"]) for row in points)
