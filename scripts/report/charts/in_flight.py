"""Requests in flight: items/s of each loader of object storage against how many requests it keeps in flight."""

from typing import Any

from scripts.report.charts import _curves
from scripts.report.charts._common import Axes, Figure, Rows, Tables, group_of, grouped, lines_of, reading, results
from scripts.tables.columns import in_flight

TITLE = "Requests in flight"
QUESTION = "What does latency cost, and what do requests in flight win back?"
DATA = "ranking.csv"
CATEGORY, ORDER, SECTION = "4 Settings", 85, "objects"
CAPTION = (
    "Items per second from object storage by the number of requests in flight. Of several results with the same "
    "number, the fastest. Raw GETs are the bound. With few in flight, latency decides: items per second are at most "
    "the requests divided by the seconds that each takes. More requests help until the storage, the network or the "
    "cores are full."
)
NEEDS = (
    "a tier of `kind: s3` and a loader with two numbers of requests in flight: `preset: far` in config.yaml measures "
    "them"
)
BOUND = "raw GETs (the bound)"


def rows(tables: Tables) -> Rows:
    """Return items/s by requests in flight, of reading: a group for each object storage tier, its fastest loader first,
    its bound last.

    Of loaders with two numbers and more.
    """
    found = [
        {**common, "group": group_of(row), "in_flight": count, "items_per_second": row["items_per_second"]}
        for row, common in results(tables, "ranking")
        if reading(row) and (count := in_flight(row)) is not None
    ]
    shown = []
    for group in grouped(lines_of(found, "in_flight"), "group").values():
        shown += [*group, *_bound(tables, group[-1])]
    return shown


def _bound(tables: Tables, beside: dict[str, Any]) -> Rows:
    """Return what raw GETs give on the tier of a row, by how many are in flight; of the largest items."""
    speeds: dict[int, float] = {}
    for row in tables["bounds"]:
        if row["bound"] == "storage" and row["tier"] == beside["tier"]:
            speed = row["items_per_second"]
            speeds[row["readers"]] = min(speed, speeds.get(row["readers"], speed))
    common = {**beside, "loader": BOUND, "slug": "", "settings": ""}
    return [{**common, "in_flight": count, "items_per_second": speeds[count]} for count in sorted(speeds)]


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per tier, a line per loader."""

    def finish(axis: Axes, found: Rows) -> None:
        axis.set_xscale("log", base=2)
        _curves.paper.count_ticks(axis, (row["in_flight"] for row in found), most=9)
        speeds = [row["items_per_second"] for row in found]
        axis.set_ylim(min(speeds) / 1.4, max(speeds) * 1.4)
        _curves.paper.log_axis(axis, "y")
        axis.set_xlabel("requests in flight (logarithmic scale)")
        axis.set_ylabel("items per second\n(logarithmic scale)")

    return _curves.draw_panels(
        rows,
        by="loader",
        x="in_flight",
        y="items_per_second",
        mark=lambda row: row["loader"] != BOUND,
        words=lambda line: _curves.paper.plain(line[0]["loader"]),
        finish=finish,
    )
