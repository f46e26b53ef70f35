"""The compiled model: how much shorter its step is, and what stalls then."""

import pytest

from scripts.report.compiled import compiled
from tests.support.made_runs import Made
from tests.support.report_pages import tables_of


def trained(loader, speed, au, task, **more):
    outcomes = [speed * factor for factor in (0.99, 1.0, 1.01, 0.995, 1.005)]
    return Made(loader, "disk", outcomes, task=task, au=au, **more)


def test_the_step_and_what_waits_by_sums_done_by_hand(tmp_path):
    """Batches of 32: at 1,600 items/s one takes 20 ms, of which 95 % is the step; compiled at 2,000 it takes 16 ms."""
    made = [trained("npy", 1600.0, 95.0, "train"), trained("npy", 2000.0, 50.0, "train_compiled")]
    made += [trained("ring", 1600.0, 99.0, "train"), trained("ring", 3200.0, 98.0, "train_compiled")]
    fed, waits = compiled(tables_of(tmp_path, made))
    assert (waits["plain_ms"], waits["compiled_ms"]) == pytest.approx((19.0, 8.0), rel=0.01)
    assert waits["ratio"].ratio == pytest.approx(1.25, rel=0.01) and waits["ratio"].faster
    assert (fed["plain_ms"], fed["compiled_ms"]) == pytest.approx((19.8, 9.8), rel=0.01)


def test_only_results_that_were_trained_both_ways_with_the_same_settings(tmp_path):
    made = [trained("npy", 1600.0, 95.0, "train", workers=0), trained("npy", 2000.0, 50.0, "train_compiled")]
    assert compiled(tables_of(tmp_path, made)) == []
