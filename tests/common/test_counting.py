"""Which visits count: by what others took from them."""

from scripts.common.counting import Visit, counting, visit_of


def test_a_visit_counts_by_what_others_took_never_by_its_speed():
    quiet = {0: Visit(100.0, 1.0), 1: Visit(1.0, 15.0), 2: Visit(90.0, 15.1), 3: Visit(None, 0.0)}
    assert counting({"a": quiet, "b": {0: Visit(5.0)}, "none": {}}) == {
        "a": {0: 100.0, 1: 1.0},
        "b": {0: 5.0},
        "none": {},
    }
    busy = {0: Visit(50.0, 40.0), 1: Visit(60.0, 56.0)}  # others are always at work beside it
    found = counting({"a": quiet, "busy": busy})
    assert found == {"a": {0: 100.0, 1: 1.0, 2: 90.0}, "busy": {0: 50.0}}


def test_what_a_record_says_of_a_visit():
    record = {"clips_per_second": 7.0, "resources": {"others_percent": 3.0, "stolen_percent": 1.5}}
    assert visit_of(record) == Visit(7.0, 4.5)
    assert (
        visit_of({"clips_per_second": None, "resources": None}) == visit_of({"clips_per_second": None}) == Visit(None)
    )
