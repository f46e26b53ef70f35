"""Break-even epochs: the time spent on each format, conversion included, against the number of epochs."""

import textwrap

from scripts.report.charts import _curves
from scripts.report.charts._common import Axes, Figure, Row, Rows, Tables, grouped, place, tiers_of
from scripts.tables.columns import number_text

TITLE = "Break-even epochs"
QUESTION = "After how many epochs has a format paid?"
DATA = "break_even.csv"
CATEGORY, ORDER, SECTION = "5 Costs", 140, "break-even"
CAPTION = (
    "Time for the conversion plus a number of epochs, with the fastest loader of each format. The format that is "
    "lowest at the length of your training costs the least. From the hollow mark on, a format has paid for its "
    "conversion against the one that is cheapest to write. A line without a mark never does, or the session cannot "
    "tell."
)
NEEDS = "a format whose writing was timed and a loader of it with a verified speed from a warm cache"
_LEAST_EPOCHS, _MOST_EPOCHS = 100.0, 1e6  # that the axis ends at
_STEPS = (1, 1.5, 2, 3, 4, 5, 7)  # of a power of ten
_EPOCHS = [step * 10**power for power in range(7) for step in _STEPS]
_UNITS = (("hours", 3600), ("minutes", 60))  # and their seconds


def rows(tables: Tables) -> Rows:
    """Return the time that conversion and a number of epochs take together, by device, tier and format.

    The format that is the cheapest to prepare first, the others by their epochs. `spent` is in `unit`, the one in which
    100 epochs of the slowest format are 2 or more. `pays` marks the epoch at which a format has paid.
    """
    known = [row for row in tables["break_even"] if None not in (row["prepare_seconds"], row["epoch_seconds"])]
    if not known:
        return []
    tiers = tiers_of(tables)
    known.sort(key=lambda row: (row["device"], tiers.index(row["tier"]), row["epoch_seconds"], row["format"]))
    longest = max(_seconds(row, _LEAST_EPOCHS) for row in known)
    unit, size = next(((name, size) for name, size in _UNITS if longest >= 2 * size), ("seconds", 1))
    names = ("loader", "tier", "slug", "format", "prepare_seconds", "epoch_seconds", "break_even_epochs", "reason")
    found = []
    for group in grouped(known, "device", "tier").values():
        cheapest = min(group, key=lambda row: (row["prepare_seconds"], row["epoch_seconds"], row["format"]))
        end = max(3 * (row["break_even_epochs"] or 0) for row in group)
        last = next(number for number in _EPOCHS if number >= min(_MOST_EPOCHS, max(_LEAST_EPOCHS, end)))
        for row in sorted(group, key=lambda row: row is not cheapest):
            crossing = row["break_even_epochs"] or 0
            numbers = {number for number in _EPOCHS if number <= last} | (
                {crossing} if 1 <= crossing <= last else set()
            )
            common = {"group": place(row), **{name: row[name] for name in names}, "unit": unit}
            found += [
                {**common, "epochs": number, "spent": _seconds(row, number) / size, "pays": number == crossing}
                for number in sorted(numbers)
            ]
    return found


def _seconds(row: Row, epochs: float) -> float:
    return row["prepare_seconds"] + epochs * row["epoch_seconds"]


def _words(rows: Rows) -> str:
    """Return what the legend says of a format: its loader, and when it has paid."""
    row, plain = rows[0], _curves.paper.plain
    epochs = row["break_even_epochs"]
    paid = row["reason"] if epochs is None else f"pays after {number_text(epochs, 2)} epochs"
    paid = "pays within the first epoch" if epochs is not None and epochs <= 1 else paid
    return "\n".join([f"{plain(row['format'])}, by {plain(row['loader'])}:", *textwrap.wrap(paid, 36)])


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per device and tier, a line per format."""

    def finish(axis: Axes, found: Rows) -> None:
        spent = [row["spent"] for row in found]
        axis.set_xlim(1, max(row["epochs"] for row in found))
        axis.set_ylim(min(spent) / 1.4, max(spent) * 1.4)
        for name in ("x", "y"):
            _curves.paper.log_axis(axis, name)
        label = f"{found[0]['unit']}, conversion included\n(logarithmic scale)"
        axis.set(xlabel="epochs (logarithmic scale)", ylabel=label)

    def mark(row: Row) -> bool | None:
        return False if row["pays"] else None

    which = {"which": "cheapest to write or fastest to read", "what": "formats"}
    return _curves.draw_panels(rows, "format", "epochs", "spent", mark, _words, finish, **which)
