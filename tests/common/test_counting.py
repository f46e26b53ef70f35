"""Which runs count: by what others took from them."""

from scripts.common.counting import Run, counting, run_of


def test_a_run_counts_by_what_others_took_never_by_its_speed():
    quiet = {0: Run(100.0, 1.0), 1: Run(1.0, 15.0), 2: Run(90.0, 15.1), 3: Run(None, 0.0)}
    assert counting({"a": quiet, "b": {0: Run(5.0)}, "none": {}}) == {
        "a": {0: 100.0, 1: 1.0},
        "b": {0: 5.0},
        "none": {},
    }
    busy = {0: Run(50.0, 40.0), 1: Run(60.0, 56.0)}  # others are always at work beside it
    found = counting({"a": quiet, "busy": busy})
    assert found == {"a": {0: 100.0, 1: 1.0, 2: 90.0}, "busy": {0: 50.0}}


def test_what_a_record_says_of_a_run():
    record = {"items_per_second": 7.0, "resources": {"others_percent": 3.0, "stolen_percent": 1.5}}
    assert run_of(record) == Run(7.0, 4.5)
    assert run_of({"items_per_second": None, "resources": None}) == run_of({"items_per_second": None}) == Run(None)
