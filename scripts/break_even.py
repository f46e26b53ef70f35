"""Rows of break_even.csv: after how many epochs a faster format has paid for its conversion."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def rows(best: Iterable[Mapping[str, Any]], formats: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each device, tier and format that was measured; from rows of best.csv and formats.csv."""
    yield from ()
