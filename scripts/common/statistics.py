"""What a set of repeated values says: median, outliers, and how two sets compare that are no pairs."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from math import comb, exp, floor, log, sqrt
from statistics import NormalDist, median
from typing import NamedTuple

CONFIDENCE = 0.95  # of a median's interval
# Of the ratio of two sets of values: two equal ones may differ in 1 % of cases.
# It cannot be much higher: five runs against five have no more to say than p = 1/126 (0.8 %).
RATIO_CONFIDENCE = 0.99
_BELOW = (1 - Fraction(str(RATIO_CONFIDENCE))) / 2  # exact: the number of ways may be larger than any float
MANY = 60  # values of either set: above that their sum of ranks is as good as normal
# times slower: what is significantly no further behind may be used, beyond it the machine is too noisy to choose
CLOSE = 1.25
FEW = 5  # runs, below which a bootstrap interval of the median is no better than the range, and outliers are not told
OUTLIER_MADS, OUTLIER_PERCENT = 3.0, 5.0  # farther than both from the median
_MAD_TO_SIGMA = 1 / NormalDist().inv_cdf(0.75)  # of normal noise

# By how many times its own length (in logarithms) the range of so many runs is widened on both sides, where there are
# too few for an exact test. So two equal results are distinguished in about 1 % of cases, with normal, skewed or
# heavy-tailed noise; unwidened it would be 33 % with 2 runs and 10 % with 3 (tests/common/test_statistics.py).
WIDENED = {2: 4.0, 3: 0.5, 4: 0.25}


class Comparison(NamedTuple):
    """How many times faster one result is than another, with the 99 % interval of that."""

    ratio: float
    low: float | None
    high: float | None

    @property
    def faster(self) -> bool:
        """Whether the first is distinguishably faster than the second."""
        return self.low is not None and self.low > 1

    @property
    def slower(self) -> bool:
        """Whether the first is distinguishably slower than the second."""
        return self.high is not None and self.high < 1


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are there, or None where none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def outliers(values: Iterable[float]) -> int | None:
    """Return how many values are farther than 3 scaled MADs and 5 % from the median; None for fewer than 5 values."""
    known = sorted(values)
    if len(known) < FEW:
        return None
    middle = median(known)
    away = [abs(value - middle) for value in known]
    limit = max(OUTLIER_MADS * _MAD_TO_SIGMA * median(away), OUTLIER_PERCENT / 100 * middle)
    return sum(distance > limit for distance in away)


def compare(one: Sequence[float], other: Sequence[float]) -> Comparison:
    """Return how many times `one` is faster than `other` (speeds above 0 of one or more runs), with its 99 % interval.

    Where there are runs enough: the Hodges-Lehmann estimate and the exact interval of the Mann-Whitney test
    (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 4.2 and 4.3), which ask nothing of the noise but
    that it is the same for both. With 5 runs against 5 it separates just those whose ranges do not overlap. With fewer:
    the ratio of medians, and the ratios between the ends of the widened ranges.
    """
    cut = _outer_ratios(len(one), len(other))
    if cut:
        ratios = sorted(left / right for left in one for right in other)
        return Comparison(exp(median(map(log, ratios))), ratios[cut - 1], ratios[-cut])
    ratio = median(one) / median(other)
    if min(len(one), len(other)) == 1:
        return Comparison(ratio, None, None)
    (low, high), (other_low, other_high) = _widened(one), _widened(other)
    return Comparison(ratio, low / other_high, high / other_low)


def _widened(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the values' range, widened by how few they are."""
    low, high = min(values), max(values)
    factor = (high / low) ** WIDENED.get(len(values), 0.0)
    return low / factor, high * factor


@cache
def _outer_ratios(count: int, other: int) -> int:
    """Return which of the sorted pairwise ratios, counted from either end, is the interval's; 0 where none is.

    The Mann-Whitney statistic of equal distributions has the Gaussian binomial coefficients as its frequencies
    (Mann and Whitney 1947); at most half of what RATIO_CONFIDENCE leaves may be below the ratio's place. Of many values
    they are nearly normal: exact ones would take minutes.
    """
    if min(count, other) > MANY:
        deviation = sqrt(count * other * (count + other + 1) / 12)
        return floor(count * other / 2 + NormalDist().inv_cdf(float(_BELOW)) * deviation)
    ways = [1] + [0] * (count * other)
    for size in range(1, count + 1):  # times (1 - q^(other + size)), then divided by (1 - q^size)
        for place in range(len(ways) - 1, other + size - 1, -1):
            ways[place] -= ways[place - other - size]
        for place in range(size, len(ways)):
            ways[place] += ways[place - size]
    allowed = int(_BELOW * comb(count + other, count))
    cut = total = 0
    while total + ways[cut] <= allowed:
        total += ways[cut]
        cut += 1
    return cut
