"""How long a session is said to take: from the times of earlier records, else from assumptions that are named."""

import json
import os
from pathlib import Path

import pytest

from scripts.plan import estimate as estimates
from scripts.plan.estimate import estimate, in_words
from scripts.plan.experiment import Plan


@pytest.fixture
def plan(tmp_path) -> Plan:
    """Two loaders on a tier, traversed and trained, three repeats each: 12 runs and 3 bounds."""
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 200}},
        "storage": {"disk": {"path": str(tmp_path / "tier")}},
        "loaders": ["npy", "soundfile"],
        "sweep": {"device": ["cpu"], "workers": [0], "task": ["read", "train"]},
        "measure": {"tensors": False},
    }
    return Plan(raw, project=tmp_path)


def record(plan: Plan, path: str, written: float) -> None:
    """Make a record that was written at a moment, in seconds."""
    file = plan.project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    os.utime(file, (written, written))


def test_without_earlier_times_it_is_said_to_be_assumed(plan):
    found = estimate(plan)
    assert (found.measurements, found.left, found.clips, found.download_hours) == (15, 15, 180, None)
    assert found.minutes > 15 * estimates.OTHER_START_SECONDS / 60
    assert found.reckoned_from == "assumptions (no earlier times; 180 clips; docs/measuring.md)"
    assert found.words().startswith("Measurements: 15 of 15 to go, about ")


def test_more_repeats_clips_and_formats_take_longer(plan, tmp_path):
    longer = [
        {"measure": {**plan.config["measure"], "repeats": 6}},
        {"datasets": {"demo": {"source": "synthetic", "clips": 20_000}}},
        {"loaders": ["npy", "soundfile", "hdf5"]},
        {"measure": {**plan.config["measure"], "seconds": 30}},
        {"sweep": {**plan.config["sweep"], "task": ["read", "train", "lightning"]}},
    ]
    for change in longer:
        other = Plan({**plan.config, **change}, project=tmp_path)
        assert estimate(other).minutes > estimate(plan).minutes, change


def test_earlier_times_of_a_kind_are_taken_and_what_is_there_is_done(plan):
    """Records a minute apart: what is left takes a minute each, whatever was assumed; a long pause changes nothing."""
    paths = [run.path for run in plan.runs if run.task == "read"]
    for number, path in enumerate(paths[:5]):
        record(plan, path, 1_000_000 + 60 * number + (5000 if number == 4 else 0))
    assert estimates.earlier_seconds(plan) == {"read": 60}
    found = estimate(plan)
    assert (found.measurements, found.left) == (15, 10)
    assert found.reckoned_from.startswith("the times of earlier measurements of demo and from assumptions for ")
    assert "train" in found.reckoned_from and "warm" in found.reckoned_from and "read" not in found.reckoned_from
    for run in plan.runs:
        record(plan, run.path, 2_000_000 + 600 * plan.runs.index(run))
    for number, bound in enumerate(plan.bounds[:2]):
        record(plan, bound.path, 3_000_000 + number)
    left = estimate(plan)
    assert left.left == 1
    record(plan, plan.bounds[2].path, 3_000_003)
    assert estimate(plan).words() == "All 15 measurements are there."


def test_records_that_were_copied_have_no_times(plan):
    for run in plan.runs:
        record(plan, run.path, 1_000_000)
    assert estimates.earlier_seconds(plan) == {}


def test_a_loader_by_itself_is_its_own_runs(plan):
    assert estimate(plan, ["npy"]).measurements == 6
    assert estimate(plan, ["npy"]).minutes < estimate(plan).minutes


def test_the_clips_of_the_corpus_are_counted_where_it_is_there(plan):
    corpus = plan.project / "results" / "corpus" / "demo" / "corpus.json"
    corpus.parent.mkdir(parents=True)
    corpus.write_text(json.dumps({"clips": {"train": 77, "validation": 9}}))
    assert estimate(plan).clips == 77


def test_a_folder_of_unknown_size_is_said_to_be_one(plan, tmp_path):
    (tmp_path / "audio").mkdir()
    datasets = {"mine": {"source": "folder", "path": str(tmp_path / "audio")}}
    found = estimate(Plan({**plan.config, "dataset": "mine", "datasets": datasets}, project=tmp_path))
    assert f"{estimates.CLIPS:,} clips, since their number is not known yet" in found.words()


@pytest.mark.parametrize(
    ("options", "hours"),
    [({}, 67.9), ({"limit": 300}, 1), ({"min_clips": 600}, 2), ({"requests_per_hour": 600, "limit": 300}, 0.5)],
    ids=str,
)
def test_a_download_takes_its_hours_until_its_ledgers_are_there(plan, tmp_path, options, hours):
    datasets = {"audioset": {"source": "audioset", "list": "eval", **options}}
    asked = Plan({**plan.config, "dataset": "audioset", "datasets": datasets}, project=tmp_path)
    assert estimate(asked).download_hours == pytest.approx(hours, rel=0.01)
    assert estimate(asked).words().startswith("Download: about ")
    folder = Path(tmp_path, asked.folder("clips"))
    folder.mkdir(parents=True)
    for shard in asked.shard_names:
        (folder / f"ledger-{shard}.csv").write_text("")
    assert estimate(asked).download_hours == 0
    assert "Download" not in estimate(asked).words()


def test_plan_json_holds_it(plan):
    assert estimate(plan).as_json().keys() >= {"measurements", "left", "minutes", "download_hours", "reckoned_from"}


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.2, "1 min"), (14.4, "14 min"), (119, "119 min"), (120, "2.0 h"), (2879, "48.0 h"), (2880, "2.0 days")],
)
def test_times_are_said_in_a_unit_that_fits(minutes, words):
    assert in_words(minutes) == words
