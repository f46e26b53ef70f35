"""AU of a step of any length: reckoned by hand, and found of planted loaders whose truth is known."""

from math import inf, nan

import pytest
import torch

from scripts.decide.utilisation import Feeding, Wait, au_percent, feeding, feeding_of, with_step_au
from scripts.measure.sink import Checksums
from scripts.measure.step import LONG, following, trials, tried
from scripts.measure.window import Known, timed
from tests.support.made_runs import step_trials

STEP = 20.0


def trial(step_ms, period_ms):
    return {"step_ms": step_ms, "period_ms": period_ms}


def steps_of(batch_ms, wait_ms, check, tried_ms=None):
    """Trials of a loader that is the larger of the two numbers; the check as it follows unless told."""
    made = step_trials(batch_ms, wait_ms, check)
    return made | {"check": trial(check, tried_ms)} if tried_ms else made


RESULT = {
    **{"loader": "a", "slug": "w2", "tier": "ram", "device": "cpu", "workers": 2, "prefetch": 2, "batch_size": 32},
    **{
        "task": "read",
        "cache": "warm",
        "step_ms": 0.0,
        "items": 320,
        "items_per_second": 3200.0,
        "interval_low": 1600.0,
    },
    **{"steady_items_per_second": 3200.0, "epoch_start_seconds": 0.0, "steps": steps_of(10.0, 2.0, STEP)},
}


def said(*rows, step_ms=STEP):
    return with_step_au([RESULT | row for row in rows or [{}]], {"config": {"report": {"step_ms": step_ms}}})


@pytest.mark.parametrize(
    ("numbers", "percent"),
    [
        ((20.0, 10.0, 0.0), 100.0),  # the step, the batch, what remains of it
        ((20.0, 40.0, 0.0), 50.0),
        ((20.0, 10.0, 5.0), 80.0),
        ((5.0, 10.0, 2.0), 50.0),
        ((20.0, 20.0, 0.0, 0.5), 100 * 20 / 30),
        ((20.0, 10.0, 0.0, 0.0, 10, 0.05), 80.0),  # ten steps are 200 ms, and 50 to start
        ((20.0, 10.0, 20.0, 0.0, 10, 0.1), 40.0),
    ],
)
def test_au_by_hand(numbers, percent):
    assert au_percent(*numbers) == pytest.approx(percent)


@pytest.mark.parametrize("step", [-20.0, 0.0, nan, inf])
def test_what_is_no_step_has_no_au(step):
    with pytest.raises(ValueError, match="above 0"):
        au_percent(step, 10.0, 1.0)
    for numbers in ((step, 1.0), (10.0, -1.0), (10.0, nan), (10.0, 1.0, -0.1), (10.0, 1.0, 0.0, 0)):
        with pytest.raises(ValueError, match="above 0"):
            au_percent(20.0, *numbers)


@pytest.mark.parametrize("loss", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("batch", "wait", "start"), [(7.5, 7.5, 0.0), (40.0, 0.01, 0.0), (10.0, 1.0, 0.5), (3.0, 0.0, 0.0)]
)
def test_the_minimum_step_has_ninety_percent_and_a_longer_one_no_less(batch, wait, start, loss):
    fed = Feeding(batch, Wait(wait, wait, batch, 4 * batch), loss, 20, start)
    step = fed.minimum_step_ms()
    assert fed.au_percent(step) == pytest.approx(90.0)
    grown = [fed.au_percent(step * times) for times in (0.1, 0.5, 0.9, 1.1, 3.0, 1000.0)]
    assert grown == pytest.approx(sorted(grown)) and (grown[-1] > 99 or loss == 1)


@pytest.mark.parametrize("long_step", [5.0, 20.0, 100.0])
@pytest.mark.parametrize(("short", "long"), [(0.0, 0.0), (0.05, 0.1), (0.05, 1.9), (1.2, 3.4), (0.1, 12.0)])
def test_from_the_minimum_step_on_waiting_that_grows_leaves_ninety_percent(short, long, long_step):
    fed = Feeding(1.2, Wait(short, long, 1.2, long_step), 0.0)
    step = fed.minimum_step_ms()
    assert fed.au_percent(step) == pytest.approx(90.0)
    assert all(fed.au_percent(step * (1 + more / 100)) >= 90 - 1e-9 for more in range(0, 5000, 3))
    twice = fed.of(2.0, 1)
    assert twice.minimum_step_ms() == pytest.approx(2 * step) and twice.au_percent(2 * step) == pytest.approx(90.0)


def test_waiting_is_on_the_line_between_two_steps_that_were_tried():
    """A copy of 1.2 ms waits 1.2 ms beside 1.2 and 3.4 ms beside 20: 8 points off by one number alone."""
    made = {"plain": trial(0.0, 1.2), "knee": trial(1.2, 2.4), "long": trial(20.0, 23.4)}
    fed = feeding(1.2, made)
    assert fed.wait == pytest.approx((1.2, 3.4, 1.2, 20.0))
    assert [fed.wait.beside(step) for step in (0.6, 1.2, 10.6, 20.0, 80.0)] == pytest.approx([1.2, 1.2, 2.3, 3.4, 3.4])
    assert fed.au_percent(20.0) == pytest.approx(100 * 20 / 23.4)


@pytest.mark.parametrize("loss", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("wait", [0.5, 2.0])
def test_all_numbers_come_back_out_of_the_trials(wait, loss):
    made = {name: trial(step, max(10 + loss * step, step + wait)) for name, step in (("knee", 10.0), ("long", 40.0))}
    fed = feeding(10.0, {"plain": trial(0.0, 10.0), **made})
    assert fed.wait.beside(40.0) == pytest.approx(wait) and fed.loss == pytest.approx(loss)


@pytest.mark.parametrize(("knee", "long"), [(9.0, 39.0), (60.0, 42.0), (1e6, 1e6), (10.0, 40.0)])
def test_trials_that_were_disturbed_stay_within_what_can_be(knee, long):
    """A period below its step; a knee that is longer than the long trial allows."""
    fed = feeding(10.0, {"plain": trial(0.0, 10.0), "knee": trial(10.0, knee), "long": trial(40.0, long)})
    assert 0 <= fed.loss <= 1 and min(fed.wait) >= 0 and 0 < fed.au_percent(20.0) <= 100
    assert fed.au_percent(40.0) >= 99.9 * 40 / max(40.0, long), "no less than was tried"


def test_waiting_is_additive_and_not_a_share():
    """webdataset, 7.5 ms a batch, tried with 20 ms at 77.7 %: a step of 60 s had 77.7 % too."""
    [row] = said({"steady_items_per_second": 32 / 0.0075, "steps": steps_of(7.5, 5.74, STEP), "workers": 0})
    assert row["step_au_percent"] == pytest.approx(77.7, abs=0.1)
    fed = feeding_of(row)
    assert fed.au_percent(60_000.0) > 99.9 and fed.au_percent(40.0) == pytest.approx(100 * 40 / 45.74)


def test_one_number_is_said_of_a_step_that_was_tried():
    """resident at 44 ms had 86.8 % in one place and 90.2 % in its own trial; another 59 and 76 %."""
    [row] = said({"steps": steps_of(10.0, 6.7, 44.0, 44 / 0.902)}, step_ms=44.0)
    assert (row["step_au_percent"], row["step_au_from"]) == (pytest.approx(90.2), "tried")
    assert row["step_check_points"] == pytest.approx(86.8 - 90.2, abs=0.1), "and that the model is off is said"
    [other] = said({"steps": steps_of(10.0, 6.7, 44.0, 44 / 0.902)}, step_ms=43.0)
    assert (other["step_au_percent"], other["step_au_from"]) == (pytest.approx(100 * 43 / 49.7), "model")


def test_what_was_not_tried_has_no_au():
    """By their rates own loaders had 82 and 90 %, and 40 and 43 when they were tried."""
    untried, known = said({"steps": None, "loader": "mine"}, {})
    assert untried["batch_ms"] == 10.0 and known["step_au_percent"] == pytest.approx(100 * 20 / 22)
    names = ("step_wait_ms", "minimum_step_ms", "step_au_percent", "step_au_low", "step_check_points")
    assert [untried[name] for name in names] == [None] * 5 and untried["step_au_from"] == ""
    assert feeding_of(untried) is None


def test_the_same_on_another_tier_is_as_its_own_rate_says():
    tried_on_ram, disk, other = said(
        {}, {"tier": "disk", "steps": None, "steady_items_per_second": 800.0}, {"slug": "w0", "steps": None}
    )
    assert (tried_on_ram["step_au_from"], disk["step_au_from"], other["step_au_from"]) == ("tried", "model", "")
    assert disk["step_au_percent"] == pytest.approx(100 * 20 / 42) and disk["step_wait_ms"] == pytest.approx(2.0)


def test_the_lower_end_is_that_of_the_slower_end_of_the_speed():
    [row] = said()  # 20 ms a batch at the slower end: the step and what remains are longer
    assert row["step_au_low"] == pytest.approx(row["step_au_percent"], abs=1)
    [slow] = said({"interval_low": 800.0})
    assert slow["step_au_low"] == pytest.approx(100 * 20 / 42)


@pytest.mark.parametrize(
    "changed",
    [{"task": "train"}, {"cache": "cold"}, {"step_ms": 20.0}, {"items": None}],
)
def test_of_what_nothing_is_known_nothing_is_said(changed):
    [row] = said(changed)
    assert row["batch_ms"] is row["step_au_percent"] is row["minimum_step_ms"] is None
    assert said(step_ms=None)[0]["step_au_percent"] is None


class Planted:
    """A loader and its training on a clock of their own, in ms: a batch is `work` behind the step and `own` before it.

    `beside`: how fast the work goes on during a step, of 1. So many batches are `ahead` at most, and come in `bursts`.
    """

    def __init__(self, work=0.0, own=0.0, beside=1.0, ahead=4, bursts=1, start=0.0, batches=100, step=0.0):
        self.work, self.own, self.beside, self.ahead, self.bursts = work, own, beside, ahead, bursts
        self.start, self.batches, self.step, self.now, self.made, self.taken = start, batches, step, 0.0, 0.0, 0

    def clock(self):
        return self.now / 1000

    def passes(self, ms, speed=1.0):
        self.now += ms
        if self.work:
            self.made = min(self.taken + self.ahead, self.made + ms * speed / self.work)

    def epoch(self, _number):
        self.made, self.taken = 0.0, 0
        self.passes(self.start, 0.0)
        for _ in range(self.batches):
            needed = (self.taken // self.bursts + 1) * self.bursts
            if self.work and self.made < min(needed, self.taken + self.ahead) and self.made < self.taken + 1:
                self.passes((min(needed, self.taken + self.ahead) - self.made) * self.work)
            self.taken += 1
            self.passes(self.own)
            yield {}

    def consume(self, _batch):
        self.passes(self.step, self.beside)
        return Checksums(torch.arange(8), None, None, None)

    def finish(self):
        pass

    def computed(self):
        return None

    def window(self, step_ms, long=False):
        self.step = step_ms
        return tried(following(self.epoch), self, step_ms, self.clock, self.ahead, long)


LOADERS = {
    "sleeps in a worker": {"work": 10.0},
    "a copy in front": {"work": 10.0, "own": 3.0},
    "no workers": {"own": 10.0},
    "threads that compete for the interpreter": {"work": 10.0, "own": 1.0, "beside": 0.7},
    "threads that get little of it": {"work": 10.0, "own": 1.0, "beside": 0.4},
    "bursts": {"work": 10.0, "own": 1.0, "bursts": 2},
    "slow epoch starts": {"work": 10.0, "own": 2.0, "start": 200.0},
}


@pytest.mark.parametrize("name", LOADERS)
def test_au_of_a_planted_loader_follows_from_its_trials(name):
    """Within 3 points from a batch's length on and 8 at half of it; whole epochs, with their starts."""
    planted = Planted(**LOADERS[name])
    known = Known(planted.batches, 0.0, inf, inf)  # as a run that waits for an epoch start
    start = timed(planted.epoch, planted, planted.clock, 0.5, planted.ahead, known=known).start_seconds()
    batch = planted.window(0.0).period_ms
    found = trials(planted.window, batch, None, planted.clock)
    fed = feeding(batch, found, planted.batches, start)
    for times, points in ((0.5, 8.0), (1.0, 3.0), (1.5, 3.0), (2.0, 3.0), (3.0, 3.0), (LONG, 3.0), (20.0, 3.0)):
        other = Planted(**LOADERS[name], step=times * batch)
        for number in range(3):
            began = other.now
            for item in other.epoch(number):
                other.consume(item)
        truth = 100 * times * batch * other.batches / (other.now - began)
        assert fed.au_percent(times * batch) == pytest.approx(truth, abs=points), times
    assert abs(fed.au_percent(2 * batch) - fed.au_at(found["check"]["step_ms"], found)[0]) <= 3
