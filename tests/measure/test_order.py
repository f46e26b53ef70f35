"""How random an order is: planted ones, and what a real random order is never taken for."""

import numpy as np
import pytest

from scripts.measure import order

BATCH = 32


def batches_of(items: np.ndarray) -> np.ndarray:
    return items[: len(items) // BATCH * BATCH].reshape(-1, BATCH)


def windows(chance, count, _number):
    """Contiguous windows from a start that moves."""
    return np.roll(np.arange(count), -int(chance.integers(count)))


def windows_in_random_order(chance, count, _number):
    return np.concatenate(chance.permutation(batches_of(windows(chance, count, 0))))


def windows_shuffled_inside(chance, count, _number):
    return np.concatenate([chance.permutation(one) for one in chance.permutation(batches_of(np.arange(count)))])


def streams_that_take_turns(chance, count, _number):
    """Four workers, each of which delivers its part from a start of its own."""
    parts = np.arange(count // 4 * 4).reshape(4, -1)
    return np.stack([np.roll(part, chance.integers(len(part))) for part in parts], axis=1).ravel()


def manifest_with_one_exchanged(chance, count, _number):
    items = np.arange(count)
    one, other = chance.integers(count, size=2)
    items[[one, other]] = items[[other, one]]
    return items


def two_in_turn(_chance, count, number):
    return np.random.default_rng(number % 2).permutation(count)


def one_that_stays_but_for_an_item(chance, count, _number):
    return np.random.default_rng(0).permutation(count)[manifest_with_one_exchanged(chance, count, 0)]


def batches_that_stay(chance, count, _number):
    return np.concatenate(chance.permutation(batches_of(np.random.default_rng(0).permutation(count))))


def batches_that_stay_shuffled_inside(chance, count, _number):
    fixed = batches_of(np.random.default_rng(0).permutation(count))
    return np.concatenate([chance.permutation(one) for one in chance.permutation(fixed)])


def shuffle_buffer(chance, count, _number):
    """Shards in random order through a buffer of a tenth of the items, as WebDataset has them."""
    shards = chance.permutation(np.arange(count).reshape(10, -1))
    held, delivered = [], []
    for item in np.concatenate(shards).tolist():
        held.append(item)
        if len(held) > count // 10:
            delivered.append(held.pop(int(chance.integers(len(held)))))
    return np.array(delivered + [held[at] for at in chance.permutation(len(held))])


PLANTED = {
    windows: "sequential",
    windows_in_random_order: "sequential",
    streams_that_take_turns: "sequential",
    manifest_with_one_exchanged: "sequential",
    windows_shuffled_inside: "local",
    shuffle_buffer: "local",
    two_in_turn: "repeated",
    one_that_stays_but_for_an_item: "repeated",
    batches_that_stay: "repeated",
    batches_that_stay_shuffled_inside: "repeated",
}


@pytest.mark.parametrize("count", [500, 2000, 20_000])
@pytest.mark.parametrize("makes", PLANTED, ids=lambda makes: makes.__name__)
def test_an_order_that_is_not_random_is_told_by_its_beginning(makes, count):
    for seed in range(20):
        chance = np.random.default_rng(seed)
        epochs = [makes(chance, count, number)[: None if number == 0 else 256] + 7 for number in range(3)]
        assert order.measured(epochs, range(7, 7 + count), BATCH)["measured"] == PLANTED[makes]


@pytest.mark.parametrize("batch_size", [1, 32, 1024])
@pytest.mark.parametrize(("count", "tries"), [(100, 400), (512, 300), (5000, 60), (20_000, 20)])
def test_a_random_order_is_never_taken_for_another(count, tries, batch_size):
    """Of 14,650 orders that were tried by hand, too."""
    chance = np.random.default_rng(count + batch_size)
    for _ in range(tries):
        beginning = max(order.LEAST_ITEMS, 8 * batch_size)
        epochs = [chance.permutation(count), *(chance.permutation(count)[:beginning] for _ in range(2))]
        found = order.measured(epochs, range(count), batch_size)
        assert found["measured"] == "random" and found["repeated_percent"] == 0
        assert found["spread_percent"] == pytest.approx(100, abs=25) and found["neighbours_percent"] < 10


def test_the_numbers_are_those_of_the_definition():
    epochs = [np.arange(200), np.arange(200)]
    found = order.measured(epochs, range(200), 8)
    assert found == {
        "measured": "sequential",
        "spread_percent": pytest.approx(100 / 67),
        "neighbours_percent": 100,
        "repeated_percent": pytest.approx(100),
    }
    assert order.measured(epochs[:1], range(200), 8)["measured"] == "unknown"
    assert order.measured([range(99)] * 2, range(99), 8)["measured"] == "unknown"


@pytest.mark.parametrize("batch_size", [1, 32, 20_000])
def test_the_same_beginning_of_two_epochs_is_told_however_large_a_batch_is(batch_size):
    items = np.random.default_rng(0).permutation(20_000)[:100]
    assert order.measured([items, items], range(20_000), batch_size)["measured"] == "repeated"


def test_a_run_of_another_order_than_was_proven_is_a_fault():
    chance = np.random.default_rng(0)
    proven = order.measured([chance.permutation(500) for _ in range(3)], range(500), BATCH)
    found = {makes: order.measured([makes(chance, 500, at) for at in range(3)], range(500), BATCH) for makes in PLANTED}
    for makes, code in PLANTED.items():
        assert bool(order.other_than_proven(proven, found[makes])) == (code != "local")
        assert (
            order.other_than_proven(found[makes], found[windows]) == order.other_than_proven(None, found[windows]) == []
        )
    assert order.other_than_proven(proven, proven) == []
