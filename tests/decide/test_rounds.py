"""Sessions in rounds: equal results drawn many times, races in which results leave, and what the tables say."""

from math import exp, inf, log, sqrt

import numpy as np
import pytest

from scripts.decide.intervals import LEAST_FACTOR, critical, intervals, lag
from scripts.decide.rounds import FINAL_ERROR, LOOKS_ERROR, Table, compare, ending_error, lagging

ROUNDS = 12
SD = sqrt(log(1 + 0.15**2))  # of logarithms, at a coefficient of variation of 15 %


def two_modes(random, shape):
    return random.normal(0, 0.05, shape) - log(2.1) * (random.random(shape) < 0.5)


def bursts(random, shape):
    """One run in ten is 1.5 to 3 times slower."""
    return random.normal(0, SD, shape) - (random.random(shape) < 0.1) * np.log(random.uniform(1.5, 3, shape))


NOISES = {  # of log speeds
    "lognormal": lambda random, shape: random.normal(0, SD, shape),
    "bursts": bursts,
    "heavy tails": lambda random, shape: 0.1 * random.standard_t(3, shape),
    "two modes": two_modes,
    "unequal": lambda random, shape: (
        random.normal(0, 1, shape) * random.choice([0.03, 0.08, 0.15, 0.4], (*shape[:-1], 1))
    ),
}


def drawn(random, noise, levels, tables):
    """Log speeds (tables, results, rounds), with what the machine does from round to round."""
    machine = random.normal(0, 0.3, (tables, 1, ROUNDS))
    return np.log(levels)[:, None] + machine + NOISES[noise](random, (tables, len(levels), ROUNDS))


QUIET = ("lognormal", "unequal")


def speeds_of(logs):
    return {key: {round_number: exp(value) for round_number, value in enumerate(row)} for key, row in enumerate(logs)}


def wrong_sessions(sessions):
    """Which sessions (of equal results) have a false difference: all looks and the last table, as a race makes them."""
    wrong = np.zeros(len(sessions), dtype=bool)
    for look in range(1, ROUNDS - 1):
        means, halves, _ = intervals(sessions[..., : look + 2], 0.005 / (look * (look + 1)))
        wrong |= (means - halves > log(1.05)).any(axis=(1, 2))
        if error := ending_error(look):  # it ends where one leads
            means, halves, _ = intervals(sessions[..., : look + 2], error)
            wrong |= ((means - halves > 0).sum(axis=2) == means.shape[-1] - 1).any(axis=1)
    means, halves, _ = intervals(sessions, 0.04)
    return wrong | (means - halves > 0).any(axis=(1, 2))


def test_what_ends_a_session_spends_little_in_all():
    """At looks 4, 8, 16, ...; the first is that of the sixth round."""
    errors = {look: error for look in range(1, 3000) if (error := ending_error(look))}
    assert list(errors) == [1 << number for number in range(2, 12)]
    assert errors[4] == LOOKS_ERROR / 2 and 0.9 * LOOKS_ERROR < sum(errors.values()) < LOOKS_ERROR


@pytest.mark.parametrize(
    ("noise", "results"), [*((noise, 20) for noise in NOISES), *((noise, count) for noise in QUIET for count in (2, 6))]
)
def test_equal_results_are_rarely_set_apart_in_a_whole_session(noise, results):
    """Ten looks and the last table: in at most 5 % of sessions any of the results left or is called different."""
    assert wrong_sessions(drawn(np.random.default_rng(7), noise, np.ones(results), 1000)).mean() <= 0.05


def test_a_factor_of_one_and_a_half_is_found_among_twenty_by_eight_rounds():
    levels = np.array([1.5] + [1.0] * 19)
    logs = drawn(np.random.default_rng(9), "lognormal", levels, 1000)[..., :8]
    means, halves, ahead = intervals(logs, FINAL_ERROR)
    assert (means - halves > 0)[:, 0, 1:].mean() >= 0.9
    assert np.median(lag(ahead)[:, 0]) == 0, "nothing is faster than it"


def test_intervals_of_all_pairs_hold_the_true_ratios():
    levels = np.log(np.geomspace(1, 8, 12))
    logs = drawn(np.random.default_rng(10), "unequal", np.exp(levels), 1000)[..., :8]
    means, halves, ahead = intervals(logs, FINAL_ERROR)
    assert (abs(means - (levels[:, None] - levels)) > halves + 1e-12).any(axis=(1, 2)).mean() <= 0.05
    assert (lag(ahead) < levels.max() - levels - 1e-12).any(axis=1).mean() <= 0.05


@pytest.mark.parametrize("count", [3, 8])
def test_what_is_far_off_has_no_part_in_how_sure_the_others_are(count):
    """An erratic result 25 times slower, and a quiet one."""
    chance = np.random.default_rng(11)
    logs = chance.normal(0, 0.1, (6, count)) - log(2.2) * (np.arange(6) == 5)[:, None]
    alone = Table(speeds_of(logs))
    for scatter in (0.001, 1.0):
        beside = Table(speeds_of(np.vstack([logs, chance.normal(-log(25), scatter, (1, count))])))
        assert [beside.behind(key) for key in range(5)] == [alone.behind(key) for key in range(5)]
        assert all(beside.compare(0, key) == alone.compare(0, key) for key in range(5))
        for key in range(6):
            assert beside.rank_interval(key, range(6)) == alone.rank_interval(key)
    assert beside.compare(0, 6).low < 0.7 * 25, "its own scatter is in its own interval"


def test_what_depends_on_the_round_before_says_less():
    """AR(1) of 0.5: the mean of eight is as uncertain as that of three."""
    noise = np.random.default_rng(12).normal(0, 0.1, (1000, 10, 20))
    plain = intervals(noise, 0.04)[1].mean()
    for number in range(1, 20):
        noise[..., number] = 0.5 * noise[..., number - 1] + sqrt(0.75) * noise[..., number]
    means, halves, _ = intervals(noise, 0.04)
    assert (means - halves > 0).any(axis=(1, 2)).mean() <= 0.05 and halves.mean() > 1.5 * plain


@pytest.mark.parametrize(("count", "told"), [(4, False), (5, True)])
def test_few_rounds_tell_only_large_factors(count, told):
    """Quiet ones too: in three runs one that has two modes is in the same in one case of four."""

    def quiet(speed):
        return {number: speed * (1 + 0.001 * (-1) ** number) for number in range(count)}

    near = LEAST_FACTOR - 0.05
    table = Table({"a": quiet(100.0 * near), "b": {**quiet(100.0), 0: 100.3}, "c": quiet(100.0 / 3)})
    assert table.compare("a", "b").faster == told and table.compare("b", "c").faster


@pytest.mark.parametrize(
    ("results", "degrees", "error", "factor"),
    [
        *((2, 1, 0.05, 12.706), (2, 2, 0.01, 9.925), (2, 10, 0.05, 2.228), (2, 120, 0.01, 2.617)),
        *((3, 2, 0.05, 8.33 / sqrt(2)), (20, 10, 0.05, 6.47 / sqrt(2)), (10, 20, 0.01, 6.09 / sqrt(2))),
    ],
)
def test_critical_values_are_those_of_the_tables(results, degrees, error, factor):
    """Student's t, and the studentized range."""
    assert critical(results, degrees, error) == pytest.approx(factor, rel=1e-3)


def test_two_results_have_the_paired_t_interval():
    one, other = {3: 200.0, 4: 220.0, 5: 150.0, 9: 5.0}, {3: 100.0, 4: 100.0, 5: 100.0, 10: 7.0}
    ratios = np.log([2.0, 2.2, 1.5])
    half = 9.925 * ratios.std(ddof=1) / sqrt(3)
    found = compare(one, other)
    expected = (exp(ratios.mean()), exp(ratios.mean() - half), exp(ratios.mean() + half))
    assert found == pytest.approx(expected, rel=2e-3)
    assert not found.faster
    assert compare(other, one) == pytest.approx([1 / found.ratio, 1 / found.high, 1 / found.low])
    assert Table({1: one, 2: other}, 0.1).compare(1, 2).faster


def test_what_differs_between_rounds_does_not_count():
    one = {round_number: 1000.0 * 3**round_number for round_number in range(4)}
    other = {round_number: speed / (2 + round_number / 100) for round_number, speed in one.items()}
    assert compare(one, other).low > 1.9


def test_two_rounds_have_an_interval_and_one_has_none():
    assert compare({1: 200.0, 2: 202.0}, {1: 100.0, 2: 100.0}).faster
    wild = compare({1: 1e9, 2: 1.0}, {1: 1.0, 2: 1e9})
    assert (wild.low, wild.high) == (pytest.approx(0), inf) and not wild.faster
    for one, other in (({1: 200.0}, {1: 100.0}), ({1: 200.0, 2: 200.0}, {3: 100.0, 2: 100.0})):
        assert compare(one, other) == (pytest.approx(2), None, None)
    assert compare({1: 300.0}, {2: 100.0}) == (pytest.approx(3), None, None)
    assert not compare({1: 300.0}, {2: 100.0}).faster


def test_results_without_scatter():
    table = Table({key: dict.fromkeys(range(6), speed) for key, speed in {"a": 4.0, "b": 2.0, "c": 2.0}.items()})
    assert table.compare("a", "b") == pytest.approx((2, 2, 2))
    assert [table.rank_interval(key) for key in "abc"] == [(1, 1), (2, 3), (2, 3)]
    assert table.equal("b", "c") and not table.equal("a", "b") and table.equal("a", "a")
    assert lagging({"a": {1: 4.0, 2: 4.0}, "b": {1: 0.4, 2: 0.4}, "c": {1: 3.9, 2: 3.9}}, 1)["b"] > 5


def test_one_result_and_none():
    alone = Table({"a": {1: 5.0, 2: 20.0}})
    assert alone.rank_interval("a") == (1, 1) and alone.center("a").speed == pytest.approx(10)
    assert lagging({"a": {1: 5.0, 2: 20.0}}, 1) == {"a": 1.0} and lagging({}, 1) == {}
    assert Table({"a": {7: 5.0}}).center("a") == (pytest.approx(5), None, None)
    assert alone.center("a")[1:] == (None, None), "the scatter of two runs says nothing: 0.01 to 10,000"
    assert Table({"a": {7: 5.0}, "b": {7: 1.0}}).rank_interval("b") == (1, 2)


@pytest.mark.parametrize("speeds", [{}, {1: 0.0}, {1: -1.0}, {1: float("nan")}])
def test_speeds_that_are_none(speeds):
    with pytest.raises(ValueError, match="must be above 0"):
        Table({"a": {1: 5.0}, "b": speeds})


def test_rounds_that_a_result_lacks():
    """One that left early is compared by its own rounds, and its speed is as of the mean round."""
    results = {
        "first": {1: 100.0, 2: 200.0, 3: 400.0, 4: 800.0, 5: 1601.0, 6: 3200.0},
        "other": {1: 100.0, 2: 201.0, 3: 400.0, 4: 800.0, 5: 1600.0, 6: 3200.0},
        "left": {1: 50.0, 2: 100.0, 3: 200.0},
        "late": {6: 1600.0},
    }
    table = Table(results)
    assert table.compare("first", "left").ratio == pytest.approx(2, rel=0.01) and table.compare("first", "left").faster
    assert table.compare("first", "late") == (pytest.approx(2), None, None)
    assert table.compare("left", "late").low is None
    assert table.equal("first", "other")
    assert [table.rank_interval(key) for key in results] == [(1, 3), (1, 3), (3, 4), (1, 4)]
    middle = 100 * sqrt(32)
    assert [table.center(key).speed for key in results] == pytest.approx([middle, middle, middle / 2, middle / 2], 0.01)
    low, high = table.center("first")[1:]
    assert low < middle < high
    levels = np.log(list(results["first"].values()))
    assert high / low == pytest.approx(exp(2 * 2.571 * levels.std(ddof=1) / sqrt(6)), rel=0.02)


def test_results_that_share_no_round_keep_their_own_level():
    """Nothing says how fast one would have been in the rounds of the other: no level, no interval, no rank."""
    table = Table({"a": {0: 109.0}, "b": {1: 1471.0}})
    assert [table.center(key).speed for key in "ab"] == pytest.approx([109, 1471])
    assert table.compare("b", "a") == (pytest.approx(1471 / 109), None, None)
    assert table.leading() == ["a", "b"] and table.behind("b") == inf
    assert [table.rank_interval(key) for key in "ab"] == [(1, 2), (1, 2)]


def test_a_chain_of_shared_rounds_levels_its_results_alone():
    """b is linked to c by a, in slow rounds and fast ones; d and e are beside them, by more rounds than results."""
    results = {
        **{"a": {0: 100.0, 1: 200.0, 2: 400.0}, "b": {0: 50.0}, "c": {2: 200.0}},
        **{"d": {3: 1000.0, 4: 4000.0}, "e": {4: 40.0}},
    }
    for more in ({}, {"f": {5: 7.0}, "g": {5: 7.0}}):  # with more results than rounds too
        table = Table({**results, **more})
        assert [table.center(key).speed for key in "abcde"] == pytest.approx([200, 100, 100, 2000, 20])
        assert table.compare("a", "d") == (pytest.approx(0.1), None, None)
        assert table.compare("d", "e").ratio == pytest.approx(100)


def test_how_far_behind_each_is_at_least():
    random = np.random.default_rng(12)
    logs = log(100) + random.normal(0, 0.02, (6, 6)) - np.array([[0, 0, 0.03, 2, 2, 0.5]]).T
    found = lagging(speeds_of(logs), 1)
    assert found[0] == found[1] == 1 and found[2] < 1.05 < found[5] < exp(0.5) < found[3] < exp(2.1)
    late = lagging(speeds_of(logs), 10**9)
    assert all(late[key] < found[key] for key in (3, 4, 5)), "a late look has little left to spend"
