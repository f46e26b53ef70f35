"""Two attach.json of one training, before and after a change: speeds, AU, losses, items, and what was predicted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.text import number_text

Row = Mapping[str, Any]
SAME_LOSS = 1e-6  # relative, within which a loss is the same
SLOWER = 0.97  # of the earlier speed, below which a training is slower


def read(path: Path) -> dict[str, Any]:
    """Return an attach.json that saw a training. Raises UserError for any other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: found no attach.json ({error}). Type the path of one that attach wrote.") from None
    if not isinstance(found, Mapping) or "au" not in found:
        raise UserError(f"{path}: found no attach.json. Type the path of one that attach wrote.")
    if found["au"] is None:
        raise UserError(f"{path}: it saw no training: {'; '.join(found['notes'])}. Run attach again.")
    return dict(found)


def predicted(before: Row, after: Row, training: Row | None) -> tuple[float | None, float | None, str]:
    """Return (AU in percent, items a second, who predicted it) of the training after the change; None where nobody did.

    `training`: the block of that name in a session's verdict.json. Else it is a setting that was tried before.
    """
    if training is not None and training["choice_au"] is not None:
        return training["choice_au"], training["choice_items_per_second"], "the session"
    for row in before["tried"]:
        change = {name: value for name, value in row["change"].items() if name != "prefetch_factor"}
        if row["times"] and change and all(after["loader"].get(name) == value for name, value in change.items()):
            rate = before["items_per_second"]
            au = min(100.0, before["au"]["percent"] * row["times"])
            return au, rate and rate * row["times"], f"attach, which tried {row['name']}"
    return None, None, ""


def lines(before: Row, after: Row, training: Row | None) -> list[str]:
    """Return the table of both, and how losses and items differ."""
    au, rate, source = predicted(before, after, training)
    rows = [
        ("", "before", "after", *(["predicted"] if source else [])),
        (
            "items/s",
            *(_number(one["items_per_second"]) for one in (before, after)),
            *([_number(rate)] if source else []),
        ),
        ("AU, %", *(f"{one['au']['percent']:.1f}" for one in (before, after)), *([f"{au:.1f}"] if source else [])),
        ("ms a batch", *(f"{one['period_ms']:.2f}" for one in (before, after))),
        ("step without waiting, ms", *(f"{one['step_ms']:.2f}" for one in (before, after))),
        ("items a batch", *(_number(one["batch"]["items"]) for one in (before, after))),
    ]
    widths = [max(len(row[place]) for row in rows if place < len(row)) for place in range(len(rows[0]))]
    texts = [
        "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        for row in rows
    ]
    if source:
        texts.append(f"Predicted by {source}.")
    return [*texts, _losses(before, after), _items(before, after)]


def slower(before: Row, after: Row) -> bool:
    """Return whether the training got slower: by items a second, or by batches where items are not known."""
    if before["items_per_second"] and after["items_per_second"]:
        return after["items_per_second"] < SLOWER * before["items_per_second"]
    return before["period_ms"] < SLOWER * after["period_ms"]


def _number(value: float | None) -> str:
    return "?" if value is None else number_text(value)


def _losses(before: Row, after: Row) -> str:
    both = list(zip(before["losses"], after["losses"], strict=False))
    if not both:
        return "Losses: none were seen in both."
    if all(one == other for one, other in both):
        return f"Losses: the same in the first {len(both)} steps."
    differing = [place for place, pair in enumerate(both) if not _same(*pair)]
    if not differing:
        return f"Losses: the first {len(both)} steps differ by rounding alone."
    means = [[one for one in side if one is not None] for side in zip(*both, strict=True)]
    first, second = (sum(side) / len(side) if side else float("nan") for side in means)
    return f"Losses: different from step {differing[0] + 1} on; mean of {len(both)} steps {first:.4g} and {second:.4g}."


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= SAME_LOSS * max(abs(one), abs(other))


def _items(before: Row, after: Row) -> str:
    one, other = before["items"], after["items"]
    if one is None or other is None:
        return "Items: not compared. Run attach with --passive --items both times, for a whole epoch."
    if one == other:
        return f"Items: the same {one['number']} in both, bit by bit."
    return (
        f"Items: they differ. Before {one['number']} of which {one['distinct']} are distinct, after {other['number']} "
        f"and {other['distinct']}; random crops and transforms differ each time."
    )
