"""The distance to the bound: what part of what is possible each loader reaches, by tier and scenario."""

from scripts.common.vocabulary import BOUNDS
from scripts.report.charts import _strips
from scripts.report.charts._common import Figure, Rows, Tables, place, results

TITLE = "Distance to the bound"
QUESTION = "How near is it to what the machine allows?"
DATA = "best.csv"
CATEGORY, ORDER, SECTION = "2 Speed", 20, "roofline"
CAPTION = (
    "Percent of the lowest bound that applies to each result (the dashed line). With a warm cache the bound is the "
    "in-memory ceiling, with a cold or limited one the storage, with steps the steps themselves. Only other hardware "
    "helps a result at its bound. A result far from it, on the left, loses its speed in the loader itself. On a GPU "
    "the ceiling has its batches there already, so that results that copy batches stay below it."
)
NEEDS = "results with a bound: the ceiling comes with every session, that of the storage where fio is installed"


def rows(tables: Tables) -> Rows:
    """Return items/s and the bound that applies, of the best results that have one, the nearest to it first."""
    names = ("items_per_second", "bound", "bound_items_per_second", "percent_of_bound")
    found = []
    for row, common in results(tables, "best"):
        if row["percent_of_bound"]:
            kind = f"{row['scenario'].partition(', ')[2] or 'warm cache'}: {BOUNDS[row['bound']].word}"
            found.append({**common, "group": place(row), "kind": kind, **{name: row[name] for name in names}})
    found.sort(key=lambda row: (row["group"].partition(",")[0], row["tier_number"]))
    kinds = _kinds(found)
    return _strips.placed(found, lambda one: min((kinds.index(row["kind"]), -row["percent_of_bound"]) for row in one))


def _kinds(rows: Rows) -> list[str]:
    return sorted(dict.fromkeys(row["kind"] for row in rows), key=lambda kind: not kind.startswith("warm"))


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per device and tier."""
    label = "% of the bound that applies, more is better"
    look = {"which": "nearest to a bound", "line": (100.0, "the bound")}
    return _strips.draw(rows, "percent_of_bound", "kind", _kinds(rows), label, **look)
