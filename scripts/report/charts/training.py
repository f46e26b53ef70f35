"""Items per second in training, by a bare loop and by Lightning, at the fastest of the settings that were trained."""

from scripts.common.vocabulary import COMPARED
from scripts.decide.panel import key
from scripts.report.charts import _dots
from scripts.report.charts._common import Figure, Row, Rows, Tables, about, first_of, grouped, tiers_of

TITLE = "Training, bare and by Lightning"
QUESTION = "Does it matter to a real training?"
DATA = "training.csv, ranking.csv, runs.csv"
CATEGORY, ORDER, SECTION = "2 Speed", 120, "training"
CAPTION = (
    "Items per second in training, in a bare loop (filled) and by Lightning (hollow), at the fastest settings that "
    "were trained. Every run is a point, beside the result and its interval. The distance between the two is "
    "Lightning's own cost. Loaders at the same level are all fast enough for this model."
)
NEEDS = "a training with a verified speed"
_METHODS = dict(zip(COMPARED, _dots.WAYS, strict=True))


def rows(tables: Tables) -> Rows:
    """Return the results of the fastest settings of each device, loader and tier with `repeat` None, and runs."""
    fastest = first_of(sorted(tables["training"], key=_speed, reverse=True), "device", "loader", "tier")
    results = {key(row): row for row in tables["ranking"] if row["status"] == "ok"}
    tiers, found = tiers_of(tables), []
    for device, group in sorted(grouped(fastest.values(), "device").items()):
        trained = [
            (result, about(result, tiers) | {"scenario": device.upper(), "way": way})
            for row in sorted(group, key=lambda row: tiers.index(row["tier"]))
            for task, way in _METHODS.items()
            if (result := results.get((row["loader"], row["tier"], f"{row['slug']}-{task}")))
        ]
        found += _dots.with_runs(tables, trained, "items_per_second", max, ("interval_low", "interval_high"))
    return found


def _speed(row: Row) -> float:
    return max(row["bare_items_per_second"] or 0, row["lightning_items_per_second"] or 0)


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per device, in it a row per loader, within that a track per tier and loop."""
    return _dots.draw(rows, "items_per_second", "items per second in training, more is better", most=12)
