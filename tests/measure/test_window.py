"""The timed window of a run, by a planted clock: what is timed, what an epoch start costs, when it ends."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from scripts.common.request import LoaderRequest
from scripts.common.sample import Sample
from scripts.machine.page_cache import EpochCache
from scripts.measure import protocol, run, window
from scripts.measure.sink import Checksums

ITEMS = 8  # a batch


class Machine:
    """A loader of which a batch takes `batch` seconds and the start of an epoch `start` more, on a clock of its own."""

    def __init__(self, batches, batch=1.0, start=0.0):
        self.now, self.batches, self.batch, self.start = 0.0, batches, batch, start
        self.phases, self.asked, self.closed = [], [], 0

    def clock(self):
        return self.now

    def epoch(self, number):
        self.asked.append(number)
        self.now += self.start
        try:
            for _ in range(self.batches):
                self.now += self.batch
                yield {}
        except GeneratorExit:
            self.closed += 1
            raise

    def consume(self, _batch):
        return Checksums(torch.arange(ITEMS), None, None, None)

    def finish(self):
        pass

    def computed(self):
        return None

    def timed(self, seconds, held=0, **more):
        return window.timed(
            self.epoch, self, self.clock, seconds, held, lambda phase: self.phases.append((phase, self.now)), **more
        )


@pytest.mark.parametrize("start", [0.0, 3.0, 20.0])
@pytest.mark.parametrize(("batches", "seconds"), [(10, 35.0), (10, 100.0), (1000, 50.0), (7, 7.0)])
def test_the_rate_is_that_of_whole_epochs_wherever_the_window_ends(batches, seconds, start):
    machine = Machine(batches, 1.0, start)
    found = machine.timed(seconds, warm_up_seconds=0.5)
    cost = start if found.start_seconds() is None else found.start_seconds()
    assert found.start_seconds() in (None, pytest.approx(start))
    assert found.steady_rate(cost) == pytest.approx(ITEMS)
    assert found.rate(cost, batches * ITEMS) == pytest.approx(batches * ITEMS / (batches + start))
    assert found.seconds >= seconds and found.utilisation() is None
    (before, began), (after, ended) = machine.phases
    assert (before, after) == ("before", "after") and ended - began == pytest.approx(found.seconds)


class ColdMachine(Machine):
    """The same with a loader that takes 2 s to open, on storage of which so many bytes are read for an item."""

    warm = (False,)  # of epochs, in turn; the last is of all later ones

    @contextmanager
    def opened(self, number):
        self.phases.append(number)
        self.now += 2.0
        yield self.epoch

    def evict(self):
        self.now += 100.0

    def begin(self):
        self.opened_at = len(self.asked)

    def end(self, share):
        warm = self.warm[min(self.opened_at, len(self.warm) - 1)]
        return EpochCache(0, 1, round(share * self.batches * ITEMS), "warm" if warm else "")

    def timed(self, seconds, held=0, part=5.0):
        part = protocol.Part(self.batches * ITEMS, self.batches, part, max(1, 4 * held))
        return window.timed_cold(self.opened, self, self.clock, self, seconds, part, held, self.phases.append)


@pytest.mark.parametrize(
    ("batches", "seconds", "held", "whole"),
    [(4, 1.0, 0, [True]), (4, 20.0, 0, [True] * 3), (1000, 1.0, 0, [False]), (1000, 30.0, 4, [False] * 2)],
)
def test_a_long_cold_epoch_is_left_and_its_rate_is_that_of_a_whole_one(batches, seconds, held, whole):
    machine = ColdMachine(batches, 1.0, 3.0)
    found = machine.timed(seconds, held)
    assert [ended for _, ended in found.edges] == [ended for ended, _ in found.checksums] == whole
    assert machine.phases == ["before", *range(len(whole)), "after"] and set(machine.asked) == {0}
    assert machine.closed == whole.count(False)
    assert found.start_seconds() == pytest.approx(5.0), "with the loader's opening"
    assert found.rate(5.0, batches * ITEMS) == pytest.approx(batches * ITEMS / (batches + 5))
    assert all(part.items >= 4 * held * ITEMS for part in found.parts)
    assert all(part.cache["payload_bytes"] == part.items and part.opening_seconds == 2.0 for part in found.parts)


def test_epochs_that_were_not_cold_do_not_count_where_another_was():
    machine = ColdMachine(4)
    machine.warm = (True, False, True)
    found = machine.timed(20.0)
    assert len(found.parts) == 4 and found.cold().items == 4 * ITEMS
    machine.warm = (True,)
    assert len(machine.timed(20.0).cold().parts) == 4


@pytest.mark.parametrize(("seconds", "epochs"), [(10.5, 2), (25.0, 3)])
def test_short_epochs_are_whole_before_the_window_and_as_many_as_it_takes(seconds, epochs):
    short = Machine(10)
    found = short.timed(15.0, warm_up_seconds=seconds)
    assert short.phases[0] == ("before", 10.0 * epochs)
    assert [part.items for part in found.parts] == [80, 40]
    assert [whole for whole, _ in found.checksums] == [True] * (epochs + 1) + [False]


def test_what_a_second_epoch_takes_from_the_system_is_not_timed():
    """The first epoch is short, and the second pays for memory that all others find."""

    class Growing(Machine):
        def epoch(self, number):
            self.now += 40.0 * (number == 1)
            return super().epoch(number)

    found = Growing(10).timed(100.0, warm_up_seconds=20.0)
    assert found.rate(found.start_seconds(), 10 * ITEMS) == pytest.approx(ITEMS)


def test_a_long_first_epoch_is_left_within():
    long = Machine(1000)
    found = long.timed(20.0, warm_up_seconds=5.0)
    assert [part.items for part in found.parts] == [20 * ITEMS] and found.start_seconds() is None
    assert len(found.checksums[0][1].sizes) == 25 and long.asked == [0] and long.closed == 1


@pytest.mark.parametrize("batches", [1, 10])
def test_a_window_has_a_batch_however_short_it_is_asked_to_be(batches):
    found = Machine(batches).timed(0.0, warm_up_seconds=0.5 if batches > 1 else 1.0)
    assert found.items == ITEMS and found.rate(0.0, batches * ITEMS) == pytest.approx(ITEMS)


def test_queues_are_brought_to_their_steady_state_and_the_window_is_long_beside_them():
    machine = Machine(1000)
    found = machine.timed(1.0, held=6, warm_up_seconds=0.0)
    assert sum(len(part.batch_items) for part in found.parts) == window.QUEUES * 6
    assert len(found.checksums[0][1].sizes) == window.QUEUES * 6 + 2 * 6 + 1


@pytest.mark.parametrize("start", [0.0, 3.0, 20.0])
@pytest.mark.parametrize("batches", [400, 96])
def test_with_workers_an_epoch_start_costs_less_than_its_first_batch(batches, start):
    """Four workers, each with a batch every 4 seconds and two of them ready: those of an epoch's first come at once."""

    class Workers(Machine):
        def epoch(self, number):
            self.asked.append(number)
            began = self.now + self.start
            for batch in range(self.batches):
                self.now = max(self.now, began + 4 * (1 + batch // 4))
                yield {}

    machine = Workers(batches, start=start)
    found = machine.timed(8.0, held=8, warm_up_seconds=0.0, known=window.Known(batches, 0.0, 1e9, 1e9))
    assert found.start_seconds() == pytest.approx(start, abs=1.5)
    assert found.rate(found.start_seconds(), batches * ITEMS) == pytest.approx(
        batches * ITEMS / (batches + start), rel=4 / batches
    )
    last = len(found.checksums[-1][1].sizes)
    assert last == batches or last >= 16, "it does not end while queues are being filled"


@pytest.mark.parametrize(
    ("within", "expected", "waited"),
    [(88.0, 0.5, True), (87.0, 0.5, False), (88.0, 0.4, False), (0.0, 0.5, False)],
)
def test_a_window_goes_on_for_an_epoch_start_that_is_near_and_counts(within, expected, waited):
    """Ten of its 100 batches are in the window and two before; a start that is expected to be short is not told."""
    machine = Machine(100, start=7.0)
    found = machine.timed(10.0, warm_up_seconds=-1.0, known=window.Known(100, 0.0, within, expected))
    assert machine.asked == ([0, 1] if waited else [0])
    assert found.edges == ([(False, True), (True, False)] if waited else [(False, False)])
    assert [part.items for part in found.parts] == ([98 * ITEMS, ITEMS] if waited else [10 * ITEMS])
    assert found.start_seconds() == (pytest.approx(7.0) if waited else None)
    assert found.rate(7.0, 100 * ITEMS) == pytest.approx(100 * ITEMS / 107)


@pytest.mark.parametrize(("batches", "whole"), [(5, True), (6, True), (9, False)])
def test_a_first_epoch_is_untimed_as_a_whole_unless_it_is_long(batches, whole):
    """It is slower, as one that maps pages is; after half a second of the first batch more than 5 s are long."""

    class Mapping(Machine):
        def epoch(self, number):
            self.batch = 1.0 if number == 0 else 0.5
            yield from super().epoch(number)

    machine = Mapping(batches)
    found = machine.timed(2.0, known=window.Known(batches, 5.0))
    assert machine.phases[0] == ("before", float(batches) if whole else 2.0)
    assert found.rate(found.start_seconds() or 0.0, batches * ITEMS) == pytest.approx(ITEMS * (2 if whole else 1))


@pytest.mark.parametrize(
    ("items", "item_bytes", "seconds"), [(1000, 640_000, 1.28), (20_000, 640_000, 5.0), (60_000, 784, 0.094)]
)
def test_a_first_epoch_that_is_read_slowly_is_no_slower_than_others(items, item_bytes, seconds):
    """Below 500 MB/s: what a page costs the first time is then little beside the rest."""
    request = SimpleNamespace(items=items, batch_size=32, sample=SimpleNamespace(bytes=item_bytes))
    known = window.Known.of(request, 3.0, 0.5)
    assert known == window.Known(-(-items // 32), pytest.approx(seconds, rel=0.01), 3.0, 0.5)


def test_a_shuffle_buffer_is_full_before_the_window_and_its_filling_is_made_up_for_by_its_end():
    """Two items are read for each that is given until it is full, and none at the end of an epoch."""

    class Buffered(Machine):
        def epoch(self, number):
            self.asked.append(number)
            for batch in range(self.batches):
                self.now += 2.0 if batch < 30 else 0.0 if batch >= self.batches - 30 else 1.0
                yield {}

    for held, rate in ((0, ITEMS / 2), (30, ITEMS)):
        assert Buffered(300).timed(10.0, held, known=window.Known(300)).steady_rate(0.0) == pytest.approx(rate)
    found = Buffered(300).timed(10.0, 30, known=window.Known(300, 0.0, 1e9, 1e9))
    assert found.start_seconds() == pytest.approx(0.0) and found.edges == [(False, True), (True, False)]
    assert found.rate(0.0, 300 * ITEMS) == pytest.approx(ITEMS, rel=0.2), "the window ends with a buffer that is full"


def test_the_batches_of_shuffle_buffers_are_those_that_a_loader_declares():
    request = SimpleNamespace(items=500, batch_size=32)
    assert window.buffered_batches(SimpleNamespace(), request) == 0
    assert window.buffered_batches(SimpleNamespace(buffered=lambda _request: 100), request) == 4
    assert window.buffered_batches(SimpleNamespace(buffered=lambda _request: 2000), request) == 16, "no more than all"


def test_what_an_epoch_does_at_its_end_is_part_of_what_the_next_start_costs():
    class Ending(Machine):
        def epoch(self, number):
            yield from super().epoch(number)
            self.now += 5.0

    found = Ending(100, start=2.0).timed(10.0, warm_up_seconds=0.0, known=window.Known(100, 0.0, 1e9, 1.0))
    assert found.start_seconds() == pytest.approx(7.0)
    assert found.rate(7.0, 100 * ITEMS) == pytest.approx(100 * ITEMS / 107)


def test_the_first_batch_is_said_once():
    seen = []
    machine = Machine(3)
    window.timed(machine.epoch, machine, machine.clock, 9.0, first_batch=lambda: seen.append(machine.now))
    assert seen == [1.0]


def test_au_is_that_of_whole_epochs_as_the_speed_is():
    """A window without an epoch start: its steps take half of its time, and less of that of whole epochs."""

    class Computing(Machine):
        def computed(self):
            spent, self.mark = self.now - getattr(self, "mark", 0.0), self.now
            return 0.5 * spent

    found = Computing(1000, 1.0).timed(50.0, warm_up_seconds=0.5)
    assert found.start_seconds() is None and found.utilisation() == pytest.approx(50.0, abs=1)
    rate = found.rate(1000.0, 1000 * ITEMS)  # a start takes as long as all batches
    assert found.utilisation(rate) == pytest.approx(25.0, abs=1)


@pytest.mark.parametrize(
    ("batches", "start", "found"), [(100, 0.0, 0.0), (100, 3.0, 3.0), (2, 3.0, 3.0), (1, 3.0, 0.0)]
)
def test_a_proof_notes_what_an_epoch_start_costs_beyond_a_batch(batches, start, found):
    """Of epochs of a single batch nothing can be told apart, and nothing is taken out."""
    machine, looked_at = Machine(batches, 1.0, start), []
    verifier = SimpleNamespace(order_like=lambda _order: None, check_order=lambda *order: looked_at.append(order))
    asked = SimpleNamespace(clock=machine.clock, reached=lambda: None, verifier=verifier)
    items, ended, cost = run._Run._beginning(asked, 1, machine.epoch(1), machine)
    assert (items, ended, cost) == (looked_at[0][0], batches != 100, pytest.approx(found))
    assert machine.closed == (batches == 100), "it takes no more batches than it needs"
    [(order, where)] = looked_at
    assert len(order) == ITEMS * min(batches, 13) and where == " in epoch 1"


def test_an_epoch_that_delivers_nothing_is_an_error():
    """An exhausted iterator, say: without an error a window would be waited for until the time limit."""
    with pytest.raises(RuntimeError, match="epoch 1 delivered nothing"):
        run._Run._beginning(SimpleNamespace(clock=lambda: 0.0), 1, iter([]), None)
    machine = Machine(4)
    machine.epoch = lambda number, epoch=machine.epoch: iter([]) if number else epoch(number)
    with pytest.raises(RuntimeError, match="epoch 1 delivered nothing"):
        machine.timed(100.0)


@pytest.mark.parametrize(("batches", "own"), [(500, 9.0), (20, 9.0), (500, None)])
def test_steps_are_tried_after_the_first_epoch_and_the_users_own_checks(batches, own):
    """A loader without workers: each step is waited for as long as a batch takes, whatever an epoch start costs."""
    machine = Machine(batches, 1.0, start=2.5)
    machine.step = 0.0

    def stepped(_sink, step_ms):
        taking = SimpleNamespace(finish=machine.finish, computed=machine.computed)

        def consume(batch):
            machine.now += step_ms / 1000
            return machine.consume(batch)

        taking.consume = consume
        return taking

    asked = SimpleNamespace(
        clock=machine.clock,
        request=LoaderRequest(None, batches * ITEMS, Sample("audio", "float32", (1, 1), "int16", ""), 1, ITEMS),
        asked=SimpleNamespace(batch_ms=1000.0, asked_step_ms=1000 * (own or 0), host_share=0.4),
        record={},
        _held=0,
        _undisturbed=lambda work: work(),
        _bytes_read=lambda: machine,
        _stepped=stepped,
    )
    run._Run._find_steps(asked, machine.epoch)
    found = asked.record["steps"]
    assert found.pop("host_share") == 0.4
    assert {name: (one["step_ms"], one["period_ms"]) for name, one in found.items()} == {
        name: (step, pytest.approx(step + 1000, rel=1e-6))
        for name, step in (("plain", 0.0), ("knee", 1000.0), ("long", 4000.0), ("check", 1000 * (own or 2.0)))
    }
    if batches == 20:
        assert machine.asked[:2] == [0, 1], "the first epoch is not timed"


@pytest.mark.parametrize(("shares", "found"), [([3, 99], 0), ([40, 5, 99], 1), ([40, 30, 5], 1), ([40, 50, 5], 0)])
def test_a_trial_that_others_disturb_is_made_again(monkeypatch, shares, found):
    """AU beside a burst of a neighbour would say for good that a loader starves the step."""
    left, tries = iter(shares), []
    monkeypatch.setattr(run.host, "look", lambda _clock: None)
    monkeypatch.setattr(run.host, "others_percent", lambda _before, _after: next(left))

    def work():
        tries.append(len(tries))
        return {"au_percent": 90.0 + tries[-1]}

    said = run._Run._undisturbed(SimpleNamespace(clock=None), work)
    assert said == {"au_percent": 90.0 + found, "others_percent": shares[found]}
    assert len(tries) == min(2, next(number for number, share in enumerate([*shares, 0], 1) if share <= 15))


@pytest.mark.parametrize(
    ("start_from", "seconds", "told"),
    [("proof", 1.0, True), ("proof", 0.3, False), ("runs", 1.0, False), ("window", 1.0, False), (None, None, False)],
)
def test_an_epoch_start_that_counts_and_that_only_the_proof_has_seen_is_a_warning(start_from, seconds, told):
    """Of epochs of 20 seconds; a run of whole epochs has none to add."""
    record = {"epoch_start_from": start_from, "epoch_start_seconds": seconds, "items_per_second": 50.0, "items": 1000}
    found = run.start_of_proof(record)
    assert bool(found) == told and all("5.0 % of an epoch" in one["seen"] for one in found)
    assert all("{seconds: 20}" in one["hint"] for one in found)


@pytest.mark.parametrize(("speed", "told"), [(2000.0, True), (500.0, False)])
def test_a_fast_result_that_was_seen_in_its_first_epoch_alone_says_so(speed, told):
    """Of items of 640,000 bytes."""
    found = run.first_epoch({"item_bytes": 640_000, "items_per_second": speed})
    assert [one["code"] for one in found] == ["first-epoch"] * told
    assert all("at 1,280 MB/s" in one["seen"] for one in found)
