"""Whether a result feeds the user's own step: reckoned by hand, measured where it was tried."""

import pytest

from scripts.decide.utilisation import with_step_au

RESULT = {
    "loader": "a",
    "device": "cpu",
    **{"task": "read", "cache": "warm", "step_ms": 0.0, "batch_size": 32, "workers": 2, "prefetch": 2, "items": 320},
    **{"items_per_second": 3000.0, "interval_low": 1500.0, "steady_items_per_second": 3200.0},
    **{"epoch_start_seconds": 0.05, "asked_step_ms": None, "asked_au_percent": None},
}


def au(asked=20.0, **changed):
    [row] = with_step_au([RESULT | changed], {"config": {"report": {"step_ms": asked}}})
    return row["step_au_percent"], row["step_au_low"], row["step_au_from"]


@pytest.mark.parametrize(
    ("changed", "percent", "low"),
    [
        ({}, 80.0, 80.0),  # a batch takes 10 ms (20 at the lower end), ten steps of 20 ms 200, and 50 to start
        ({"epoch_start_seconds": None}, 100.0, 100.0),
        ({"workers": 0, "epoch_start_seconds": 0.0}, 100 * 20 / 30, 50.0),  # nothing overlaps
        ({"workers": None, "prefetch": None, "epoch_start_seconds": 0.0}, 100 * 20 / 30, 50.0),
        ({"workers": None, "prefetch": 2, "epoch_start_seconds": 0.0}, 100.0, 100.0),  # it has threads of its own
        ({"interval_low": 750.0, "epoch_start_seconds": 0.0}, 100.0, 50.0),  # 40 ms a batch at the lower end
        ({"interval_low": None, "epoch_start_seconds": 0.0, "steady_items_per_second": 800.0}, 50.0, 50.0),
        ({"items": 330, "epoch_start_seconds": 0.03}, 100 * 220 / 250, 100 * 220 / 250),  # eleven batches
    ],
)
def test_by_its_rate(changed, percent, low):
    assert au(**changed) == (pytest.approx(percent), pytest.approx(low), "by its rate")


def test_what_was_tried_with_that_step_is_measured():
    assert au(asked_step_ms=20.0, asked_au_percent=97.0) == (97.0, 97.0, "measured")
    assert au(asked_step_ms=10.0, asked_au_percent=97.0)[2] == "by its rate", "another step"


def test_what_was_measured_of_a_loader_lowers_what_the_rates_of_its_others_say():
    tried = RESULT | {"asked_step_ms": 20.0, "asked_au_percent": 60.0}  # by its rate 80
    rows = [tried, RESULT, RESULT | {"loader": "b"}, tried | {"loader": "b", "asked_au_percent": 88.0}]
    found = with_step_au(rows, {"config": {"report": {"step_ms": 20.0}}})
    assert [row["step_au_percent"] for row in found] == [60.0, pytest.approx(60.0), pytest.approx(80.0), 88.0]


def test_what_does_not_work_ahead_waits_as_another_that_was_measured():
    alone = RESULT | {"workers": 0, "epoch_start_seconds": 0.0}  # waits 10 ms a step of 20
    tried = alone | {"asked_step_ms": 20.0, "asked_au_percent": 100 * 20 / 35}  # 15: one and a half times as long
    fast = alone | {"loader": "b", "steady_items_per_second": 32000.0}  # 1 ms
    ahead, other = RESULT | {"loader": "c"}, fast | {"device": "cuda"}
    found = with_step_au([tried, fast, ahead, other], {"config": {"report": {"step_ms": 20.0}}})
    assert [row["step_au_percent"] for row in found[1:]] == [pytest.approx(100 * 20 / ms) for ms in (21.5, 25, 21)]
    own = fast | {"asked_step_ms": 20.0, "asked_au_percent": 100 * 20 / 21.2}  # its own loader counts first
    found = with_step_au([tried, own, fast], {"config": {"report": {"step_ms": 20.0}}})
    assert found[2]["step_au_percent"] == pytest.approx(100 * 20 / 21.2)
    working = ahead | {"asked_step_ms": 20.0, "asked_au_percent": 40.0}
    found = with_step_au([alone, working], {"config": {"report": {"step_ms": 20.0}}})
    assert found[0]["step_au_percent"] == pytest.approx(100 * 20 / 30), "what works ahead says nothing of it"


@pytest.mark.parametrize(
    "changed",
    [{"task": "train"}, {"cache": "cold"}, {"step_ms": 20.0}, {"steady_items_per_second": None}, {"items": None}],
)
def test_of_what_nothing_is_known_nothing_is_said(changed):
    assert au(**changed) == (None, None, "")
    assert au(asked=None) == (None, None, "")
