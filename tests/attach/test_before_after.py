"""`feedrate compare before.json after.json`."""

import json
import subprocess
import sys

import pytest

from scripts.attach.before_after import lines, predicted, slower
from tests.support.programs import PROJECT


def made(rate=100.0, au=40.0, workers=0, **more):
    """An attach.json, as far as it is compared."""
    return {
        "verdict": "INPUT-BOUND",
        "notes": [],
        "au": {"percent": au, "low": au - 1, "high": au + 1, "by": "rounds"},
        "items_per_second": rate,
        "period_ms": 1000 * 8 / rate if rate else 80.0,
        "step_ms": 32.0,
        "batch": {"items": 8},
        "loader": {"num_workers": workers, "pin_memory": False},
        "tried": [],
        "losses": [],
        "items": None,
        **more,
    }


TRIED = {"name": "workers 2", "change": {"num_workers": 2, "prefetch_factor": 2}, "times": 2.0, "low": 1.9, "high": 2.1}


def test_the_setting_that_was_tried_is_the_prediction():
    before, after = made(tried=[TRIED]), made(190.0, 77.0, workers=2)
    assert predicted(before, after, None) == (80.0, 200.0, "attach, which tried workers 2")
    assert predicted(before, made(workers=4), None)[2] == ""


def test_the_session_is_the_prediction_where_there_is_one():
    training = {"choice_au": 95.0, "choice_items_per_second": 237.5}
    assert predicted(made(tried=[TRIED]), made(workers=2), training) == (95.0, 237.5, "the session")


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ([], [1.0], "none were seen in both"),
        ([1.0, 0.5], [1.0, 0.5, 0.2], "the same in the first 2 steps"),
        ([1.0, 0.5], [1.0, 0.5 + 1e-8], "rounding alone"),
        ([1.0, 0.5], [1.0, 0.6], "different from step 2 on"),
        ([1.0, None], [1.0, 0.6], "different from step 2 on"),
    ],
)
def test_losses(one, other, says):
    assert says in "\n".join(lines(made(losses=one), made(losses=other), None))


def test_items_that_differ_are_said():
    items = {"number": 240, "distinct": 240, "digest": "1"}
    assert "the same 240 in both" in lines(made(items=items), made(items=items), None)[-1]
    assert "they differ" in lines(made(items=items), made(items={**items, "digest": "2"}), None)[-1]
    assert "not compared" in lines(made(), made(items=items), None)[-1]


def test_status_by_speed(tmp_path):
    assert slower(made(100.0), made(96.0)) and not slower(made(100.0), made(98.0))
    assert not slower(made(None), made(None))
    for name, found in (("before", made(100.0)), ("after", made(50.0)), ("none", {"au": None, "notes": ["nothing"]})):
        (tmp_path / f"{name}.json").write_text(json.dumps(found))

    def compare(*names):
        words = [str(tmp_path / f"{name}.json") for name in names]
        command = [sys.executable, "-m", "scripts.feedrate", "compare", *words]
        return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)

    assert compare("before", "after").returncode == 1
    assert compare("after", "before").returncode == 0
    for names, says in (
        (("before",), "allowed are two"),
        (("before", "none"), "saw no training"),
        (("x", "x"), "found no"),
    ):
        done = compare(*names)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr
