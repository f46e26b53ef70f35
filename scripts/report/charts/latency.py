"""How evenly batches come: a row per loader with the time of half of its batches, of 99 in 100, and of the slowest."""

from scripts.report.charts import _print as paper
from scripts.report.charts import _strips
from scripts.report.charts._common import DARK, INK, Axes, Figure, Row, Rows, Tables, group_of, grouped, key, results
from scripts.tables.columns import number_text

TITLE = "Time between batches"
QUESTION = "How evenly do batches come?"
DATA = "latencies.csv, best.csv"
CATEGORY, ORDER, SECTION = "2 Speed", 50, "latency"
CAPTION = (
    "How long after the one before a batch came, at each loader's best settings: half of them within the first mark, "
    "99 of 100 within the second, all within the third; the first batch of an epoch is left out. Where marks are left "
    "of the line of your step, workers have the next batch ready when a step ends. Marks far apart are late batches "
    "now and then, which stall a training although the mean is fast; deeper prefetch hides them, at the cost of memory."
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
    step_ms = (tables["dataset"]["report"] or {}).get("step_ms")
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
    """Return the picture: a panel per scenario and tier, a row per loader."""
    groups, lost = paper.first_panels(rows, "group")
    counts = [len(found) for found in groups.values()]
    shown = [found[: paper.MOST_ROWS] for found in groups.values()]
    figure, axes = paper.scenarios(groups, [0.8 + 0.29 * len(found) for found in shown])
    step_ms = rows[0]["step_ms"]
    ends = [row[column] for found in shown for row in found for column in _MARKS] + ([step_ms] if step_ms else [])
    for axis, found in zip(axes, shown, strict=True):
        for y, row in enumerate(found):
            _dumbbell(axis, y, row)
        if step_ms:
            axis.axvline(step_ms, color=INK, linestyle="--", linewidth=1.2, zorder=1)
        paper.name_axis(axis, [row["loader"] for row in found])
        axis.set_xlim(min(ends) / 1.5, max(ends) * 1.5)
        paper.log_axis(axis, "x")
        paper.room_for_words(axis)
    axes[-1].set_xlabel("milliseconds from one batch to the next (logarithmic scale), less is better")
    handles = [paper.handle(words, **paper.point_look(number)) for number, (_, words) in enumerate(_MARKS.values())]
    step = paper.handle(f"your step, {step_ms:,g} ms", color=INK, linestyle="--", linewidth=1.2) if step_ms else None
    paper.legend(figure, [*handles, *([step] if step else [])])
    few = sorted({paper.plain(row["loader"]) for row in rows if row["batches"] < _FEW_BATCHES})
    notes = [f"Fewer than {_FEW_BATCHES} batches, so that p99 is hardly known: {', '.join(few)}."] if few else []
    paper.footnote(figure, [*lost, *paper.limit_note(paper.MOST_ROWS, max(counts), "steadiest"), *notes])
    return figure


def _dumbbell(axis: Axes, y: int, row: Row) -> None:
    """Draw a result: its three times, connected, and their numbers behind them."""
    times = [row[column] for column in _MARKS]
    axis.plot([times[0], times[-1]], [y, y], color=DARK, linewidth=1.6, zorder=2)
    for number, value in enumerate(times):
        axis.plot(value, y, zorder=3, **paper.point_look(number))
    axis.annotate(", ".join(map(number_text, times)), (times[-1], y), **paper.LABEL)
