"""How long a session is said to take: its minutes, and assumptions for the rest."""

import json
from math import ceil, floor
from pathlib import Path

import pytest

from scripts.measure import race
from scripts.plan import estimate as estimated
from scripts.plan.estimate import estimate
from scripts.plan.experiment import Plan
from tests.support.made_runs import measured


@pytest.fixture
def plan(tmp_path) -> Plan:
    """Two loaders on a tier, read and trained: four results."""
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 200}},
        "storage": {"disk": {"path": str(tmp_path / "tier")}},
        "loaders": ["npy", "soundfile"],
        "sweep": {"device": ["cpu"], "workers": [0], "task": ["read", "train"], "cache": ["warm"]},
        "measure": {"tensors": False, "trainings": "all", "part": "none"},
    }
    return Plan(raw, project=tmp_path)


def test_a_session_takes_its_minutes_and_the_rest_is_assumed(plan):
    found = estimate(plan)
    assert (found.results, found.left, found.items, found.download_hours) == (4, 4, 180, None)
    assert found.session_minutes == plan.config["measure"]["minutes"] < found.minutes


def test_more_rounds_items_and_formats_take_longer(plan, tmp_path):
    fixed = {**plan.config["measure"], "minutes": "none"}
    plan = Plan({**plan.config, "measure": fixed}, project=tmp_path)
    longer = [
        {"measure": {**fixed, "repeats": 20}},
        {"datasets": {"demo": {"source": "synthetic", "clips": 20_000}}},
        {"loaders": ["npy", "soundfile", "hdf5"]},
        {"measure": {**fixed, "seconds": 30}},
        {"measure": {**fixed, "epochs": 50}},
        {"sweep": {**plan.config["sweep"], "task": ["read", "train", "lightning"]}},
        {"sweep": {**plan.config["sweep"], "workers": [8], "batch_size": [256]}},  # longer windows
    ]
    for change in longer:
        other = Plan({**plan.config, **change}, project=tmp_path)
        assert estimate(other).minutes > estimate(plan).minutes, change


def test_the_least_rounds_of_each_loader_are_finished_in_any_case_and_take_longer_on_a_gpu(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(Plan, "has_gpu", True)
    short = {**plan.config["measure"], "minutes": 0.5, "seconds": 3}
    asked = {"task": ["read"], "batch_size": [8, 16, 32, 64], "pin_memory": [False]}
    found = []
    for device in ("cpu", "cuda"):
        sweep = {**plan.config["sweep"], **asked, "device": [device]}
        found.append(estimate(Plan({**plan.config, "measure": short, "sweep": sweep}, project=tmp_path)))
    assert [one.results for one in found] == [8, 8]
    assert [one.session_minutes for one in found] == pytest.approx([0.5, 3 * 2 * (2.2 + 3) / 60], rel=0.05)
    assert all(len(one.dropped) == 6 and "has room for 2 of them" in one.words() for one in found), "further settings"
    assert estimated.LEAST_ROUNDS == race.LEAST_ROUNDS
    for minutes, dropped in ((ceil(found[1].minutes_for_all), 0), (floor(found[1].minutes_for_all), 1)):
        measure = {**short, "minutes": minutes}
        one = estimate(Plan({**plan.config, "measure": measure, "sweep": sweep}, project=tmp_path))
        assert bool(one.dropped) == dropped, "the time that is named is enough, and little more than needed"


def test_whole_epochs_are_part_of_the_first_round(plan, tmp_path):
    """A training of 20,000 items goes over 13 GB four times, whatever `measure.minutes` says."""
    large = {**plan.config, "datasets": {"demo": {"source": "synthetic", "clips": 20_000}}}
    large["measure"] = {**plan.config["measure"], "minutes": 5}
    each = {}
    for task in ("read", "train", "ddp"):
        sweep = {**plan.config["sweep"], "task": [task]}
        each[task] = estimate(Plan({**large, "sweep": sweep}, project=tmp_path)).session_minutes
    assert each["read"] == 5 < 15 < each["train"] == each["ddp"]


def test_the_leaders_are_measured_cold_within_the_sessions_minutes(plan, tmp_path):
    sweep = {**plan.config["sweep"], "task": ["read"], "cache": ["warm", "cold"]}
    minutes, rounds = ({**plan.config["measure"], "cold": "leaders", "minutes": m} for m in (5, "none"))
    found, longer = (
        Plan({**plan.config, "sweep": sweep, "measure": one}, project=tmp_path) for one in (minutes, rounds)
    )
    assert len(found.results) == 4
    assert (estimate(found).results, estimate(found).left, estimate(found).session_minutes) == (2, 2, 5)
    assert "cold" in estimate(found).words()
    warm = Plan({**longer.config, "sweep": {**sweep, "cache": ["warm"]}}, project=tmp_path)
    assert estimate(longer).session_minutes > estimate(warm).session_minutes


def test_what_has_a_run_is_done(plan):
    def now(**measure):
        """What is left for a call that is typed now."""
        raw = plan.config | {"measure": plan.config["measure"] | measure}
        return estimate(Plan(raw, project=plan.project))

    measured(plan, plan.results[:3])
    assert now().left == 1 and now().session_minutes == plan.config["measure"]["minutes"] / 4
    session = measured(plan, plan.results)
    assert now().left == 0
    assert now(seconds=7).left == 4, "what was measured otherwise does not count"
    first = session.folder / plan.results[0].id / "0.json"
    first.rename(first.with_name("7.json"))
    assert now().left == 0, "a run of a later round, where a session went on"
    first.with_name("7.json").rename(first.with_name("7.attempt-0.json"))
    assert now().left == 1, "an attempt that does not count"
    failed = plan.project / plan.results[0].proof
    failed.write_text(json.dumps(json.loads(failed.read_text()) | {"status": "failed"}))
    assert now().left == 0, "what cannot be proven takes no time"


def test_a_loader_by_itself_is_its_own_runs(plan):
    assert estimate(plan, ["npy"]).results == 2
    assert estimate(plan, ["npy"]).minutes < estimate(plan).minutes


def test_the_items_of_the_corpus_are_counted_where_it_is_there(plan):
    corpus = plan.project / "results" / "corpus" / "demo" / "corpus.json"
    corpus.parent.mkdir(parents=True)
    corpus.write_text(json.dumps({"items": {"train": 77, "validation": 9}}))
    assert estimate(plan).items == 77


@pytest.mark.parametrize(
    ("options", "hours"),
    [({}, 67.9), ({"limit": 300}, 1), ({"min_clips": 600}, 2), ({"requests_per_hour": 600, "limit": 300}, 0.5)],
    ids=str,
)
def test_a_download_takes_its_hours_until_its_ledgers_are_there(plan, tmp_path, options, hours):
    datasets = {"audioset": {"source": "audioset", "list": "eval", **options}}
    asked = Plan({**plan.config, "dataset": "audioset", "datasets": datasets}, project=tmp_path)
    assert estimate(asked).download_hours == pytest.approx(hours, rel=0.01)
    folder = Path(tmp_path, asked.folder("clips"))
    folder.mkdir(parents=True)
    for shard in [f"{number:04d}" for number in range(asked.shards)]:
        (folder / f"ledger-{shard}.csv").write_text("")
    assert estimate(asked).download_hours == 0
