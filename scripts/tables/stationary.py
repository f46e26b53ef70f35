"""Rows of warnings.csv for results whose speed changes within a run: a mean over its window then says little.

Queues that were filled before the clock and empty while it runs, a cache that fills, or a leak do that. The halves of
each run's window are compared within rounds, as results are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from scripts.common.groups import RESULT, grouped, names_of
from scripts.decide.rounds import compare

LEAST_GAPS = 20  # between batches, in a run: with fewer a half is chance
LEAST_RUNS = 3
LEAST_CHANGE = 0.1  # a change that is smaller than this is no warning though it can be told
Row = Mapping[str, Any]


def warning_rows(of_runs: Iterable[tuple[Row, Mapping[str, Any] | None]]) -> Iterator[dict[str, Any]]:
    """Yield a warning for each result whose second half is distinguishably faster or slower than its first.

    `of_runs` are rows of runs.csv with `counts`, and their records; an epoch from a cold cache is no window.
    """
    counting = (pair for pair in of_runs if pair[0]["counts"] and pair[0]["cache"] == "warm")
    rows = [{**names_of(row), "repeat": row["repeat"], "record": record} for row, record in counting]
    for same in grouped(rows, *RESULT).values():
        halves = {row["repeat"]: found for row in same if (found := half_speeds(row["record"]["times"]["epochs"]))}
        if len(halves) < LEAST_RUNS:
            continue
        first, second = ({round_number: found[half] for round_number, found in halves.items()} for half in (0, 1))
        found = compare(second, first)
        if 1 - LEAST_CHANGE < found.ratio < 1 + LEAST_CHANGE or not (found.faster or found.slower):
            continue
        yield names_of(same[0]) | {
            "code": "not-stationary",
            "seen": f"the second half of its runs was {found.ratio:.2f} times as fast as the first (99 % interval "
            f"{found.low:.2f} to {found.high:.2f}, {len(halves)} runs)",
            "cause": "queues that were full when the clock started, caches that fill, or a changing clock frequency",
            "hint": "measure longer windows: the same command with measure='{seconds: 5}' behind --config",
        }


def half_speeds(epochs: Iterable[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return the items/s of both halves of a window, without epoch starts; None of one with few batches."""
    epochs = [(np.diff(epoch["arrivals_seconds"]), np.asarray(epoch["batch_items"])[1:]) for epoch in epochs]
    gaps, items = (np.concatenate([[], *parts]) for parts in zip(*epochs, strict=True)) if epochs else ([], [])
    middle = len(gaps) // 2
    halves = [(items[part].sum(), gaps[part].sum()) for part in (slice(middle), slice(middle, None))] if middle else []
    if len(gaps) < LEAST_GAPS or not all(seconds for _, seconds in halves):
        return None
    return tuple(float(delivered / seconds) for delivered, seconds in halves)
