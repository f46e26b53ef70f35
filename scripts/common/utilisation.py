"""AU, the share of a training's time in which its model computes, as it follows from a loader's rate."""

from math import ceil

TARGET_AU_PERCENT = 90.0  # AU from which a training waits for its own steps alone


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
