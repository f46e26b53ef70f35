"""How far the log speeds of results differ by what was measured in rounds, and how far at most: arrays in and out.

The model is result + round + noise, where each result has its own amount of noise (Grubbs 1948). A variance of 3 to 10
runs is too uncertain to be used as it is, and the variances of loaders differ too much to be pooled. So each is
moderated (after Smyth 2004): a mean of its own and the pooled one, where the pooled one has the more weight, the less
the variances differ. With fewer than 8 runs it is at least the pooled one.

What is pooled is the field: results within twice the speed of the fastest. What is further off has no part in how sure
anything is of these. Against what is far off the noise of all is pooled, but for what is wild: that has its own alone.

All pairs have Tukey's studentized range, with unequal variances (Games and Howell 1976). How far another may be ahead
of a result is asked of the fastest only (Hsu 1984), so that it is bounded more closely, by Dunnett's one-sided factor.

Noise that depends on that of the round before makes means less certain than their scatter says. Its correlation is
measured over all results and allowed for, up to 0.5 where few rounds cannot know it. And what is the same in three
rounds may be a state of a process or of a neighbour: below 5 rounds only large factors are called a difference.
"""

import warnings
from functools import cache
from math import erf, erfc, inf, lgamma, log, pi, sqrt
from typing import Any

import numpy as np

FEW = 8  # runs, below which no variance counts as smaller than the pooled one
DEGREES = np.array([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60, 120, 1000])  # of freedom
FAR = 2.0  # times slower than the fastest is far off: it has no part in the noise of the others
WILD = 4.0  # times the pooled variance: what is far off and has more is judged by its own alone, of 4 degrees and more
LIKELY, MOST_SERIAL = 0.5, 0.8  # correlations of neighbouring rounds: allowed for by few rounds, and the largest at all
CLEARLY, UNSEEN = 0.12, 0.3  # below 1 is the ratio of von Neumann then; of its standard error what is still allowed for
LEAST_SEEN, LEAST_FACTOR = 5, 1.6  # rounds, below which two results are different only by this factor
MANY = 200  # results, above which a pseudo-inverse takes seconds
ROUNDING = 5e-13  # of log ratios: smaller ones are none, as in `_exp`


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

    `rest` is what log speeds are above those of the mean round. By the mean squared successive difference over the
    variance (von Neumann 1941), pooled over the field, whose expectation under AR(1) is solved for the correlation. The
    margins are those that cost the least by simulation: 1.5 standard errors where it is seen, 2 by few rounds, else
    the less the smaller the error is.
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
    doubted = seen < 1 - np.minimum(1.5 * error, CLEARLY)
    low = seen - np.where(few, 2.0, np.where(doubted, 1.5, error / UNSEEN)) * error
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
    """Return the log speeds (..., results) as of the mean round, by least squares of result + round.

    The mean is that of the rounds to which a result is `linked`: of others nothing says how fast it would be there.
    """
    if not np.isnan(logs).any():
        return logs.mean(axis=-1) if logs.size else np.zeros(logs.shape[:-1])
    there = linked(logs)
    if logs.shape[-2] <= logs.shape[-1]:
        own = _effects(logs)
        of_rounds = np.nanmean(logs - own[..., None], axis=-2)
    else:
        of_rounds = _effects(logs.swapaxes(-1, -2))
        own = np.nanmean(logs - of_rounds[..., None, :], axis=-1)
    return own + np.broadcast_to(of_rounds[..., None, :], there.shape).mean(axis=-1, where=there)


def linked(logs: np.ndarray) -> np.ndarray:
    """Return bool (..., results, rounds): whether a chain of shared rounds leads from a result to a round.

    Between results without such a chain no round says what is the result and what the machine.
    """
    there = (~np.isnan(logs)).astype(float)
    few = there if logs.shape[-2] <= logs.shape[-1] else there.swapaxes(-1, -2)
    chains = few @ few.swapaxes(-1, -2) > 0
    while not chains.all():
        longer = chains.astype(float) @ chains > 0
        if (longer == chains).all():
            break
        chains = longer
    reached = chains.astype(float) @ few > 0
    return reached if few is there else reached.swapaxes(-1, -2)


def _effects(logs: np.ndarray) -> np.ndarray:
    """Return the effects of rows, but for a constant; those of columns are eliminated, so that few are solved for."""
    weights = (~np.isnan(logs)).astype(float)
    values, counts = np.where(weights, logs, 0), weights.sum(axis=-2, keepdims=True)
    system = weights.sum(axis=-1)[..., None] * np.eye(logs.shape[-2]) - (weights / counts) @ weights.swapaxes(-1, -2)
    right = (values - weights * values.sum(axis=-2, keepdims=True) / counts).sum(axis=-1)[..., None]
    return (np.linalg.pinv(system, rcond=1e-9, hermitian=True) @ right)[..., 0]


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
