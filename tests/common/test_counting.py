"""Which runs count: by what others took from them."""

from scripts.common.counting import Run, counting, run_of, works_outside


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


def test_a_result_that_others_work_for_is_told_and_moves_no_limit_but_its_own():
    quiet = {0: Run(100.0, 1.0), 1: Run(90.0, 20.0)}
    served = {0: Run(50.0, 45.0), 1: Run(60.0, 52.0)}
    results = {"a": quiet, "b": quiet, "served": served}
    assert works_outside(results) == {"served"}
    assert counting(results) == {"a": {0: 100.0}, "b": {0: 100.0}, "served": {0: 50.0, 1: 60.0}}
    busy = {"a": served, "b": served, "c": quiet}
    assert works_outside(busy) == set(), "the machine was busy"
    assert works_outside({"a": quiet, "served": served}) == set(), "two results do not tell"
    assert works_outside({"a": {0: Run(9.0, 40.0), **{n: Run(9.0) for n in (2, 3)}}, "b": served, "c": quiet}) == set()
    assert works_outside({"a": quiet, "b": quiet, "served": {0: served[0]}}) == set(), "nor does one run"


def test_what_a_record_says_of_a_run():
    record = {"items_per_second": 7.0, "resources": {"others_percent": 3.0, "stolen_percent": 1.5}}
    assert run_of(record) == Run(7.0, 4.5)
    assert run_of({"items_per_second": None, "resources": None}) == run_of({"items_per_second": None}) == Run(None)
