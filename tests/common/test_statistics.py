"""What repeated runs say: intervals against enumeration, equal and unequal results drawn many times, and drift."""

from math import comb

import numpy as np
import pytest

from scripts.common import statistics
from scripts.common.statistics import compare, outliers
from scripts.tables import drift
from tests.support.made_runs import bound_record

NOISES = {
    "normal": lambda random, runs: random.normal(1, 0.03, runs),
    "skewed": lambda random, runs: np.exp(-0.03 * random.lognormal(0, 1, runs)),
    "heavy-tailed": lambda random, runs: np.exp(0.02 * random.standard_t(2, runs)),
}


def drifting(random, runs):
    """Speeds of a machine that becomes 10 % slower, the runs of two equal loaders in random order."""
    speeds = 1 - 0.1 * np.arange(2 * runs) / (2 * runs) + random.normal(0, 0.01, 2 * runs)
    return random.permutation(speeds).reshape(2, runs)


def told(pairs):
    """The share of pairs of results that are called different."""
    comparisons = [compare(one.tolist(), other.tolist()) for one, other in pairs]
    return sum(comparison.faster or comparison.slower for comparison in comparisons) / len(comparisons)


@pytest.mark.parametrize(
    ("one", "other", "critical"), [(5, 5, 0), (5, 10, 4), (8, 8, 7), (10, 10, 16), (20, 20, 105), (10, 20, 42)]
)
def test_the_exact_test_has_the_tables_critical_values(one, other, critical):
    """Of the Mann-Whitney statistic, two-sided, 1 %: equal or below is significant."""
    assert statistics._outer_ratios(one, other) == statistics._outer_ratios(other, one) == critical + 1


@pytest.mark.parametrize(("one", "other"), [(61, 61), (70, 100)])
def test_many_values_have_nearly_the_interval_of_the_exact_test(monkeypatch, one, other):
    nearly = statistics._outer_ratios.__wrapped__(one, other)
    monkeypatch.setattr(statistics, "MANY", 1000)
    assert 0.99 < nearly / statistics._outer_ratios.__wrapped__(one, other) <= 1


def test_a_session_of_any_length_is_compared():
    """Of 1,600 control runs the ways to mix their halves are more than any float."""
    halves = [1.0 + place / 800 for place in range(800)]
    found = compare(halves, [1.5 * speed for speed in halves])
    assert found.ratio == pytest.approx(1 / 1.5) and found.slower


def test_a_ratio_has_an_estimate_and_an_interval():
    one, other = [200.0, 202.0, 204.0, 206.0, 208.0], [100.0, 101.0, 102.0, 103.0, 104.0]
    comparison = compare(one, other)
    assert comparison == pytest.approx((2.0, 200 / 104, 208 / 100))
    assert (comparison.faster, comparison.slower) == (True, False)
    assert compare(other, one) == pytest.approx((0.5, 100 / 208, 104 / 200))
    assert compare(other, one).slower
    assert compare([200.0], other) == (200 / 102, None, None)
    assert not compare([200.0], other).faster
    few = compare([200.0, 202.0], [100.0, 101.0])
    assert few.faster
    assert few.low < 200 / 101 < few.ratio < 202 / 100 < few.high


@pytest.mark.parametrize(("one", "other"), [(1, 20), (2, 5), (3, 5), (4, 5), (2, 19), (3, 9), (4, 6)])
def test_unequal_numbers_of_runs(one, other):
    """The exact test takes over where the smallest p that it can give is at most 1 %."""
    fast, slow = [200.0 + run for run in range(one)], [100.0 + run for run in range(other)]
    assert bool(statistics._outer_ratios(one, other)) == (2 / comb(one + other, one) <= 0.01)
    assert compare(fast, slow).faster == compare(slow, fast).slower == (one > 1)


@pytest.mark.parametrize(("one", "other"), [(2, 2), (3, 3), (4, 4), (5, 5), (10, 10), (2, 3), (3, 5), (5, 10)])
def test_equal_loaders_are_rarely_told_apart(one, other):
    random = np.random.default_rng(5)
    for name, draw in NOISES.items():
        assert told([(draw(random, one), draw(random, other)) for _ in range(1000)]) <= 0.02, name
    if one == other:
        assert told([drifting(random, one) for _ in range(1000)]) <= 0.02


@pytest.mark.parametrize(
    ("noise", "runs", "least", "most"),
    [(0.02, 5, 0.5, 0.7), (0.03, 10, 0.7, 0.85), (0.02, 10, 0.95, 1), (0.04, 10, 0.4, 0.55)],
)
def test_five_percent_are_found_as_often_as_the_documents_say(noise, runs, least, most):
    random = np.random.default_rng(6)
    draws = [random.normal(1, noise, (2, runs)) * [[1.0], [0.95]] for _ in range(600)]
    assert least <= sum(compare(*pair.tolist()).faster for pair in draws) / 600 <= most


def test_outliers_are_far_by_both_measures():
    steady = [100.0, 100.1, 99.9, 100.0, 100.2, 99.8]
    assert outliers([*steady, 90.0]) == 1
    assert outliers([*steady, 97.0]) == 0  # many MADs away, but 3 %
    assert outliers([80.0, 90.0, 100.0, 110.0, 120.0, 70.0]) == 0  # 30 % away, but so is the rest
    assert outliers([100.0] * 5 + [94.0]) == 1
    assert outliers([1.0, 100.0, 100.0, 100.0]) is None


def control_runs(speeds, device="cpu", batch_size=32, minutes=30):
    """Bound records in the order in which they were measured, `minutes` apart."""
    records = [bound_record(device, batch_size, repeat, speed) for repeat, speed in enumerate(speeds)]
    for number, record in enumerate(records):
        record["started"] = f"2026-01-01T{number * minutes // 60:02d}:{number * minutes % 60:02d}:00Z"
    return records


def noisy(count, percent):
    return (1000 * np.random.default_rng(1).normal(1, percent / 100, count)).tolist()


def test_a_planted_drift_is_seen_and_none_is_not():
    steady = noisy(20, 1)
    slower = [speed * (0.9 if number >= 10 else 1) for number, speed in enumerate(steady)]
    [still], [sunk] = drift.noise_rows(control_runs(steady)), drift.noise_rows(reversed(control_runs(slower)))
    assert (still["drift_seen"], sunk["drift_seen"]) == (False, True)
    assert sunk["drift_percent"] == pytest.approx(-10, abs=1.5)
    assert (sunk["control_runs"], sunk["hours"]) == (20, 9.5)
    assert list(drift.warning_rows([still])) == []
    codes = {row["code"]: row for row in drift.warning_rows([sunk])}
    assert set(codes) == {"noisy-machine", "drift"}
    assert codes["drift"]["slug"] == "control run cpu batch 32"
    [rising] = drift.noise_rows(control_runs(slower[::-1]))
    assert rising["drift_percent"] > 5


def test_what_changed_between_two_sessions_is_no_noise_of_either():
    monday, thursday = control_runs(noisy(20, 1)), control_runs([850.0] * 8)
    for record in thursday:
        record["started"] = record["started"].replace("01-01", "01-04")
    first, second = drift.noise_rows([*thursday, *monday])
    assert (first["control_runs"], second["control_runs"]) == (20, 8)
    assert first["variation_percent"] < 2 and second["variation_percent"] == 0
    assert not first["drift_seen"] and not second["drift_seen"]


def test_a_machine_in_random_noise_rarely_drifts():
    random = np.random.default_rng(3)
    rows = [drift.noise_rows(control_runs(random.normal(1000, 50, 16).tolist()))[0] for _ in range(300)]
    assert sum(row["drift_seen"] for row in rows) <= 6


def test_noise_of_few_sentinels_and_of_several_kinds():
    records = [
        *control_runs([100.0, 102.0], "cuda", 64),
        *control_runs([50.0]),
        *control_runs([90.0, 100.0, 110.0], "cpu", 64),
    ]
    records.append(
        {**bound_record("cpu", 32, 9, 1.0), "status": "failed", "reason": "crashed", "items_per_second": None}
    )
    one, three, two = drift.noise_rows(records)
    assert (one["control_runs"], one["variation_percent"], one["drift_percent"], one["hours"]) == (1, None, None, 0)
    assert (three["variation_percent"], three["range_percent"]) == pytest.approx((10, 20))
    assert (three["drift_percent"], three["drift_seen"]) == (None, None)
    assert (two["device"], two["batch_size"], two["median_items_per_second"]) == ("cuda", 64, 101)
    assert [row["code"] for row in drift.warning_rows([one, three, two])] == ["noisy-machine"]
    assert drift.noise_rows([]) == []


def test_a_drift_too_small_to_matter_is_no_warning():
    [row] = drift.noise_rows(control_runs([1000.0 + run / 10 for run in range(10)]))
    assert row["drift_seen"]
    assert list(drift.warning_rows([row])) == []
