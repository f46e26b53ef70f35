"""The first chart: a row a loader, its speed with interval on one logarithmic axis, what the model needs, bounds.

It is a table whose one column is drawn by CSS from shares of the axis: it needs no script, and text of any size.
"""

from collections.abc import Mapping
from math import ceil, floor, log
from typing import Any

from scripts.common import sample
from scripts.common.text import bytes_text, number_text
from scripts.common.vocabulary import LIFETIMES, ORDERS
from scripts.decide.panel import main_panel, with_speed
from scripts.report.sentences import keeps_up_text, use_text
from scripts.report.shown import of_each_loader

MARGIN = 1.15  # of the axis beyond what is drawn
TICK_ROOM = 22.0  # percent of the axis, which a number below it takes
ABLE = ("item_ms", "slow_item_ms", "wait", "loss", "start_ms", "item_bytes", "keeps", "held_bytes")
ABLE += ("cold_item_ms", "storage_item_ms", "tried")  # what the page's script needs of a candidate

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def hero(tables: Tables, answer: Row) -> dict[str, Any]:
    """Return what the template draws of an answer's scenario; no `rows` where nothing has a speed there.

    A row is one result of a loader: `row`, its place on the axis (`at`, `low`, `high`, in percent of it), what it gives
    to the user's training (`kept`), and the loader's `candidates` that the page's script goes on with. `need` and
    `ceiling` are lines through all rows; `ticks` are (share, text) of the axis.
    """
    shown = of_each_loader(main_panel(tables["ranking"], answer["device"]), answer)
    best, lost = with_speed(shown), [row for row in shown if not row["items_per_second"]]
    corpus, yours = tables["dataset"]["corpus"], tables["verdict"]["yours"]
    if not best or not corpus:
        return {"rows": []}
    of_loader: dict[str, list[Row]] = {}
    for one in answer["candidates"]:
        of_loader.setdefault(one["loader"], []).append(one)
    need = 1000 * yours["batch"] / yours["step_ms"] if yours["step_ms"] else None
    chosen_first = sorted(best, key=lambda row: row["id"] != answer["choice"])  # its ceiling is in the page's headline
    ceilings = [row["bound_items_per_second"] for row in chosen_first if row["bound"] == "in_memory"]
    ends = [end for row in best for end in (row["interval_low"], row["items_per_second"], row["interval_high"]) if end]
    ends += ceilings[:1] + ([need] if need else [])
    axis = Axis(min(ends) / MARGIN, max(ends) * MARGIN)
    item = sample.from_json(corpus["sample"])
    return {
        "rows": [_row(row, of_loader[row["loader"]], axis) for row in best],
        "lost": lost,
        "yours": yours,
        "scenario": best[0]["scenario"],
        "data": {"audio": "16-bit samples", "image": "decoded images"}.get(item.kind, f"arrays of {item.stored}"),
        "names": {row["id"]: use_text(row) for row in with_speed(main_panel(tables["ranking"], answer["device"]))},
        "delivered_bytes": item.bytes,
        "item_bytes": tables["verdict"]["data"]["item_bytes"],
        "items": tables["verdict"]["data"]["items"],
        "need": need and axis.share(need),
        "need_items_per_second": need,
        "needs_text": needs_text(yours, item.bytes),
        "ceiling": axis.share(ceilings[0]) if ceilings else None,
        "ceiling_items_per_second": ceilings[0] if ceilings else None,
        "axis": axis,
        "ticks": axis.ticks(),
    }


def _row(row: Row, candidates: list[Row], axis: "Axis") -> dict[str, Any]:
    candidates = sorted(candidates, key=lambda one: one["id"] != row["id"])  # that of the row first
    return {
        "row": row,
        "candidates": [[one["id"], *(_short(one[name]) for name in ABLE)] for one in candidates],
        "kept": candidates[0],
        "kept_text": keeps_up_text(candidates[0]),
        "order": ORDERS[row["order_measured"]].word if row["order_measured"] else "",
        "lasts": LIFETIMES[row["batch_lifetime"]].word if row["batch_lifetime"] else "",
        "at": axis.share(row["items_per_second"]),
        "low": axis.share(row["interval_low"] or row["items_per_second"]),
        "high": axis.share(row["interval_high"] or row["items_per_second"]),
    }


def _short(value: Any) -> Any:
    """Return a number with six digits: a page of 500 results holds 5,000 of them."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def needs_text(yours: Row, item_bytes: int) -> str:
    """Return what a training asks for in a sentence; nothing where its step is not known."""
    if not yours["step_ms"]:
        return "Write your training's step, and the chart says which loaders keep up with it."
    need = 1000 * yours["batch"] / yours["step_ms"]
    rate = f"{number_text(need)} items/s, {bytes_text(need * item_bytes)}/s as delivered"
    return f"{yours['batch']:,} items every {yours['step_ms']:,g} ms are {rate}."


class Axis:
    """A logarithmic axis from `low` to `high`."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def share(self, value: float) -> float:
        """Return where a value is, in percent of the axis from its left end."""
        return round(100 * log(value / self.low) / log(self.high / self.low), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return (place, text) of the powers of ten, with more between them where the axis is short and has room."""
        powers = range(floor(log(self.low, 10)), ceil(log(self.high, 10)) + 1)
        wide = self.high / self.low
        factors = (1,) if wide > 300 else (1, 3) if wide > 8 else range(1, 10)
        values = [factor * 10**power for power in powers for factor in factors]
        kept: list[float] = []
        for value in sorted(values, key=lambda value: (value not in {10**power for power in powers}, value)):
            room = all(abs(self.share(value) - self.share(other)) >= TICK_ROOM for other in kept)
            kept += [value] if room and self.low <= value <= self.high else []
        return [(self.share(value), number_text(value, 1)) for value in sorted(kept)]
