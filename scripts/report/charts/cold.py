"""Items per second from a cold and a limited page cache beside the warm one, each at its fastest settings."""

from scripts.common.vocabulary import CACHES
from scripts.report.charts import _strips
from scripts.report.charts._common import Figure, Row, Rows, Tables, grouped, place, reading, results
from scripts.tables.columns import number_text

TITLE = "Cold and limited caches against warm"
QUESTION = "What if the data does not fit into memory?"
DATA = "best.csv"
CATEGORY, ORDER, SECTION = "4 Settings", 90, "cold"
CAPTION = (
    "Items per second at the best settings for each state of the page cache: warm (all files in it), cold (none) and "
    "limited (a part). A loader that falls far depends on data that fits into memory. For larger data choose by the "
    "cold point."
)
NEEDS = "results of a cold or limited page cache: write `cache: [warm, cold]` below `sweep` in config.yaml"


def rows(tables: Tables) -> Rows:
    """Return the best results of reading by state of the cache, of loaders with a cold or a limited one.

    The fastest of a cold cache first. `room_percent` is how much of the data a limited cache had room for.
    """
    share = tables["dataset"]["measure"].get("limited_share")
    found = []
    for row, common in results(tables, "best"):
        room = 100 * share if share is not None and row["cache"] == "limited" else None
        if reading(row):
            names = {"cache": row["cache"], "items_per_second": row["items_per_second"], "room_percent": room}
            found.append({**common, "group": place(row), **names})
    rows = []
    for one in sorted(grouped(found, "group", "loader").values(), key=lambda one: one[0]["tier_number"]):
        speeds = {row["cache"]: row["items_per_second"] for row in one}
        if speeds.keys() - {"warm"}:
            shares = [100 * row["items_per_second"] / speeds["warm"] if "warm" in speeds else None for row in one]
            rows += [{**row, "of_warm_percent": share} for row, share in zip(one, shares, strict=True)]
    return _strips.placed(rows, lambda one: -_coldest(one)["items_per_second"])


def _coldest(rows: Rows) -> Row:
    """Return the row of the state that asks the most of the storage."""
    return min((row for row in rows if row["cache"] != "warm"), key=lambda row: row["cache"] != "cold")


def _words(rows: Rows) -> str:
    row = _coldest(rows)
    share = "" if row["of_warm_percent"] is None else f", {number_text(row['of_warm_percent'], 2)} % of warm"
    return f"{row['cache']} {number_text(row['items_per_second'])}{share}"


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per device and tier."""
    rooms = {row["room_percent"] for row in rows} - {None}
    notes = [f"Limited: the page cache had room for {room:.0f} % of the data." for room in rooms]
    label = "items per second, more is better"
    return _strips.draw(rows, "items_per_second", "cache", tuple(CACHES), label, _words, notes=notes)
