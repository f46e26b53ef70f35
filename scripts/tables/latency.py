"""Rows of latencies.csv: how long batches took to come, as quantiles over all timed batches of a result."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from scripts.common.groups import RESULT, grouped, names_of

PERCENTS = (0, 1, 2, 5, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 100)


def rows(rows_and_records: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> Iterator[dict[str, Any]]:
    """Yield the quantiles of each result, the least first; from (row of runs.csv, record).

    `milliseconds` is the time from one batch's arrival to the next one's within an epoch, with what the consumer did
    between them, such as an emulated step; the first batch of an epoch, which waits for the queues to fill, is left
    out. All batches of the runs that count are pooled, `batches` of them. Between two of them a quantile is
    interpolated. A result of which a run failed has no rows, as it has no speed; nor has one whose epochs are of a
    single batch.
    """
    runs = [
        {**names_of(run), "status": run["status"], "counts": run["counts"], "record": record}
        for run, record in rows_and_records
    ]
    for same in grouped(sorted(runs, key=lambda run: run["status"] != "ok"), *RESULT).values():
        measured = [run["record"] for run in same if run["counts"]]
        gaps = [_gaps(epoch) for record in measured for epoch in _counting(record["times"]["epochs"])]
        pooled = np.concatenate([[], *gaps])
        if len(pooled) and not any(run["status"] == "failed" for run in same):
            names = {**names_of(same[0]), "batches": len(pooled)}
            for percent, seconds in zip(PERCENTS, np.percentile(pooled, PERCENTS), strict=True):
                yield {**names, "percent": percent, "milliseconds": float(seconds) * 1000}


def _counting(epochs: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the epochs that count for the speed: those that were cold, where any of a cold run was."""
    return [epoch for epoch in epochs if not (epoch.get("cache") or {}).get("problem")] or epochs


def _gaps(epoch: Mapping[str, Any]) -> np.ndarray:
    """Return the seconds between batches of one process, of ranks those of each."""
    arrivals, ranks = (np.asarray(epoch.get(key, ())) for key in ("arrivals_seconds", "batch_ranks"))
    return np.concatenate(
        [[], *(np.diff(arrivals[ranks == rank]) for rank in np.unique(ranks))] if len(ranks) else [np.diff(arrivals)]
    )
