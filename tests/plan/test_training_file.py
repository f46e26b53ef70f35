"""What attach.json gives to a config: `training: attach.json`."""

import json

import pytest

from scripts.common.errors import UserError
from scripts.plan.experiment import Plan
from scripts.plan.training_file import read_training, settings, with_training

FOUND = {
    "version": 1,
    "verdict": "INPUT-BOUND",
    "notes": [],
    "au": {"percent": 39.0, "low": 37.0, "high": 41.0, "by": "rounds"},
    "items_per_second": 880.0,
    "headspace_items_per_second": 2250.0,
    "step_ms": 14.2221,
    "host_share": 0.304,
    "batch": {"items": 31.7},
    "loader": {"num_workers": 3},
    "audio": {"sample_rate": 44100, "seconds": 1.5},
}
CONFIG = {"report": {"now": "torchaudio", "step_ms": 20}, "sweep": {"workers": [0, "guide"]}, "audio": {"seconds": 10}}


def written(folder, **changed):
    """The path of an attach.json."""
    path = folder / "attach.json"
    path.write_text(json.dumps({**FOUND, **changed}))
    return str(path)


def test_the_training_gives_batch_step_workers_and_items(tmp_path):
    config = with_training({**CONFIG, "training": written(tmp_path)}, {})
    assert config["report"] == {"now": "torchaudio", "step_ms": 14.222, "batch": 32, "host_share": 0.3}
    assert config["sweep"] == {"workers": [0, "guide", 3], "batch_size": [32]}
    assert config["audio"] == {"sample_rate": 44100, "seconds": 1.5}
    assert config["training"]["au_percent"] == 39.0 and config["training"]["items_per_second"] == 880.0


def test_the_command_line_wins(tmp_path):
    said = {"report": {"step_ms": 5}, "training": "x"}
    config = with_training({"report": {"step_ms": 5}, "sweep": {}, "training": written(tmp_path)}, said)
    assert config["report"]["step_ms"] == 5 and config["report"]["batch"] == 32


def test_what_is_unknown_is_left_to_the_config(tmp_path):
    path = written(tmp_path, batch={"items": None}, host_share=None, audio=None)
    config = with_training({**CONFIG, "training": path}, {})
    assert config["report"] == {"now": "torchaudio", "step_ms": 14.222} and config["audio"] == {"seconds": 10}
    assert "batch_size" not in config["sweep"]


def test_a_stored_config_needs_no_file(tmp_path):
    path = written(tmp_path)
    first = with_training({**CONFIG, "training": path}, {})
    (tmp_path / "attach.json").unlink()
    assert with_training(first, {}) == first
    assert settings(first["training"])["report"]["batch"] == 32


def test_a_plan_measures_what_the_training_has(tmp_path):
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 64, "seed": 7}},
        "storage": {"disk": {"path": "results/placed"}},
        "loaders": ["numpy_memmap"],
    }
    plan = Plan(raw, {"training": written(tmp_path), "sweep": {"batch_size": [8]}})
    assert {result.settings["batch_size"] for result in plan.results} == {8}
    assert plan.config["report"]["step_ms"] == 14.222 and plan.config["audio"]["sample_rate"] == 44100
    assert plan.config["training"]["workers"] == 3
    with pytest.raises(UserError, match="training"):
        Plan(raw | {"training": 7})


@pytest.mark.parametrize("value", [None, "null"])
def test_no_training_changes_nothing(value):
    assert with_training({**CONFIG, "training": value}, {}) == {**CONFIG, "training": None}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "found no file"),
        ("loss 0.1", "found no JSON"),
        ("{}", "found no attach.json of version 1"),
        (json.dumps({**FOUND, "version": 9}), "found no attach.json of version 1"),
        (json.dumps({**FOUND, "au": None, "notes": ["found 1 batch"]}), "it saw no training: found 1 batch"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, says):
    path = tmp_path / "attach.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=says):
        read_training(str(path))
