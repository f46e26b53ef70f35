"""What a session in rounds says: ratios of results within rounds, ranks, and which results may leave the race.

In each round every live result is run once. What differs between rounds is the machine, so results are compared by
the ratios of their speeds within the rounds that both have (scripts/decide/intervals.py). How often that is wrong is
simulated by `python -m bench.verdicts`, over nine noises, 3, 8 and 20 rounds, one and two tiers, with looks after each
round: a false difference in 0 to 5 % of sessions, and in 5.7 % of one of 54 cases; "nothing is more than Y % faster"
broken, and something more than 5 % behind said to lead alone, in at most 1 %. A factor of 1.5 with 15 % noise is found
among 20 results by 8 rounds in 90 % of cases. Of 3 rounds little is said: then 25 % is not told, and a factor of 2 with
15 % noise in a third of cases.

All this is true within a session. Where each result has a state of 2 % for the whole of it, a table has a false
difference in 73 % of sessions by 8 rounds and 98 % by 20: no statistics of one session can know.

What others on the machine take from a run is measured with it, and what lost more than 15 % of all cores does not
count (scripts/common/counting.py): two thirds of the speed were gone where another process had one of two cores. That
choice never looks at a speed, and has one limit for all results that are compared.
"""

from collections.abc import Collection, Hashable, Mapping
from functools import cached_property
from math import exp, inf, sqrt
from typing import NamedTuple

import numpy as np

from scripts.common.statistics import Comparison
from scripts.decide.intervals import ROUNDING, critical, intervals, lag, levels

Speeds = Mapping[int, float]  # {number of the round: items per second} of one result
LEAST_OWN = 3  # runs of a result, below which their scatter gives no interval of its speed by itself
CENTER_ERROR = 0.05  # of the interval of a single speed
FINAL_ERROR = 0.04  # of a session's last tables: with what is spent before the whole stays within 5 %
OF_TWO = FINAL_ERROR / 2  # of each where results and loaders over all tiers are compared
LOOKS_ERROR = 0.005  # of who leaves, over all looks after a round; and of ending the session since one leads


class Center(NamedTuple):
    """The speed of a result in items per second, with its 95 % interval: None where fewer than three runs count."""

    speed: float
    low: float | None
    high: float | None


class Table:
    """All results of one scenario, compared at once: the chance of any false difference is at most `error`.

    `serial`: a round may depend on that before, and few rounds tell only large factors. Raises ValueError for a result
    without a run, and for a speed that is not above 0.
    """

    def __init__(self, results: Mapping[Hashable, Speeds], error: float = 0.05, serial: bool = True) -> None:
        self.error = error
        self.place = {key: number for number, key in enumerate(results)}
        rounds = sorted({round_number for speeds in results.values() for round_number in speeds})
        speeds = [[one.get(round_number, np.nan) for round_number in rounds] for one in results.values()]
        if not all(results.values()) or any(not speed > 0 for one in results.values() for speed in one.values()):
            raise ValueError("each result must have a speed, and speeds must be above 0")
        self.logs = np.log(np.array(speeds, dtype=float).reshape(len(results), len(rounds)))
        self.means, self.halves, self.ahead = intervals(self.logs, error, serial)

    def compare(self, one: Hashable, other: Hashable) -> Comparison:
        """Return how many times `one` is faster than `other`, with its simultaneous interval: of two rounds or more."""
        places = self.place[one], self.place[other]
        mean, half = float(self.means[places]), float(self.halves[places])
        if np.isnan(mean):  # no round has both
            mean = float(np.nanmean(self.logs[places[0]]) - np.nanmean(self.logs[places[1]]))
        if np.isnan(half):
            return Comparison(_exp(mean), None, None)
        return Comparison(_exp(mean), _exp(mean - half), _exp(mean + half))

    def leading(self, among: Collection[Hashable] | None = None) -> list[Hashable]:
        """Return the results than which no other of `among` (default: all) is significantly faster."""
        keys = [*self.place] if among is None else [*among]
        places = [self.place[key] for key in keys]
        slower = self.means[np.ix_(places, places)] - self.halves[np.ix_(places, places)] > ROUNDING  # NaN is not
        return [key for key, slow in zip(keys, slower.any(axis=0), strict=True) if not slow]

    def behind(self, key: Hashable, among: Collection[Hashable] | None = None) -> float:
        """Return how many times slower than the fastest of `among` (default: all) a result is at most.

        Of all results at once (Hsu 1984), the chosen ones included; infinite where too few rounds are shared.
        """
        places = [self.place[one] for one in dict.fromkeys([key, *(self.place if among is None else among)])]
        return _exp(float(lag(self.ahead[np.ix_(places, places)])[0]))

    def rank_interval(self, key: Hashable, among: Collection[Hashable] | None = None) -> tuple[int, int]:
        """Return 1 + how many are significantly faster, and the number of results less those that are significantly
        slower.

        `among`: the results that count, itself included; default: all.
        """
        place, places = self.place[key], [self.place[one] for one in (self.place if among is None else among)]
        means, halves = self.means[place, places], self.halves[place, places]
        slower = (means + halves < -ROUNDING).sum()  # NaN is neither
        faster = (means - halves > ROUNDING).sum()
        return 1 + int(slower), len(places) - int(faster)

    def equal(self, one: Hashable, other: Hashable, resolution: float = 0.05) -> bool:
        """Return whether the ratio is significantly within 1 / (1 + `resolution`) to 1 + `resolution`."""
        _, low, high = self.compare(one, other)
        return low is not None and 1 / (1 + resolution) <= low and high <= 1 + resolution

    @cached_property
    def _every_level(self) -> np.ndarray:
        return levels(self.logs)

    def center(self, key: Hashable) -> Center:
        """Return a result's speed as of the mean round, also of one that left early.

        Its interval is that of its own runs' scatter, the machine's between rounds included, and of this speed
        only: results are compared by `compare`.
        """
        own = self.logs[self.place[key]]
        own = own[~np.isnan(own)]
        level = float(self._every_level[self.place[key]])
        if len(own) < LEAST_OWN:
            return Center(_exp(level), None, None)
        half = float(critical(2, len(own) - 1, CENTER_ERROR)) * float(own.std(ddof=1)) / sqrt(len(own))
        return Center(_exp(level), _exp(level - half), _exp(level + half))


def compare(one: Speeds, other: Speeds) -> Comparison:
    """Return how many times `one` is faster than `other`, with its 99 % interval, of the rounds that both have.

    It is the paired t interval. Where a round depends on that before (AR(1) of 0.5) it is wrong in 3 % of cases.
    """
    return Table({1: one, 2: other}, 0.01, serial=False).compare(1, 2)


def lagging(results: Mapping[Hashable, Speeds], look: int) -> dict[Hashable, float]:
    """Return how many times slower than some other each result is at least, as far as a look may say: 1 and more.

    `look` counts from 1, the look after the third round. Look n spends LOOKS_ERROR / (n (n + 1)), all looks at most
    LOOKS_ERROR. A last table with 0.04 keeps a session within 5 %; the rest is room for noise that is not normal.
    """
    table = Table(results, LOOKS_ERROR / (look * (look + 1)))
    least = np.nan_to_num(table.means - table.halves).max(axis=0, initial=0)  # of the results in the columns
    return {key: _exp(float(least[place])) for key, place in table.place.items()}


def ending_error(look: int) -> float | None:
    """Return the error with which a session may end at a look since one result leads; None where that is not asked.

    It is asked at looks 4, 8, 16 and so on: time n may spend LOOKS_ERROR / (n (n + 1)), all together LOOKS_ERROR. Asked
    after each round, so little would be left for each that a long session never ended so.
    """
    time = look.bit_length() - 2
    return LOOKS_ERROR / (time * (time + 1)) if look >= 4 and look == 1 << (time + 1) else None


def _exp(value: float) -> float:
    """Return e to the power of `value`, to 12 digits; infinity where that is too large."""
    return float(f"{exp(value):.12g}") if value < 700 else inf
