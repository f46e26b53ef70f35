"""How random the order is in which a loader delivers items, measured of the epochs that it delivered.

A random order of n items has no two of them nearer to each other than chance, in the data set or in an epoch before.
For random U and V in 0 .. 1 the distance |U - V| has the mean 1/3 and the deviation 0.236; that of consecutive ones
correlates by 0.1, so that the mean of m of them deviates by 0.775 / sqrt(m) of itself.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np

from scripts.common.vocabulary import LOCAL, RANDOM, REPEATED, SEQUENTIAL, UNKNOWN

LEAST_ITEMS = 100  # of a split, and of the beginning of an epoch: fewer tell nothing
LAGS = range(1, 9)  # so many streams that take turns are seen
NEAR_PART = 10  # of an epoch: what is farther apart was not near, however long a batch is
SIGNIFICANT = 5.0  # standard deviations
LEAST_SPREAD_PERCENT = 90.0  # below which an order is not random,
MOST_REPEATED_PERCENT = 5.0  # as above this,
MOST_NEIGHBOURS_PERCENT = 50.0  # and above which it is that of the data set
Measured = dict[str, Any]


def measured(epochs: Sequence[Sequence[int]], items: Collection[int], batch_size: int) -> Measured:
    """Return how random epochs are that delivered these items, each an epoch or how it began, one after the other.

    `items`: those of the split, whose order is that of their numbers. `spread_percent`: how far apart in the data set
    those are that come one after the other, or up to eight later, of what a random order gives. `neighbours_percent`:
    how many of these follow each other in the data set. `repeated_percent`: how many that come one after the other did
    so within a batch's length in an epoch before, beyond chance: 0 of random orders, 100 of the same. The first two are
    those of the epoch that is the least random, where that is no chance. `measured` is a key of ORDERS.
    """
    known = np.sort(np.fromiter(items, dtype=np.int64))
    orders = [np.searchsorted(known, np.asarray(one)) for one in epochs if len(one) >= LEAST_ITEMS]
    if len(known) < LEAST_ITEMS or len(orders) < 2:
        return {"measured": UNKNOWN, "spread_percent": None, "neighbours_percent": None, "repeated_percent": None}
    near = list(_near(orders, len(known)))
    spread, neighbours, deviation = max(near, key=lambda found: found[2])
    if deviation <= SIGNIFICANT:
        spread = fmean(found[0] for found in near)
    repeated = max(_repeated(orders, len(known), batch_size))
    code = RANDOM
    if neighbours > MOST_NEIGHBOURS_PERCENT:
        code = SEQUENTIAL
    elif deviation > SIGNIFICANT and spread < LEAST_SPREAD_PERCENT:
        code = LOCAL
    elif repeated > MOST_REPEATED_PERCENT:
        code = REPEATED
    found = {"spread_percent": spread, "neighbours_percent": neighbours, "repeated_percent": repeated}
    return {"measured": code, **found}


def _near(orders: Sequence[np.ndarray], count: int) -> Iterator[tuple[float, float, float]]:
    """Yield (spread and neighbours in percent, by how many deviations the spread is too small) by epoch and lag."""
    for order in orders:
        for lag in LAGS:
            apart = order[lag:] - order[:-lag]
            spread = np.abs(apart).mean() / ((count + 1) / 3)
            yield 100 * float(spread), 100 * float((apart == 1).mean()), float((1 - spread) * sqrt(len(apart)) / 0.775)


def _repeated(orders: Sequence[np.ndarray], count: int, batch_size: int) -> Iterator[float]:
    """Yield the percentage that repeats itself beyond chance, 0 where it is not significant, for pairs of epochs."""
    for number, later in enumerate(orders):
        for earlier in orders[:number]:
            place = np.full(count, -1)
            place[earlier] = np.arange(len(earlier))
            at = place[later]
            known = (at[1:] >= 0) & (at[:-1] >= 0)
            pairs, length = int(known.sum()), len(earlier)
            near = min(max(1, batch_size - 1), length // NEAR_PART)
            if pairs < LEAST_ITEMS / 2:
                continue
            chance = near * (2 * length - near - 1) / (length * (length - 1))
            hits = int((np.abs(np.diff(at))[known] <= near).sum())
            least = pairs * chance + SIGNIFICANT * (sqrt(pairs * chance * (1 - chance)) + 1)
            yield 100 * (hits / pairs - chance) / (1 - chance) if hits > least else 0.0
    yield 0.0


def other_than_proven(proven: Mapping[str, Any] | None, found: Measured) -> list[str]:
    """Return what is wrong where most of a run's order is not random, and its proof's was; nothing else."""
    if not proven or proven["measured"] != RANDOM or found["measured"] in (RANDOM, LOCAL, UNKNOWN):
        return []
    share = max(found["neighbours_percent"], found["repeated_percent"])
    return [f"other order than was proven: {found['measured']}, {share:.0f} %"] if share > 50 else []
