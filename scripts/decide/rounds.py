"""What a session in rounds says: ratios of results within rounds, ranks, and which results may leave the race.

In each round every live result is run once. What differs between rounds is the machine, so results are compared by
the ratios of their speeds within the rounds that both have. The model is additive in the logarithms of speeds: result +
round + noise, where each result has its own amount of noise. The intervals of all pairs together are those of Games and
Howell (1976): mean paired differences, and Tukey's studentized range; of two results it is the paired t interval.

A variance of 3 to 10 runs is too uncertain to be used as it is, and the variances of loaders differ too much to be
pooled. So each is moderated (after Smyth 2004): a mean of its own and the pooled one, where the pooled one has the more
weight, the less the variances of this table differ. With fewer than 7 runs it is at least the pooled one: a result
that is fast or slow by its heap may have been in the same mode in all of them.

Simulated, with looks after rounds 3 to 12 (`leaving`) and a last table with `error` 0.04, of 20 equal results: a false
difference in 3.9 % of sessions with lognormal noise, 0.5 % with bursts of a neighbour, 2.9 % with two modes, 2.8 % with
3 % noise in some results and 40 % in others; of 4 to 8 results 4.1 to 5.3 %. A table of only 3 rounds with noise that
unequal has up to 8 %. Where 4 of 20 results have two modes and all others are quiet, it is 11 %: in 3 runs such a
result is in one mode in one case of four, and no statistics can know. A factor of 1.5 with 15 % noise is found among 20
results by 8 rounds in 95 % of cases (`error` 0.05), by 5 in 69 %, by 3 in 30 %.

What others on the machine take from a run is measured with it, and what lost more than 15 % of all cores does not
count (scripts/common/counting.py): two thirds of the speed were gone where another process had one of two cores. That
choice never looks at a speed, and has one limit for all results that are compared.

Exact signed-rank intervals cannot do it: that of n rounds has an error of at least 2 / 2^n, 0.2 % for 10 rounds, and
190 pairs with 5 % in all ask for 0.026 % each. That takes 13 rounds, more than five minutes give.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cache, cached_property
from math import erf, exp, inf, lgamma, log, pi, sqrt
from typing import NamedTuple

import numpy as np

from scripts.common.statistics import Comparison

Speeds = Mapping[int, float]  # {number of the round: items per second} of one result
FEW = 7  # runs, below which no variance counts as smaller than the pooled one
MOST_DEGREES = 500  # of freedom: with more nothing changes
MANY = 200  # results, above which a pseudo-inverse takes seconds
LEAST_OWN = 3  # runs of a result, below which their scatter gives no interval of its speed by itself
ROUNDING = 5e-13  # of log ratios: smaller ones are none, as in `_exp`
CENTER_ERROR = 0.05  # of the interval of a single speed
FINAL_ERROR = 0.04  # of a session's last table: with what is spent before the whole stays within 5 %
LOOKS_ERROR = 0.005  # of who leaves, over all looks after a round; and of ending the session since one leads


class Center(NamedTuple):
    """The speed of a result in items per second, with its 95 % interval: None where fewer than three runs count."""

    speed: float
    low: float | None
    high: float | None


class Table:
    """All results of one scenario, compared at once: the chance of any false difference is at most `error`.

    Raises ValueError for a result without a run, and for a speed that is not above 0.
    """

    def __init__(self, results: Mapping[Hashable, Speeds], error: float = 0.05) -> None:
        self.place = {key: number for number, key in enumerate(results)}
        rounds = sorted({round_number for speeds in results.values() for round_number in speeds})
        speeds = [[one.get(round_number, np.nan) for round_number in rounds] for one in results.values()]
        if not all(results.values()) or any(not speed > 0 for one in results.values() for speed in one.values()):
            raise ValueError("each result must have a speed, and speeds must be above 0")
        self.logs = np.log(np.array(speeds, dtype=float).reshape(len(results), len(rounds)))
        count = len(results)
        self.means, self.halves = np.zeros((count, count)), np.zeros((count, count))  # of the log ratios
        if count > 1:
            first, second = np.triu_indices(count, 1)
            mean, half = pair_intervals(self.logs, error)
            self.means[first, second], self.means[second, first] = mean, -mean
            self.halves[first, second] = self.halves[second, first] = half

    def compare(self, one: Hashable, other: Hashable) -> Comparison:
        """Return how many times `one` is faster than `other`, with its simultaneous interval: of two rounds or more."""
        places = self.place[one], self.place[other]
        mean, half = float(self.means[places]), float(self.halves[places])
        if np.isnan(mean):  # no round has both
            mean = float(np.nanmean(self.logs[places[0]]) - np.nanmean(self.logs[places[1]]))
        if np.isnan(half):
            return Comparison(_exp(mean), None, None)
        return Comparison(_exp(mean), _exp(mean - half), _exp(mean + half))

    def among(self, keys: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean log ratios of each of the keys to each, and the half lengths of their intervals: (n, n).

        NaN is what no round tells: the half length where fewer than two rounds have both.
        """
        places = [self.place[key] for key in keys]
        return self.means[np.ix_(places, places)], self.halves[np.ix_(places, places)]

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
        return _levels(self.logs)

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
        half = critical(2, len(own) - 1, CENTER_ERROR) * float(own.std(ddof=1)) / sqrt(len(own))
        return Center(_exp(level), _exp(level - half), _exp(level + half))


def compare(one: Speeds, other: Speeds) -> Comparison:
    """Return how many times `one` is faster than `other`, with its 99 % interval, of the rounds that both have.

    Of equal results with two modes 3 rounds are wrong in 3 % of cases instead of 1 %, 4 and more are not.
    """
    return Table({1: one, 2: other}, 0.01).compare(1, 2)


def leaving(
    results: Mapping[Hashable, Speeds], look: int, keep: Collection[Hashable] = (), resolution: float = 0.05
) -> set[Hashable]:
    """Return which of the live results leave: those significantly slower than another by more than `resolution`.

    `look` counts from 1, the look after the third round. Look n spends LOOKS_ERROR / (n (n + 1)), all looks at most
    LOOKS_ERROR. A last table with 0.04 keeps a session within 5 %; the rest is room for noise that is not normal.
    `keep` never leave.
    """
    table = Table(results, LOOKS_ERROR / (look * (look + 1)))
    slowest = table.means + table.halves  # the upper ends; NaN compares as False
    left = (slowest < -log(1 + resolution)).any(axis=1)
    return {key for key, place in table.place.items() if left[place] and key not in keep}


def ending_error(look: int) -> float | None:
    """Return the error with which a session may end at a look since one result leads; None where that is not asked.

    It is asked at looks 4, 8, 16 and so on: time n may spend LOOKS_ERROR / (n (n + 1)), all together LOOKS_ERROR. Asked
    after each round, so little would be left for each that a long session never ended so.
    """
    time = look.bit_length() - 2
    return LOOKS_ERROR / (time * (time + 1)) if look >= 4 and look == 1 << (time + 1) else None


def pair_intervals(logs: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean differences of log speeds of all pairs, and the half lengths of their intervals: (..., pairs).

    `logs` is (..., results, rounds) of two or more results, NaN where a result has no run; pairs are in the order of
    np.triu_indices. NaN is the mean of no shared round, and the half length of fewer than two.
    """
    count = logs.shape[-2]
    first, second = np.triu_indices(count, 1)
    shared, means, squares = (found[..., first, second] for found in _differences(logs))
    runs = (~np.isnan(logs)).sum(axis=-1)
    rounds = (~np.isnan(logs)).any(axis=-2).sum(axis=-1)
    total = (runs.sum(axis=-1) - count - rounds + 1)[..., None]  # degrees of freedom of all results
    own = np.maximum(runs - 1, 0) * (count - 1) / count
    variances = _variances(squares, np.maximum(shared - 1, 0), count)
    variances, degrees = _moderated(variances, own, runs < FEW)
    degrees = np.minimum(degrees, total)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = variances[..., first] + variances[..., second]
        parts = variances[..., first] ** 2 / degrees[..., first] + variances[..., second] ** 2 / degrees[..., second]
        freedom = np.fmin(sums**2 / parts, total)  # Satterthwaite 1946
        errors = np.sqrt(sums / shared)
    known = (shared >= 2) & (total >= 1)
    whole = np.where(known, np.clip(freedom, 1, MOST_DEGREES), 0).astype(int)
    factors = np.full(MOST_DEGREES + 1, np.nan)
    for one in np.unique(whole[known]):
        factors[one] = critical(count, int(one), error)
    return means, factors[whole] * errors


def _differences(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of each result and each other one (..., results, results) in how many rounds both are, their mean
    difference there (NaN of none), and the sum of the squared deviations from it.

    By products of matrices, so that 5,000 results do not need 12.5 million pairs times all rounds of memory. Each
    result's own middle is taken away first: what is left is small, and so is what rounding does to it.
    """
    there = ~np.isnan(logs)
    middles = np.where(there, logs, 0).sum(axis=-1, keepdims=True) / np.maximum(there.sum(axis=-1, keepdims=True), 1)
    rest, weights = np.where(there, logs - middles, 0), there.astype(float)

    def summed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return one @ other.swapaxes(-1, -2)

    shared = np.rint(summed(weights, weights)).astype(int)
    sums, squares = summed(rest, weights), summed(rest**2, weights)
    sums = sums - sums.swapaxes(-1, -2)
    squares = squares + squares.swapaxes(-1, -2) - 2 * summed(rest, rest)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / shared  # NaN where nothing is shared
    squares = (squares - np.nan_to_num(means) * sums).clip(min=0)
    return shared, means + middles - middles.swapaxes(-1, -2), squares


def _variances(squares: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """Return the variance of each result's noise (..., results), from those of the pairs' differences.

    `squares` are a pair's squared deviations, `weights` their degrees of freedom: (..., pairs). The variance of a
    difference is the sum of two results' variances; this is the least-squares solution (Grubbs 1948).
    """
    first, second = np.triu_indices(count, 1)
    system, sums = np.zeros((2, *squares.shape[:-1], count, count))
    for here, there in ((first, second), (second, first)):
        system[..., here, there], sums[..., here, there] = weights, squares
    places = np.arange(count)
    system[..., places, places] = system.sum(axis=-1)
    wanted = sums.sum(axis=-1)[..., None]
    if count > MANY and weights.all():  # all pairs are known, so that there is one solution
        return np.linalg.solve(system, wanted)[..., 0].clip(min=0)
    return (np.linalg.pinv(system, rcond=1e-9, hermitian=True) @ wanted)[..., 0].clip(min=0)


def _moderated(variances: np.ndarray, own: np.ndarray, few: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moderated variances (..., results) and their degrees of freedom, infinite where all are pooled.

    `own` are the degrees of freedom before, `few` marks the results whose variance is at least the pooled one.
    """
    count, known = own.shape[-1], own.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = (own * variances).sum(axis=-1, keepdims=True) / known
        spread = (own * (variances / pooled - 1) ** 2).sum(axis=-1, keepdims=True) * count / (count - 1)
        varied = (spread - 2 * count) / (known + 2 * count)  # squared variation of the true variances, by moments
        prior = np.where(varied > 0, 2 / varied, inf)
        share = np.where(varied > 0, prior / (prior + own), 1.0)
        moderated = np.nan_to_num(share * pooled + (1 - share) * variances)
    return np.where(few, np.fmax(moderated, pooled), moderated), prior + own


def _levels(logs: np.ndarray) -> np.ndarray:
    """Return the log speeds (results,) as of the mean round, by least squares of result + round.

    The results' part is eliminated, so that what is solved has the size of the rounds.
    """
    weights = (~np.isnan(logs)).astype(float)
    speeds, counts = np.where(weights, logs, 0), weights.sum(axis=1, keepdims=True)
    own, shares = speeds.sum(axis=1, keepdims=True) / counts, weights / counts
    system = np.diag(weights.sum(axis=0)) - weights.T @ shares
    effects = np.linalg.pinv(system, rcond=1e-9, hermitian=True) @ (speeds - weights * own).sum(axis=0)
    return own[:, 0] - shares @ effects + effects.mean()


def _exp(value: float) -> float:
    """Return e to the power of `value`, to 12 digits; infinity where that is too large."""
    return float(f"{exp(value):.12g}") if value < 700 else inf


@cache
def critical(count: int, degrees: int, error: float) -> float:
    """Return how many standard errors the largest difference of `count` equal results exceeds with chance `error`.

    It is Tukey's studentized range over the square root of 2, of two results Student's two-sided quantile.
    """
    logs = np.linspace(-14, 3, 3401)  # of s, where s^2 is chi-squared over its degrees of freedom
    half = degrees / 2
    density = np.exp(log(2) + half * log(half) - lgamma(half) + degrees * logs - half * np.exp(2 * logs))
    chances, scales = density * (logs[1] - logs[0]), np.exp(logs)
    ranges, tails = _range_tails(count)
    low, high = 0.0, 1e6
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if (chances * np.interp(middle * scales, ranges, tails)).sum() > error:
            low = middle
        else:
            high = middle
    return high / sqrt(2)


@cache
def _range_tails(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges from 0 to 16, and the chances that `count` standard normal values have a larger one."""
    steps = 32  # to a standard deviation
    places = np.arange(-26 * steps, 9 * steps) / steps  # of the largest value
    below = np.array([(1 + erf(place / sqrt(2))) / 2 for place in places])
    density = np.exp(-(places**2) / 2) / sqrt(2 * pi) / steps
    within = [count * density[k:] @ (below[k:] - below[: len(below) - k]) ** (count - 1) for k in range(16 * steps + 1)]
    return np.arange(len(within)) / steps, np.clip(1 - np.array(within), 0, 1)
