"""Rows of spans.csv: what each process of a run did with its first batches, and when."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def rows(rows_and_records: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> Iterator[dict[str, Any]]:
    """Yield the spans of each result in which they were noted; from (row of runs.csv, record)."""
    yield from ()
