"""AU, the share of a training's time in which its model computes, as it follows from a loader's rate."""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from scripts.common.vocabulary import ranks_of

MEASURED, BY_RATE = "measured", "by its rate"
TARGET_AU_PERCENT = 90.0  # AU from which a training waits for its own steps alone

Row = Mapping[str, Any]


def works_ahead(workers: int | None, prefetch: int | None) -> bool:
    """Return whether a loader makes batches while a step is under way: by its workers, or where it has no such setting
    by what it prefetches.
    """
    return bool(prefetch if workers is None else workers)


def au_percent(
    step_ms: float, batch_size: int, rate: float, ahead: bool, items: float = 0.0, start_seconds: float = 0.0
) -> float:
    """Return AU in percent over whole epochs of so many items, which take `start_seconds` to begin.

    rate: items/s without epoch starts. ahead: as `works_ahead` says; without, step and batch take turns.
    """
    step, batch, batches = step_ms / 1000, batch_size / rate, max(1, ceil(items / batch_size))
    each = max(step, batch) if ahead else step + batch
    return 100 * step * batches / (each * batches + start_seconds)


def with_step_au(rows: Iterable[Row], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results with `step_au_percent`, its lower end `step_au_low`, and `step_au_from`; None where unknown.

    What was tried with the step has its AU measured. Of the others it follows from steady rate and epoch start, for
    results that read every byte from a warm cache: with workers a batch is made while a step is under way, without any
    nothing overlaps. The lower end is that of the slower end of the speed's interval. Work after a wait is slower than
    work without one: where a result was measured with the step and waited longer than its rate says, so do the others
    of its loader and, if it does not work ahead, all on its device that do not.
    """
    step_ms, found, rows = plan["config"].get("report", {}).get("step_ms"), [], list(rows)
    tried = [row for row in rows if step_ms and row.get("asked_step_ms") == step_ms and _known(row)]
    for row in rows:
        if step_ms and row.get("asked_step_ms") == step_ms:
            said = row["asked_au_percent"], row["asked_au_percent"], MEASURED
        elif step_ms and _known(row):
            slowest = (row["interval_low"] or row["items_per_second"]) / row["items_per_second"]
            said = *(_as_tried(row, tried, step_ms, share) for share in (1.0, slowest)), BY_RATE
        else:
            said = None, None, ""
        found.append({**row, **dict(zip(("step_au_percent", "step_au_low", "step_au_from"), said, strict=True))})
    return found


def bare(row: Row) -> bool:
    """Return whether a result's speed is that of its loader alone: one process that reads warm data, with no step."""
    return (row["task"], row["cache"], row["step_ms"], ranks_of(row)) == ("read", "warm", 0, 1)


def _known(row: Row) -> bool:
    return bool(bare(row) and row["items_per_second"] and row["steady_items_per_second"] and row["items"])


def _ahead(row: Row) -> bool:
    return works_ahead(row["workers"], row["prefetch"])


def _au(row: Row, step_ms: float, share: float) -> float:
    """Return AU in percent over whole epochs, at a share of the steady rate."""
    rate = share * row["steady_items_per_second"]
    return au_percent(step_ms, row["batch_size"], rate, _ahead(row), row["items"], row["epoch_start_seconds"] or 0.0)


def _as_tried(row: Row, tried: Iterable[Row], step_ms: float, share: float) -> float:
    """Return AU in percent at a share of the steady rate, with what was seen of those that were tried.

    Of its own loader with workers, the least share of AU; of what does not work ahead, the most times its wait.
    """
    alike = [one for one in tried if (one["device"], _ahead(one)) == (row["device"], _ahead(row))]
    own = [one for one in alike if one["loader"] == row["loader"]]
    reckoned = _au(row, step_ms, share)
    if _ahead(row):
        return reckoned * min(1.0, *(one["asked_au_percent"] / _au(one, step_ms, 1.0) for one in own), 1.0)
    times = (_wait(one["asked_au_percent"]) / _wait(_au(one, step_ms, 1.0)) for one in own or alike)
    return 100 / (1 + max(1.0, *times, 1.0) * _wait(reckoned))


def _wait(au: float) -> float:
    """Return how many times a step's length is waited for beside it, at an AU in percent."""
    return 100 / au - 1
