"""The order of phases of a run, and what each time means, with a clock that tests turn by hand."""

from contextlib import contextmanager

import pytest
import torch

from scripts.machine.page_cache import EpochCache
from scripts.measure import protocol
from scripts.measure.sink import Checksums


class Clock:
    """Time that passes only when something takes it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A loader, a verifier and a sink that take known times, and a list of what happened."""

    def __init__(self, ok: bool = True) -> None:
        self.clock = Clock()
        self.events: list[str] = []
        self.ok = ok

    def take(self, event: str, seconds: float) -> None:
        self.events.append(event)
        self.clock.now += seconds

    @contextmanager
    def opened(self):
        self.take("construct", 7)
        yield self.epoch
        self.take("tear down", 3)

    def epoch(self, number):
        self.take(f"start {number}", 2)
        for batch in range(3):
            self.take(f"load {number}.{batch}", 1)
            yield {"item": torch.arange(4 if batch < 2 else 1)}
        self.take(f"end {number}", 0.5)

    def check(self, _batch):
        self.take("check", 10)
        return True

    def finish(self, checksums=None):
        self.take("finish" if checksums is None else "look at the whole", 0.25)

    def consume(self, batch):
        self.take("consume", 0.1)
        return Checksums(batch["item"], batch["item"], None, None)

    def computed(self):
        self.events.append("computed")
        return 0.3

    def check_epoch(self, number, checksums):
        self.take(f"check epoch {number}: {sum(len(checksum.item) for checksum in checksums)}", 50)

    def run(self, epochs=2, least_seconds=0.0):
        around = lambda phase: self.take(phase, 20)  # noqa: E731
        return protocol.run(self.opened, self, self, epochs, self.clock, least_seconds, around)


def epoch_events(number: int, *what: str) -> list[str]:
    """What happens in an epoch of three batches, `what` being done to each."""
    steps = [step for batch in range(3) for step in (f"load {number}.{batch}", *what)]
    return [f"start {number}", *steps, f"end {number}", "finish", "computed"]


VERIFY = [*epoch_events(0, "check", "consume"), "look at the whole"]


def test_phases_come_in_order_and_nothing_between_timed_epochs():
    scene = Scene()
    scene.run()
    timed = epoch_events(1, "consume") + epoch_events(2, "consume")
    checks = ["check epoch 1: 9", "check epoch 2: 9"]
    assert scene.events == ["construct", *VERIFY, "before", *timed, "after", "tear down", *checks]


def test_times_mean_what_they_say():
    times = Scene().run()
    assert times.construct_seconds == 7
    assert times.first_batch_seconds == 7 + 2 + 1
    assert times.verify_seconds == pytest.approx(2 + 3 * 11.1 + 0.5 + 0.25 + 0.25)
    assert times.teardown_seconds == 3
    first, second = times.epochs
    assert first.seconds == pytest.approx(2 + 3 * 1.1 + 0.5 + 0.25)
    assert first.arrivals_seconds == pytest.approx([3, 4.1, 5.2])
    assert first.batch_items == [4, 4, 1]
    assert first.gap_seconds == pytest.approx(3)
    assert second.gap_seconds == pytest.approx(0.1 + 0.5 + 0.25 + 3), "from the last batch of the epoch before"
    assert first.items == second.items == 9


def test_nothing_is_timed_when_the_verify_epoch_was_wrong():
    scene = Scene(ok=False)
    assert scene.run().epochs == []
    assert scene.events == ["construct", *VERIFY, "tear down"]


def test_epochs_go_on_until_the_least_time_has_passed():
    """One epoch takes 6.05 s."""
    assert len(Scene().run(epochs=2, least_seconds=12).epochs) == 2
    assert len(Scene().run(epochs=2, least_seconds=13).epochs) == 3
    assert len(Scene().run(epochs=4, least_seconds=13).epochs) == 4


def test_an_empty_epoch_has_times_too():
    scene = Scene()
    scene.epoch = lambda number: iter([])  # noqa: ARG005
    times = scene.run(epochs=1)
    assert (times.epochs[0].items, times.epochs[0].arrivals_seconds) == (0, [])


class ColdScene(Scene):
    """The same with its data put out of the cache before each epoch."""

    def run(self, epochs=2, least_seconds=0.0):
        around = lambda phase: self.take(phase, 20)  # noqa: E731
        opened = lambda number: self.opened_as(number)  # noqa: E731
        return protocol.run_cold(opened, self, self, epochs, self.clock, self, least_seconds, around)

    def opened_as(self, number):
        self.take(f"loader {number}", 0)
        return self.opened()

    def evict(self):
        self.take("evict", 30)

    def begin(self):
        self.take("begin", 40)

    def end(self, share):
        self.take("end" if share == 1 else f"end {share:.2f}", 40)
        return EpochCache(1, 2, 3, "")


def test_each_cold_epoch_has_a_loader_of_its_own_opened_when_the_data_is_out():
    scene = ColdScene()
    times = scene.run()
    timed = ["construct", *epoch_events(0, "consume"), "end", "tear down"]
    checks = ["check epoch 1: 9", "check epoch 2: 9"]
    first = ["loader 0", "construct", *VERIFY, "tear down", "before"]
    out = ["evict", "begin"]
    assert scene.events == [*first, *out, "loader 1", *timed, *out, "loader 2", *timed, "after", *checks]
    assert times.construct_seconds == 7 and times.teardown_seconds == 3
    for epoch in times.epochs:
        assert epoch.seconds == pytest.approx(7 + 2 + 3 * 1.1 + 0.5 + 0.25), "with the construction, not the eviction"
        assert (epoch.opening_seconds, epoch.gap_seconds) == (7, pytest.approx(7 + 3)), "to its own first batch"
        assert epoch.arrivals_seconds == pytest.approx([10, 11.1, 12.2])
        assert epoch.cache == {"resident_bytes": 1, "read_bytes": 2, "payload_bytes": 3, "problem": ""}


def test_no_epoch_is_cold_when_the_verify_epoch_was_wrong():
    scene = ColdScene(ok=False)
    assert scene.run().epochs == []
    assert scene.events == ["loader 0", "construct", *VERIFY, "tear down"]


def test_the_seconds_of_computing_are_those_of_each_epoch():
    assert [epoch.compute_seconds for epoch in Scene().run().epochs] == [0.3, 0.3]
