"""The first chart: a row a loader, its speed with interval on one logarithmic axis, what the model needs, bounds.

It is a table whose one column is drawn by CSS from shares of the axis: it needs no script, and text of any size.
"""

from collections.abc import Iterable, Mapping
from math import ceil, floor, log
from typing import Any

from scripts.report.model import (
    Candidate,
    Model,
    candidate,
    feeds_text,
    fits_text,
    model_of,
    needs_text,
    smallest,
    unit_of,
)
from scripts.report.verdict_texts import in_memory
from scripts.report.verdicts import main_panel
from scripts.tables.columns import number_text
from scripts.tables.groups import first_of

MARGIN = 1.15  # of the axis beyond what is drawn

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def hero(tables: Tables, device: str, recommended: Row | None) -> dict[str, Any]:
    """Return what the template draws, of the device's first scenario; no `rows` where nothing has a speed there.

    A row is the best result of a loader on any tier: `row`, its place on the axis (`at`, `low`, `high`, `storage`, in
    percent of it), what it gives to the model (`answer`), and the `candidate` that the page's script goes on with.
    `need` and `ceiling` are lines through all rows; `ticks` are (share, text) of the axis.
    """
    panel = main_panel(tables["best"], device)
    best = _best(panel, recommended)
    corpus = tables["dataset"]["corpus"]
    if not best or not corpus:
        return {"rows": []}
    unit, items = unit_of(corpus), next((row["items"] for row in tables["runs"] if row["items"]), 0)
    model = model_of(tables, best[0]["batch_size"])
    known = [(row, candidate(row, tables)) for row in best]
    least = smallest((one for _, one in known), unit)
    limits = [_storage_limit(one, model) for _, one in known]
    ceilings = [row["bound_items_per_second"] for row in best if row["bound"] == "in_memory"]
    ends = [end for row in best for end in (row["interval_low"], row["items_per_second"], row["interval_high"]) if end]
    ends += [limit for limit in limits if limit] + ceilings[:1] + [model.items_per_second]
    axis = Axis(min(ends) / MARGIN, max(ends) * MARGIN)
    rows = [
        {
            "row": row,
            "tiers": list(dict.fromkeys(one["tier"] for one in _same(panel, row))),
            "candidate": one,
            "answer": one.answer(model, unit.stored_bytes, items),
            "at": axis.share(row["items_per_second"]),
            "low": axis.share(row["interval_low"] or row["items_per_second"]),
            "high": axis.share(row["interval_high"] or row["items_per_second"]),
            "storage": limit and axis.share(limit),
            "storage_items_per_second": limit,
        }
        for (row, one), limit in zip(known, limits, strict=True)
    ]
    answers = [(one["row"]["loader"], one["answer"]) for one in rows]
    return {
        "rows": rows,
        "lost": [row for name, row in first_of(panel, "loader").items() if name not in {one["loader"] for one in best}],
        "model": model,
        "scenario": best[0]["scenario"],
        "unit": unit,
        "items": items,
        "need": axis.share(model.items_per_second),
        "ceiling": axis.share(ceilings[0]) if ceilings else None,
        "ceiling_items_per_second": ceilings[0] if ceilings else None,
        "axis": axis,
        "ticks": axis.ticks(),
        "needs_text": needs_text(model, unit),
        "smallest": least,
        "fits_text": fits_text(model, unit, least),
        "feeds_text": feeds_text(answers),
        "large_text": _large_text(known, model, _not_profiled(tables)),
    }


def _not_profiled(tables: Tables) -> str:
    """Return why no tier's disk has a figure, or what to do for one."""
    said = (row["reason"] for row in tables["tiers"] if row["reason"] and not in_memory(tables, row["tier"]))
    return next(said, "name a tier on a disk below `storage` in config.yaml")


def _large_text(known: Iterable[tuple[Row, Candidate]], model: Model, otherwise: str) -> str:
    """Return what storage gives in each format to data that is read from it in each epoch."""
    sizes = {row["format"]: one.item_bytes for row, one in known if one.item_bytes}
    limits = {name: 1e6 * model.storage_mbps / size for name, size in sizes.items() if model.storage_mbps}
    if not limits:
        return f"What the storage gives was not measured: {otherwise}."
    shown = sorted(limits.items(), key=lambda one: -one[1])
    most = ", ".join(f"{number_text(limit)} as {name}" for name, limit in shown)
    return (
        f"Then storage is read in each epoch. At {number_text(model.storage_mbps)} MB/s, with which the form above "
        f"begins, it gives at most, in items/s: {most}. No loader is faster than that; `cache: [cold]` below `sweep` "
        "in config.yaml measures what each reaches of it."
    )


class Axis:
    """A logarithmic axis from `low` to `high`."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def share(self, value: float) -> float:
        """Return where a value is, in percent of the axis from its left end."""
        return round(100 * log(value / self.low) / log(self.high / self.low), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return (place, text) of 1 and 3 times the powers of ten; all digits where the axis is shorter than that."""
        powers = range(floor(log(self.low, 10)), ceil(log(self.high, 10)) + 1)
        factors = (1, 3) if self.high / self.low > 8 else range(1, 10)
        values = [factor * 10**power for power in powers for factor in factors]
        return [(self.share(value), number_text(value, 1)) for value in values if self.low <= value <= self.high]


def _storage_limit(one: Candidate, model: Model) -> float | None:
    """Return the items/s at which storage itself ends, at the bytes of this format."""
    if one.keeps or not model.storage_mbps or not one.item_bytes:
        return None
    return 1e6 * model.storage_mbps / one.item_bytes


def _best(panel: Iterable[Row], recommended: Row | None) -> list[Row]:
    """Return of each loader the fastest result, of the recommended one that result, the fastest first."""
    found = first_of(sorted((row for row in panel if row["items_per_second"]), key=_slowness), "loader")
    if recommended and recommended["loader"] in found:
        found[recommended["loader"]] = recommended
    return sorted(found.values(), key=_slowness)


def _slowness(row: Row) -> float:
    return -row["items_per_second"]


def _same(panel: Iterable[Row], row: Row) -> list[Row]:
    """Return the results of a row's loader whose intervals meet its own, itself first."""
    low, high = _ends(row)
    others = [one for one in panel if one["loader"] == row["loader"] and one["items_per_second"] and one is not row]
    return [row, *(one for one in others if _ends(one)[0] <= high and _ends(one)[1] >= low)]


def _ends(row: Row) -> tuple[float, float]:
    return row["interval_low"] or row["items_per_second"], row["interval_high"] or row["items_per_second"]
