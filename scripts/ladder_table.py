"""Rows of ladder.csv: the ladder's rungs, what each gained over the one below."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def rows(plan: Mapping[str, Any], ranked: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each rung of the plan's ladder, from the lowest."""
    yield from ()
