"""Rows of latencies.csv: how long batches took to come, as quantiles over all timed batches of a result."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def rows(rows_and_records: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> Iterator[dict[str, Any]]:
    """Yield the quantiles of each result; from (row of runs.csv, record)."""
    yield from ()
