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

import warnings
from collections.abc import Collection, Hashable, Mapping
from functools import cache, cached_property
from math import erf, erfc, exp, inf, lgamma, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from scripts.common.statistics import Comparison

Speeds = Mapping[int, float]  # {number of the round: items per second} of one result
FEW = 7  # runs, below which no variance counts as smaller than the pooled one
DEGREES = np.array([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60, 120, 1000])  # of freedom
FAR = 2.0  # times slower than the fastest is far off: it has no part in the noise of the others
WILD = 4.0  # times the pooled variance: what is far off and has more is judged by its own alone, of 4 degrees and more
LIKELY, MOST_SERIAL = 0.5, 0.8  # correlations of neighbouring rounds: allowed for by few rounds, and the largest at all
MARGINS = {"few": 2.0, "seen": 1.5, "unseen": 0.3}  # standard errors added to the correlation that is measured
LEAST_SEEN, LEAST_FACTOR = 6, 1.6  # rounds, below which two results are different only by this factor
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

    def __init__(self, results: Mapping[Hashable, Speeds], error: float = 0.05, serial: bool = True) -> None:
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

    Of equal results with two modes 3 rounds are wrong in 3 % of cases instead of 1 %, 4 and more are not.
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


def intervals(logs: np.ndarray, error: float, serial: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three arrays (..., results, results), of a result in a row against one in a column: the mean log ratio,
    the half length of its interval among those of all pairs, and how far ahead it is at most, for `lag`.

    `logs` is (..., results, rounds) of log speeds, NaN where a result has no run. NaN is the mean of no shared round,
    and what fewer than two do not say. `serial`: correct for serial dependence, and ask more of few rounds.
    """
    shared, means, squares = _differences(logs)
    count, level = logs.shape[-2], levels(logs)
    field = _field(level)
    correlation = _correlation(logs - level[..., None], field) if serial else np.zeros(logs.shape[:-2])
    near = field[..., :, None] & field[..., None, :]
    of_field = _freedom(*_noise(logs, shared, squares, field, correlation))
    of_all = _freedom(*_noise(logs, shared, squares, np.ones_like(field), correlation, ~field))
    sums, freedom, total = (np.where(near, inner, whole) for inner, whole in zip(of_field, of_all, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.sqrt(sums / shared * _inflation(shared, correlation[..., None, None]))
    errors[(shared < 2) | (total < 1)] = np.nan
    least = np.where(serial & (shared < LEAST_SEEN), log(LEAST_FACTOR), 0)
    sizes = np.where(near, field.sum(axis=-1)[..., None, None], count)
    halves, ahead = np.zeros((2, *means.shape))
    apart = ~np.eye(count, dtype=bool)
    for size in np.unique(sizes[sizes > 1]):
        here = (sizes == size) & apart
        halves[here] = np.maximum(critical(int(size), freedom[here], error) * errors[here], least[here])
        ahead[here] = critical(int(size), freedom[here], error, best=True) * errors[here]
    return means, halves, np.where(apart, means + ahead, 0)


def lag(ahead: np.ndarray) -> np.ndarray:
    """Return the logarithms (..., results) of how many times slower than the fastest each result is at most.

    `ahead` are those of `intervals`. What another is ahead of for sure is not the fastest, whatever its scatter.
    """
    ahead = np.nan_to_num(ahead, nan=inf)
    fastest = (ahead >= -ROUNDING).all(axis=-1)
    return np.where(fastest[..., :, None], ahead, -inf).max(axis=-2, initial=0)


def _field(level: np.ndarray) -> np.ndarray:
    """Return which results (..., results) are within FAR of the fastest; the two fastest always are."""
    second = np.sort(level, axis=-1)[..., -2:][..., :1]
    return level >= np.minimum(level.max(axis=-1, keepdims=True, initial=-inf) - log(FAR), second)


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


def _noise(
    logs: np.ndarray,
    shared: np.ndarray,
    squares: np.ndarray,
    group: np.ndarray,
    correlation: np.ndarray,
    may_be_wild: np.ndarray | bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance of each result's noise and its degrees of freedom (..., results), and those of the group.

    A pair's `squares` are those of its `shared` rounds, as `_differences` has them. What `may_be_wild` and is has no
    part in what is pooled.
    """
    there, weights = ~np.isnan(logs), np.maximum(shared - 1, 0)
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # results that share no rounds
        other = ~np.eye(logs.shape[-2], dtype=bool)
        alone = np.nanmedian(np.where(other, squares / weights, np.nan), axis=-1)
        typical = np.nanmedian(alone, axis=-1, keepdims=True)  # twice a variance, as of any difference
    wild = may_be_wild & (alone > (WILD + 1) / 2 * typical)
    group = group & ~wild
    runs, size = there.sum(axis=-1), group.sum(axis=-1, keepdims=True)
    rounds = (there & group[..., None]).any(axis=-2).sum(axis=-1)
    known = ((1 - correlation**2) / (1 + correlation**2))[..., None]  # the share of degrees of freedom that is left
    total = np.where(group, runs - 1, 0).sum(axis=-1) - rounds + 1
    inside = group[..., :, None] & group[..., None, :] & other
    variances = _variances(np.where(inside, squares, 0), np.where(inside, weights, 0), group)
    own = known * np.where(group, np.maximum(runs - 1, 0) * (size - 1) / size, 0)
    variances, degrees = _moderated(variances, own, runs < FEW)
    degrees = np.minimum(degrees, known * total[..., None])
    return (
        np.where(wild, alone - typical / 2, variances),
        np.where(wild, np.maximum(runs - 1, WILD), degrees),
        total,
    )


def _freedom(
    variances: np.ndarray, degrees: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance of a difference, its degrees of freedom, and `total`: (..., results, results)."""
    one, other = variances[..., :, None], variances[..., None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = one**2 / degrees[..., :, None] + other**2 / degrees[..., None, :]
        freedom = np.fmin((one + other) ** 2 / parts, total[..., None, None]).clip(min=1)  # Satterthwaite 1946
    return one + other, freedom, np.broadcast_to(total[..., None, None], freedom.shape)


def _variances(squares: np.ndarray, weights: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the variance of each result's noise (..., results), 0 outside the group, from those of the pairs.

    `squares` are a pair's squared deviations, `weights` their degrees of freedom: (..., results, results). The variance
    of a difference is the sum of two results' variances; this is the least-squares solution (Grubbs 1948).
    """
    system, wanted = weights.astype(float), squares.sum(axis=-1)[..., None]
    places = np.arange(weights.shape[-1])
    system[..., places, places] = np.where(group, weights.sum(axis=-1), 1)
    if len(places) > MANY and (weights > 0).sum() == group.sum() * (group.sum() - 1):  # all pairs: one solution
        return np.linalg.solve(system, wanted)[..., 0].clip(min=0)
    return (np.linalg.pinv(system, rcond=1e-9, hermitian=True) @ wanted)[..., 0].clip(min=0)


def _moderated(variances: np.ndarray, own: np.ndarray, few: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moderated variances (..., results) and their degrees of freedom, infinite where all are pooled.

    `own` are the degrees of freedom before, 0 outside the group; `few` marks the results whose variance is at least the
    pooled one.
    """
    count, known = (own > 0).sum(axis=-1, keepdims=True), own.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = (own * variances).sum(axis=-1, keepdims=True) / known
        spread = (own * (variances / pooled - 1) ** 2).sum(axis=-1, keepdims=True) * count / (count - 1)
        varied = (spread - 2 * count) / (known + 2 * count)  # squared variation of the true variances, by moments
        prior = np.where(varied > 0, 2 / varied, inf)
        share = np.where(varied > 0, prior / (prior + own), 1.0)
        moderated = np.nan_to_num(share * pooled + (1 - share) * variances)
    return np.where(few, np.fmax(moderated, pooled), moderated), prior + own


def _correlation(rest: np.ndarray, field: np.ndarray) -> np.ndarray:
    """Return the correlation (...) of a result's noise in one round with that in the next, as large as it may well be.

    `rest` is what log speeds are above those of the mean round.
    By the mean squared successive difference over the variance (von Neumann 1941), pooled over the field. Its
    expectation under AR(1) is solved for the correlation, with MARGINS added.
    """
    rest = np.where(field[..., None], rest, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rounds without a run of the field
        rest = rest - np.nanmedian(rest, axis=-2, keepdims=True)
    rest = np.take_along_axis(rest, np.argsort(np.isnan(rest), axis=-1, kind="stable"), axis=-1)
    runs = (~np.isnan(rest)).sum(axis=-1)
    middle = np.nansum(rest, axis=-1, keepdims=True) / np.maximum(runs, 1)[..., None]
    whole = np.nansum((rest - middle) ** 2, axis=-1)
    known = (runs >= 3) & (whole > ROUNDING**2)
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # tables in which nothing scatters
        own = np.where(known, whole / np.maximum(runs - 1, 1), np.nan)
        typical = np.nanmedian(own, axis=-1, keepdims=True)
        weights = np.where(known, whole / np.fmax(own, typical), 0)  # what scatters more has no more weight for it
        weights /= weights.sum(axis=-1, keepdims=True)
        seen = np.nansum(weights * np.nansum(np.diff(rest, axis=-1) ** 2, axis=-1) / whole / 2, axis=-1)
        count = known.sum(axis=-1)
        error = np.nansum(weights**2 * (runs - 2) / (runs**2 - 1), axis=-1) * count / np.maximum(count - 1, 1)
    error = np.sqrt(error)
    grid = np.arange(0.01, MOST_SERIAL + 0.001, 0.01)
    shares = (1 - grid) / (1 - _mean_correlation(np.maximum(runs, 3)[..., None], grid))  # (..., results, grid)
    expected = np.nansum(weights[..., None] * shares, axis=-2)
    likely = 0.01 * (expected > seen[..., None]).sum(axis=-1)
    few = runs.max(axis=-1, initial=0) < FEW
    margin = np.where(seen < 1 - MARGINS["seen"] * error, MARGINS["seen"], MARGINS["unseen"])
    low = seen - np.where(few, MARGINS["few"], margin) * error
    upper = np.minimum(0.01 * (expected > low[..., None]).sum(axis=-1), np.where(few, LIKELY, MOST_SERIAL))
    return np.where(count > 0, np.maximum(likely, upper), LIKELY)


def _mean_correlation(runs: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Return the mean correlation of two different runs of so many, where neighbours have `correlation` (AR(1))."""
    rest = 1 - correlation
    sums = runs * correlation / rest - correlation * (1 - correlation**runs) / rest**2
    return 2 * sums / (runs * np.maximum(runs - 1, 1))


def _inflation(runs: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Return by how much the variance of a mean of `runs` is larger than their own variance over `runs` says."""
    mean = _mean_correlation(runs, correlation)
    return (1 + (runs - 1) * mean) / (1 - mean)


def levels(logs: np.ndarray) -> np.ndarray:
    """Return the log speeds (..., results) as of the mean round, by least squares of result + round."""
    if not np.isnan(logs).any():
        return logs.mean(axis=-1) if logs.size else np.zeros(logs.shape[:-1])
    if logs.shape[-2] <= logs.shape[-1]:
        own = _effects(logs)
        return own + np.nanmean(logs - own[..., None], axis=-2).mean(axis=-1, keepdims=True)
    of_rounds = _effects(logs.swapaxes(-1, -2))
    return np.nanmean(logs - of_rounds[..., None, :], axis=-1) + of_rounds.mean(axis=-1, keepdims=True)


def _effects(logs: np.ndarray) -> np.ndarray:
    """Return the effects of rows, but for a constant; those of columns are eliminated, so that few are solved for."""
    weights = (~np.isnan(logs)).astype(float)
    values, counts = np.where(weights, logs, 0), weights.sum(axis=-2, keepdims=True)
    system = weights.sum(axis=-1)[..., None] * np.eye(logs.shape[-2]) - (weights / counts) @ weights.swapaxes(-1, -2)
    right = (values - weights * values.sum(axis=-2, keepdims=True) / counts).sum(axis=-1)[..., None]
    return (np.linalg.pinv(system, rcond=1e-9, hermitian=True) @ right)[..., 0]


def _exp(value: float) -> float:
    """Return e to the power of `value`, to 12 digits; infinity where that is too large."""
    return float(f"{exp(value):.12g}") if value < 700 else inf


def critical(count: int, degrees: Any, error: float, best: bool = False) -> np.ndarray:
    """Return how many standard errors the largest difference of `count` equal results exceeds with chance `error`.

    It is Tukey's studentized range over the square root of 2, of two results Student's two-sided quantile. With `best`
    it is that of the largest of the differences of each other from one, to one side (Dunnett 1955; as if these were
    independent, which is an upper bound by Slepian 1962).
    """
    factors, chances = _chances(count, best)
    of_degrees = [np.interp(-log(error), -one, factors) for one in chances]
    return np.exp(np.interp(1 / np.asarray(degrees, dtype=float), 1 / DEGREES[::-1], of_degrees[::-1])) / sqrt(2)


@cache
def _chances(count: int, best: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return logarithms of factors, and those of the chances that a difference is larger, by DEGREES and factor."""
    ranges, tails = _best_tails(count) if best else _range_tails(count)
    factors, found = np.linspace(log(0.3), log(1e5), 400), []
    for degrees in DEGREES:
        spread = 6 / sqrt(2 * degrees)
        logs = np.linspace(-spread - 18 / degrees, spread, 400)  # of s, where s^2 is chi-squared over its degrees
        half = degrees / 2
        density = np.exp(log(2) + half * log(half) - lgamma(half) + degrees * logs - half * np.exp(2 * logs))
        larger = np.interp(np.exp(factors[:, None] + logs), ranges, tails) @ (density * (logs[1] - logs[0]))
        found.append(np.log(larger.clip(1e-300)))
    return factors, np.array(found)


def _range_tails(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges from 0 to 16, and the chances that `count` standard normal values have a larger one."""
    steps = 32  # to a standard deviation
    places = np.arange(-26 * steps, 9 * steps) / steps  # of the largest value
    below = np.array([(1 + erf(place / sqrt(2))) / 2 for place in places])
    density = np.exp(-(places**2) / 2) / sqrt(2 * pi) / steps
    within = [count * density[k:] @ (below[k:] - below[: len(below) - k]) ** (count - 1) for k in range(16 * steps + 1)]
    return np.arange(len(within)) / steps, np.clip(1 - np.array(within), 0, 1)


def _best_tails(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return differences from 0 to 16, and the chances that one of `count` - 1 normal ones (variance 2) is larger."""
    places = np.arange(16 * 64 + 1) / 64
    above = np.array([erfc(place / 2) / 2 for place in places])
    return places, -np.expm1((count - 1) * np.log1p(-above))
