"""The emulated step: it takes the time it says, and the shortest one that is fed is found, with few trials."""

import random

import pytest

from scripts.measure import protocol, step
from scripts.measure.protocol import utilisation
from scripts.measure.step import Trial, minimum_step
from tests.support import planted
from tests.support.planted import KNOWN_SLEEPS, recovered


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1e-6
        return self.now

    def sleep(self, seconds):
        self.now += seconds * 1.02  # as sleeping does


def test_a_step_ends_when_its_time_is_over():
    clock = Clock()
    for seconds in (0.0, 0.0001, 0.005, 0.5):
        before = clock.now
        step.wait(seconds, clock, clock.sleep)
        assert seconds <= clock.now - before <= seconds * 1.02 + 1e-4


MODELS = {  # seconds that a batch takes with a step of s, from its L seconds of loading
    "serial": (lambda s, load: s + load, 9.0),
    "behind the step": (lambda s, load: max(s, load), 0.9),
    "half behind": (lambda s, load: max(s, load / 2) + load / 2, 4.5),
}


@pytest.mark.parametrize("load", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("model", MODELS)
def test_the_minimum_step_is_found(model, load):
    total, factor = MODELS[model]
    found = minimum_step(lambda ms: trial_of(ms, total(ms / 1000, load)), load, limit_ms=10_000)
    truth = factor * load * 1000
    assert truth / 1.001 <= found["ms"] <= truth * step.PRECISION * 1.03
    assert found["missed_ms"] <= truth * 1.001
    assert found["ms"] <= found["missed_ms"] * step.PRECISION * 1.001
    assert len(found["trials"]) <= 5


def trial_of(step_ms, batch_seconds) -> Trial:
    return Trial(step_ms, 100 * step_ms / 1000 / batch_seconds, 10 * batch_seconds, 10)


@pytest.mark.parametrize("model", MODELS)
def test_noise_moves_the_answer_by_little_and_the_search_ends(model):
    """With noise of 2 % the AU of a serial loader, 90 % at 9 times its loading, is that of steps 7.3 to 11.5 times."""
    total, factor = MODELS[model]
    noise = random.Random(1)
    for _ in range(200):
        found = minimum_step(
            lambda ms: trial_of(ms, total(ms / 1000, 0.02) * noise.uniform(0.98, 1.02)), 0.02, limit_ms=10_000
        )
        assert len(found["trials"]) <= step.MOST_TRIALS
        assert 0.7 < found["ms"] / (factor * 20) < 1.35


def test_a_step_beyond_the_limit_is_not_looked_for():
    """A batch takes 300 ms whatever the step: 200 ms are at most 67 % of it, and no trial is needed to know."""
    found = minimum_step(lambda _ms: pytest.fail("no trial is needed"), 0.3, limit_ms=200)
    assert found["ms"] is None and found["missed_ms"] == 200 and found["trials"] == []
    serial = minimum_step(lambda ms: trial_of(ms, ms / 1000 + 0.1), 0.1, limit_ms=200)
    assert serial["ms"] is None and serial["missed_ms"] == 200
    assert serial["trials"][-1]["step_ms"] == 200


@pytest.mark.parametrize(("load_ms", "step_ms"), KNOWN_SLEEPS)
def test_known_sleeps_are_recovered(load_ms, step_ms):
    """By a planted clock, to the last digits; `make selftest` does the same by the machine's own, within 5 %."""
    for name, (found, known) in recovered(load_ms, step_ms, planted.Clock(tick=1e-9)).items():
        assert found == pytest.approx(known, rel=1e-6), name


def test_a_task_without_steps_has_no_utilisation():
    times = protocol.Times(epochs=[protocol.EpochTimes(1.0, 0.1, 3, [0.5], [3])])
    assert utilisation(times) is None
