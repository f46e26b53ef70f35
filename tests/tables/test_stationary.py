"""A result whose speed changes within a run is said to be none that a mean describes."""

import random

import pytest

from scripts.tables.stationary import half_speeds, warning_rows


def epochs(first_gap: float, second_gap: float, batches: int = 40, chance: random.Random | None = None) -> list[dict]:
    """Return two epochs, each with a slow start that counts for neither half."""
    noise = chance.lognormvariate if chance else lambda *_: 1.0
    found = []
    for gap in (first_gap, second_gap):
        at = [5.0]
        for _ in range(batches // 2):
            at.append(at[-1] + gap * noise(0, 0.1))
        found.append({"arrivals_seconds": at, "batch_items": [32] * len(at)})
    return found


def runs(*, first: float, second: float, number: int = 4, **same) -> list[tuple[dict, dict]]:
    chance = random.Random(1)
    row = {"loader": "a", "tier": "ram", "slug": "s", "cache": "warm", "counts": True} | same
    made = [epochs(first, second, chance=chance) for _ in range(number)]
    return [
        ({**row, "repeat": round_number}, {"times": {"epochs": made[round_number]}}) for round_number in range(number)
    ]


def test_the_speeds_of_both_halves():
    assert half_speeds(epochs(0.1, 0.2)) == pytest.approx((320.0, 160.0))
    assert half_speeds(epochs(0.1, 0.2, batches=18)) is None


def test_a_loader_whose_queues_empty_is_named():
    [found] = warning_rows([*runs(first=0.01, second=0.02), *runs(first=0.01, second=0.01, loader="steady")])
    assert (found["loader"], found["code"]) == ("a", "not-stationary")
    assert "0.50 times as fast" in found["seen"] and "4 runs" in found["seen"]


@pytest.mark.parametrize(
    "same", [{"second": 0.0102}, {"cache": "cold"}, {"counts": False}, {"number": 2}, {"second": 0.01}]
)
def test_what_cannot_be_told_or_does_not_matter_is_no_warning(same):
    assert not list(warning_rows(runs(**{"first": 0.01, "second": 0.02} | same)))
