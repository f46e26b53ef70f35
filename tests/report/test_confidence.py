"""The grade of the first answer: the worst that was seen decides, and says what to do."""

import pytest

from scripts.report.confidence import confidence

ROW = {"loader": "ring", "tier": "disk", "task": "read", "device": "cpu", "runs": 9, "left_out": 0, "disturbed": 0}
NOISE = {"device": "cpu", "variation_percent": 2.0, "drift_seen": False, "drift_percent": 0.0}

QUICK = "snakemake --config dataset=demo preset=quick measure="
ON_A_GPU = {"row": {"device": "cuda"}, "noise": {"device": "cuda", "variation_percent": 17.0}}


def graded(row=None, form="use", longer=1.0, noise=None, minutes=5, behind=1.0, ram_copies="all"):
    tables = {
        "noise": [{**NOISE, **(noise or {})}],
        "dataset": {
            **{"dataset": "demo", "config": {"preset": "quick"}},
            "measure": {"minutes": minutes, "repeats": 5, "ram_copies": ram_copies},
        },
        "tiers": [{"tier": "memory", "filesystem": "tmpfs"}, {"tier": "disk", "filesystem": "ext4"}],
    }
    row = row and {**ROW, **row} if row is not None else ROW
    return confidence(tables, {"row": row, "ties": [ROW], "form": form, "longer": longer, "behind": behind})


@pytest.mark.parametrize(
    ("given", "grade", "said"),
    [
        ({}, "A", "2.0 %"),
        ({"form": "equal"}, "A", "9 runs"),
        ({"behind": 1.2}, "A", "9 runs"),
        ({"behind": 1.43}, "B", "43 %"),
        ({"row": {"runs": 4}}, "B", f"`{QUICK}'{{minutes: 10}}'`"),
        ({"row": {"left_out": 9}}, "B", "50 %"),
        ({"noise": {"variation_percent": 17.0}}, "B", "10 minutes"),
        ({"noise": {"variation_percent": 17.0}, "row": {"disturbed": 1}}, "B", "17 %"),
        (ON_A_GPU, "B", "10 minutes"),
        ({**ON_A_GPU, "row": {"device": "cuda", "disturbed": 1}}, "B", "17 %"),
        ({"noise": {"drift_seen": True, "drift_percent": -8.0}}, "B", "8 %"),
        ({"noise": {"drift_seen": False, "drift_percent": -8.0}}, "A", "9 runs"),
        ({"form": "noisy", "longer": 3.97}, "C", "20 minutes"),
        ({"form": "noisy", "longer": float("inf")}, "C", "15 minutes"),
        ({"form": "noisy", "longer": float("inf"), "ram_copies": "one"}, "C", "15 minutes"),
        (
            {"row": {"tier": "memory"}, "form": "noisy", "longer": float("inf"), "ram_copies": "one"},
            "C",
            f"`{QUICK}'{{ram_copies: all}}'`",
        ),
        ({"form": "noisy", "longer": 230.0}, "C", "too noisy"),
        ({"form": "noisy", "longer": 3.97, "minutes": "none"}, "C", f"`{QUICK}'{{repeats: 20}}'`"),
        ({"form": "noisy", "longer": 5e6, "minutes": "none"}, "C", "too noisy"),
        ({"row": {"runs": 1}}, "D", "15 minutes"),
    ],
)
def test_the_worst_decides(given, grade, said):
    found = graded(**given)
    assert found.grade == grade and said in found.text


def test_without_any_speed_there_is_no_confidence():
    assert confidence({}, {"row": None}).grade == "D"
