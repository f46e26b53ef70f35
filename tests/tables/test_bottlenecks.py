"""What the bottleneck is is named by what leaving it out saves; planted bottlenecks are named rightly."""

from statistics import median

import pytest

from scripts.common.vocabulary import PARTS
from scripts.tables import bottlenecks
from tests.support.bottleneck_cases import ALONE, PAIRS, Case, named
from tests.support.made_runs import explained
from tests.support.planted import Clock

AMONG_WORKERS = [  # the others: `make selftest`
    Case("decode", workers=2, decode=20),
    Case("transfer", workers=2, transfer=20),
]


@pytest.mark.parametrize("case", [case for case in (*ALONE, *PAIRS) if not case.workers], ids=str)
def test_a_planted_bottleneck_is_named(case):
    """By a planted clock, which what else a batch costs on this machine does not move."""
    part, percent, evidence = named(case, clock=Clock(tick=2e-4))
    assert part == case.answer, evidence
    assert percent > 50


@pytest.mark.alone
@pytest.mark.parametrize("case", AMONG_WORKERS, ids=str)
def test_a_planted_bottleneck_among_workers_is_named(case):
    """By the real clock, of sleeps so long that what else a batch costs is little beside them. On a busy machine it may
    be called unclear, but nothing else may be named, and it is what costs most.
    """
    part, percent, evidence = named(case, times=3)
    assert part in (case.answer, "unclear"), evidence
    assert evidence.startswith(PARTS[case.answer].text) and percent > 50, evidence


def test_a_part_costs_what_leaving_it_out_saves():
    """10 ms an item: 4 of storage, 3 of decoding, 2 of reading, 1 of the rest."""
    found = bottlenecks.costs(explained(100, storage=1 / 0.006, decode=1 / 0.007, read=1 / 0.001, everything=1 / 0.001))
    assert found["storage"] == pytest.approx(0.004)
    assert found["decode"] == pytest.approx(0.003)
    assert found["read"] == pytest.approx(0.005), "beyond what storage alone saves; decoding is in it"
    assert found["framework"] == pytest.approx(0.001, rel=0.01)


def test_what_costs_little_is_not_called_a_bottleneck():
    part, percent, _ = bottlenecks.name(explained(100, read=105, transfer=104, everything=1000, consumer=900))
    assert part == "consumer" or percent < 12
    part, percent, evidence = bottlenecks.name(explained(100, read=105, transfer=104, everything=5000, consumer=4000))
    assert part == "none" and percent < bottlenecks.LEAST_PERCENT
    assert "reading" in evidence and "transfer" in evidence


def test_a_part_that_is_faster_with_it_costs_nothing():
    """Noise: without the part it was slower."""
    assert bottlenecks.costs(explained(100, transfer=90))["transfer"] == 0


def test_of_a_loader_without_stages_nothing_is_known():
    assert bottlenecks.name(explained(2721, 38043)) == ("", None, "")


def test_less_to_do_cannot_take_longer():
    """As it was measured beside other work: without everything slower than without reading alone."""
    spoiled = explained(2532, 32000, storage=3671, read=20135, decode=2084, everything=2910)
    assert bottlenecks.costs(spoiled)["framework"] == pytest.approx(1 / 20135 - 1 / 32000)


def test_the_copy_to_a_gpu_may_save_more_than_all_stages():
    """Without it batches stay on the CPU; without the stages they are still copied."""
    assert bottlenecks.name(explained(100, 5000, host_to_device=1000, read=120, everything=130))[0] == "host_to_device"


def in_rounds(*rounds):
    """What is noted of rounds of (full, again, {part: speed without it}), in items/s."""
    found = [{"full": full, "again": again, "without": without, "consumer": 1e6} for full, again, without in rounds]
    middle = {key: median(one[key] for one in found) for key in ("full", "again", "consumer")}
    return middle | {
        "without": {part: median(one["without"][part] for one in found) for part in rounds[0][2]},
        "rounds": found,
    }


def test_a_part_that_stands_out_in_every_round_is_named():
    trials = in_rounds(
        (100, 101, {"read": 300, "transfer": 110}),
        (60, 61, {"read": 180, "transfer": 66}),  # the machine was slower: rounds are held against themselves
        (101, 100, {"read": 310, "transfer": 112}),
    )
    part, percent, _ = bottlenecks.name(trials)
    assert part == "read" and percent == pytest.approx(67, abs=1)


@pytest.mark.parametrize(
    ("why", "rounds"),
    [
        (
            "leaving nothing out differs as much",
            [(100, 60, {"read": 150}), (100, 160, {"read": 160}), (100, 62, {"read": 155})],
        ),
        (
            "another part costs as much",
            [
                (100, 101, {"read": 150, "transfer": 140}),
                (100, 101, {"read": 145, "transfer": 152}),
                (100, 99, {"read": 152, "transfer": 146}),
            ],
        ),
        (
            "it costs a lot in one round, and nothing in the others",
            [(100, 101, {"read": 400}), (100, 99, {"read": 130}), (100, 102, {"read": 90})],
        ),
    ],
)
def test_what_does_not_stand_out_over_the_rounds_is_unclear(why, rounds):
    part, percent, evidence = bottlenecks.name(in_rounds(*rounds))
    assert part == "unclear" and percent >= bottlenecks.LEAST_PERCENT, why
    assert "reading" in evidence, "what was found is said all the same"
