"""What a set of repeated runs says: its median, its range, and which results cannot be told apart."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple


class Spread(NamedTuple):
    """The middle and the ends of some values, in the unit of the values."""

    median: float
    lowest: float
    highest: float
    count: int


def spread(values: Iterable[float]) -> Spread | None:
    """Return median, lowest, highest and count of `values`, or None where there are none."""
    known = sorted(values)
    return Spread(median(known), known[0], known[-1], len(known)) if known else None


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are there, or None where none is."""
    middle = spread(value for value in values if value is not None)
    return middle.median if middle else None


# By how many times its own length a range of so many runs is widened on both sides before two are compared; from 5
# runs on not at all. So two equal results (normal noise) are told apart in about 1 % of cases; unwidened it would be
# 33 % with 2 runs and 10 % with 3 (tests/test_tables.py draws them). A single run is never told from another.
WIDENED = {2: 4.0, 3: 0.5, 4: 0.25}


def _ends(one: Spread) -> tuple[float, float]:
    """Return the ends of a spread's range, widened by how few runs it comes from."""
    if one.count == 1:
        return float("-inf"), float("inf")
    more = WIDENED.get(one.count, 0.0) * (one.highest - one.lowest)
    return one.lowest - more, one.highest + more


def _touch(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[1] >= other[0] and one[0] <= other[1]


def shared_ranks(spreads: Sequence[Spread]) -> list[int]:
    """Return one rank per spread, given in falling order of their medians, as 1, 1, 3.

    A spread whose range, widened for few runs, touches that of the leader of the current group shares the leader's
    rank. It is compared with the leader alone: comparing neighbours would chain the fastest to the slowest
    through a row of small overlaps.
    """
    ranks: list[int] = []
    leader: Spread | None = None
    for position, one in enumerate(spreads, start=1):
        assert position == 1 or one.median <= spreads[position - 2].median, "spreads are not sorted"
        if leader is not None and _touch(_ends(one), _ends(leader)):
            ranks.append(ranks[-1])
        else:
            leader = one
            ranks.append(position)
    return ranks
