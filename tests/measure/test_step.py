"""The emulated step: it takes the time it says, holds the interpreter for its share, and is tried in some lengths."""

import threading
import time

import pytest

from scripts.measure import protocol, step
from scripts.measure.protocol import utilisation
from scripts.measure.step import Tried, following, trials
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


def test_a_step_holds_the_interpreter_in_pieces_and_sleeps_between_them(monkeypatch):
    """20 ms in pieces of 2, of each of which it computes for 0.6."""
    clock, did = Clock(), []

    def hold(seconds):
        did.append(("hold", pytest.approx(0.0006)))
        clock.now += seconds

    def sleep(seconds):
        did.append("sleep")
        clock.now += seconds

    monkeypatch.setattr(step, "hold", hold)
    step.wait(0.02, clock, sleep, host_share=0.3)
    assert did == [("hold", 0.0006), "sleep"] * 10
    assert clock.now == pytest.approx(0.02, rel=0.01)


def test_a_piece_that_comes_late_shortens_the_sleep_after_it_and_what_cannot_be_caught_up_makes_a_step_longer(
    monkeypatch,
):
    """Each piece of 0.6 ms waits 1 ms for the interpreter, or 3 ms; it has 1.4 ms of sleep to spare."""
    for late, seconds in ((0.001, 0.02), (0.003, 0.036)):
        clock = Clock()
        monkeypatch.setattr(
            step, "hold", lambda held, clock=clock, late=late: setattr(clock, "now", clock.now + held + late)
        )
        step.wait(0.02, clock, clock.sleep, host_share=0.3)
        assert clock.now == pytest.approx(seconds, rel=0.03)


def test_what_holds_the_interpreter_ends_by_the_cpu_time_of_its_thread():
    ticks = iter(range(100))
    step.hold(5.0, lambda: float(next(ticks)))
    assert next(ticks) == 6
    began = time.thread_time()
    step.hold(0.01)
    assert 0.01 <= time.thread_time() - began < 0.02


def test_what_holds_the_interpreter_gives_way_to_other_threads():
    """Another thread ends in a hold of 100 ms, which it could not in C code that keeps the interpreter."""
    ended = threading.Event()
    threading.Thread(target=ended.set).start()
    step.hold(0.1)
    assert ended.is_set()


def test_trials_come_by_turns_and_their_medians_count(monkeypatch):
    """The second of three rounds is disturbed; a long step asks for little."""
    clock, asked = Clock(), []

    def window(step_ms, long):
        clock.now += 0.3
        asked.append((step_ms, long))
        period = max(10.0, step_ms + 2) * (9 if 4 <= len(asked) - 1 < 8 else 1)
        return Tried(step_ms, period, 15, 0.3)

    monkeypatch.setattr(step, "TRIALS_SECONDS", 3.0)
    found = trials(window, 10.0, 25.0, clock)
    assert asked == [(0.0, False), (10.0, False), (40.0, True), (25.0, False)] * 3
    assert {name: (one["step_ms"], one["period_ms"], one["batches"]) for name, one in found.items()} == {
        **{"plain": (0.0, 10.0, 45), "knee": (10.0, 12.0, 45), "long": (40.0, 42.0, 45), "check": (25.0, 27.0, 45)}
    }
    asked.clear()
    clock.now, slow = 0.0, lambda step_ms, long: (setattr(clock, "now", clock.now + 5), window(step_ms, long))[1]
    assert trials(slow, 10.0, None, clock)["check"]["step_ms"] == 20.0, "where no step is known"
    assert len(asked) == 4, "one round is over the time"


def test_an_epoch_that_was_left_at_its_last_batch_is_followed_by_the_next():
    """As a DALI pipeline does, which goes on where it was left: nothing is left of it, and that is no empty epoch."""
    left = iter([[], ["a", "b"], [], []])
    epoch = following(lambda _number: iter(next(left)))
    assert list(epoch(0)) == ["a", "b"] and list(epoch(0)) == []


@pytest.mark.parametrize(("load_ms", "step_ms"), KNOWN_SLEEPS)
def test_known_sleeps_are_recovered(load_ms, step_ms):
    """By a planted clock, to the last digits; `make selftest` does the same by the machine's own, within 5 %."""
    for name, (found, known) in recovered(load_ms, step_ms, planted.Clock(tick=1e-9)).items():
        assert found == pytest.approx(known, rel=1e-6), name


def test_a_task_without_steps_has_no_utilisation():
    times = protocol.Times(epochs=[protocol.EpochTimes(1.0, 0.1, 3, [0.5], [3])])
    assert utilisation(times) is None
