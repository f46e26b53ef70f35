"""What can never run is known before anything is made: a row with its reason, and an error where nothing is left."""

import pytest

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.location import Location
from scripts.measure import one_run
from scripts.plan import experiment
from scripts.plan.estimate import estimate
from scripts.plan.experiment import NO_GPU, Plan
from scripts.plan.results import Result
from scripts.plan.suited import never, request_of
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus


@pytest.fixture
def raw(tmp_path, monkeypatch) -> dict:
    """A small config on a machine without a GPU."""
    monkeypatch.setattr(experiment, "gpu_is_visible", lambda: False)
    return {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 8}, "images": {"source": "synthetic_images"}},
        "storage": {"disk": {"path": str(tmp_path / "tier")}},
        "loaders": ["npy", "numpy_memmap"],
        "sweep": {"device": ["cpu"], "workers": [0], "task": ["read"], "cache": ["warm"]},
        "measure": {"trainings": "all", "part": "none"},
    }


def lost(plan: Plan) -> list[tuple]:
    return [(row["loader"], row["tier"], row["settings"]) for row in plan.skipped]


@pytest.mark.parametrize(
    ("changes", "loaders", "settings"),
    [
        ({"sweep": {"task": ["read", "augment"]}}, ["npy"], {"task": "augment"}),
        ({"sweep": {"task": ["read", "infer_tensorrt"]}}, ["npy"], {"task": "infer_tensorrt"}),
        ({"sweep": {"cache": ["warm", "cold"]}}, ["resident"], {"cache": "cold"}),
        (
            {"sweep": {"task": ["read", "train"], "world": [1, 2]}},
            ["npy"],
            {"task": "train", "cache": "warm", "world": 2},
        ),
        ({}, [{"name": "dali_npy", "reader": ["cpu", "gpu"]}], {"device": "cpu", "reader": "gpu"}),
        (
            {"dataset": "images", "datasets": {"images": {"source": "synthetic_images", "encoding": "png"}}},
            [{"name": "image_files", "decoder": ["simplejpeg", "pillow"]}],
            {"device": "cpu", "decoder": "simplejpeg"},
        ),
    ],
)
def test_what_can_never_run_is_a_row_and_not_planned(raw, changes, loaders, settings):
    raw |= {**changes, "loaders": loaders, "sweep": {**raw["sweep"], **changes.get("sweep", {})}}
    plan = Plan(raw)
    assert [row[2] for row in lost(plan)] == [settings], "one row, whatever else is swept"
    assert estimate(plan).results == len(plan.results) > 0
    for result in plan.results:
        of_run = {**result.settings, "task": result.task, "cache": result.cache}
        assert {key: of_run.get(key) for key in settings} != settings


@pytest.mark.parametrize(
    ("sweep", "key", "right"),
    [
        ({"device": ["cuda"]}, "sweep.device: found cuda,", "sweep='{device: [cpu]}'"),
        ({"task": ["augment"], "device": ["cuda", "auto"]}, "sweep.task: found augment,", "sweep='{task: [read]}'"),
        ({"cache": ["warm"]}, "sweep.cache: found warm,", "Name another"),
        ({"task": ["train"], "world": [2]}, "sweep.world: found 2,", "sweep='{world: [1]}'"),
    ],
)
def test_where_nothing_is_left_it_is_said_at_once_with_what_to_type(raw, sweep, key, right):
    raw["sweep"] |= sweep
    if "cache" in sweep:  # reads from the page cache do not reach what is slowed down
        raw["storage"]["disk"]["emulate"] = "hdd_7200"
    with pytest.raises(UserError) as told:
        Plan(raw)
    assert str(told.value).startswith(f"config: {key}") and right in str(told.value)


def test_results_on_a_gpu_that_is_not_there_are_a_row(raw):
    raw["sweep"]["device"] = ["cpu", "cuda"]
    plan = Plan(raw)
    assert {result.settings["device"] for result in plan.results} == {"cpu"} and estimate(plan).results == 2
    assert lost(plan) == [("npy", None, {"device": "cuda"}), ("numpy_memmap", None, {"device": "cuda"})]
    assert {row["reason"] for row in plan.skipped} == {NO_GPU.reason}


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_cluster_whose_login_node_has_no_gpu_says_so(raw, device):
    raw["sweep"]["device"], raw["measure"] = [device], {"gpu": "present"}
    assert "cuda" in {result.settings["device"] for result in Plan(raw).results} and Plan(raw).skipped == []


def test_a_ladders_step_on_a_gpu_that_is_not_there_has_its_reason(raw):
    raw["sweep"] = {"device": ["cpu"], "task": []}
    raw["ladder"] = [
        {"change": "plain", "loader": "npy", "workers": 0},
        {"change": "on the GPU", "device": "cuda"},
        {"change": "other files", "loader": "numpy_memmap", "device": "cpu"},
    ]
    plan = Plan(raw)
    assert [step.reason for step in plan.ladder_steps] == ["", NO_GPU.reason, ""] and len(plan.results) == 2


def test_a_run_by_hand_gives_the_same_reason(tmp_path):
    corpus = make_corpus(tmp_path / "made", items=8)
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    module = plugins.load("loaders", "numpy_memmap")
    place = Location(uri=f"file://{tmp_path}/memmap", path=tmp_path / "memmap", held_in=tmp_path / "memmap")
    given = {"loader": "numpy_memmap", "task": "augment", "corpus": str(corpus.root), "location": place.as_json()}
    result = one_run.completed_result(module, Result(**given, settings={}))
    record = one_run.measure(module, result)
    found = never(module, request_of(module, result.settings, place, corpus.sample), "augment", "warm")
    assert (record["status"], record["reason"]) == ("skipped", found.reason)


def test_recordings_are_a_kind_of_their_own_and_opus_has_one_rate(raw):
    audio = {"items": "crops", "seconds": 0.5, "sample_rate": 44_100, "channels": 2}
    plan = Plan({**raw, "audio": audio, "loaders": ["crops_opus", "crops_flac", "npy"]})
    assert plan.kind == "crops" and plan.sample.shape == (2, 22_050)
    assert {result.loader for result in plan.results} == {"crops_flac"}
    assert [row["loader"] for row in plan.skipped] == ["crops_opus"] and "48,000 Hz" in plan.skipped[0]["reason"]
    assert any("npy" in notice for notice in plan.notices)


def test_clips_have_one_channel(raw):
    with pytest.raises(UserError, match=r"audio\.channels: found 2 with audio\.items: clips"):
        Plan({**raw, "audio": {"channels": 2}})
