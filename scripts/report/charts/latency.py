"""How evenly batches come: the share of batches that came within a time, with p50 and p99."""

from scripts.report.charts import _curves
from scripts.report.charts._common import RULE, Axes, Figure, Row, Rows, Tables, grouped, key, results
from scripts.tables.columns import number_text

TITLE = "Time between batches"
QUESTION = "How evenly do batches come?"
DATA = "latencies.csv, best.csv"
CATEGORY, ORDER, SECTION = "2 Speed", 50, "latency"
CAPTION = (
    "The share of batches that came within a time after the one before, at each loader's best settings; the first "
    "batch of an epoch is left out. A line that leans over at the top has late batches now and then: a far 99th "
    "percentile stalls the training although the mean is fast; deeper prefetch hides it, at the cost of memory."
)
NEEDS = "timed batches (`latencies.csv` is empty)"
_FEW_BATCHES = 100  # below, the slowest of a hundred is not known
_MARKED = {50: True, 99: False}  # percent, and whether the point is filled
_LEAST = 0.001  # ms: a logarithmic axis has no 0


def rows(tables: Tables) -> Rows:
    """Return the quantiles of the best batch times: `percent` of the batches came within so many ms."""
    found = grouped(tables["latencies"], "loader", "tier", "slug")
    return [
        {
            **{**common, "group": f"{row['condition']}, {row['tier']}", "batches": one["batches"]},
            **{"percent": one["percent"], "milliseconds": max(one["milliseconds"], _LEAST)},
        }
        for row, common in results(tables, "best")
        for one in found.get(key(row), ())
    ]


def _words(rows: Rows) -> str:
    times = {row["percent"]: number_text(row["milliseconds"]) for row in rows}
    return f"{_curves.paper.plain(rows[0]['loader'])}\n" + ", ".join(f"p{part} {times[part]} ms" for part in _MARKED)


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per condition and tier, a line per loader."""
    ends = [end(row["milliseconds"] for row in rows) for end in (min, max)]

    def finish(axis: Axes, _: Rows) -> None:
        axis.set_xlim(ends[0] / 1.3, ends[1] * 1.3)
        _curves.paper.log_axis(axis, "x")
        for percent in _MARKED:
            axis.axhline(percent, color=RULE, linewidth=1, zorder=1)
        label = "milliseconds from one batch to the next (logarithmic scale)"
        axis.set(xlabel=label, ylabel="% of batches", ylim=(-2, 104), yticks=[0, 25, 50, 75, 99])
        axis.grid(axis="y", visible=False)

    def mark(row: Row) -> bool | None:
        return _MARKED.get(row["percent"])

    few = sorted({_curves.paper.plain(row["loader"]) for row in rows if row["batches"] < _FEW_BATCHES})
    notes = [f"Fewer than {_FEW_BATCHES} batches, so that p99 is hardly known: {', '.join(few)}."] if few else []
    return _curves.draw_panels(rows, "loader", "milliseconds", "percent", mark, _words, finish, notes=notes)
