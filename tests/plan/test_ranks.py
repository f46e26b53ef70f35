"""What the plan makes of sweep.world: results of several processes, what cannot be shared, and more than the cores."""

import pytest

from scripts.common.errors import UserError
from scripts.plan import experiment
from scripts.plan.experiment import Plan


@pytest.fixture
def raw(tmp_path) -> dict:
    """A small config of two loaders on a disk."""
    return {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 24}},
        "storage": {"disk": {"path": str(tmp_path / "tier")}},
        "loaders": ["numpy_memmap", "webdataset"],
        "sweep": {"workers": [2], "task": ["read", "train", "ddp"], "cache": ["warm", "cold"], "device": ["cpu"]},
    }


def test_one_process_is_what_it_was(raw):
    """Neither paths nor settings say that there is such a choice: what was measured stays."""
    plain = [result for result in Plan(raw).results if result.task == "read" and result.cache == "warm"]
    assert all("world" not in result.settings and "world" not in result.id and result.mode == "run" for result in plain)
    raw["sweep"]["world"] = [1]
    assert [vars(result) for result in Plan(raw).results if result in plain] == [vars(result) for result in plain]


def test_ranks_have_results_and_proofs_of_their_own(raw, monkeypatch):
    monkeypatch.setattr(experiment, "cores_allowed", lambda: 4)
    one = {result.id for result in Plan(raw).results}
    raw["sweep"]["world"] = [1, 2]
    plan = Plan(raw)
    more = [result for result in plan.results if result.id not in one]
    assert {(result.task, result.cache, result.settings["world"], result.mode) for result in more} == {
        ("read", "warm", 2, "epochs"),
        ("ddp", "warm", 2, "epochs"),
    }
    assert all("world_2" in result.proof and plan.proofs[result.proof].settings == result.settings for result in more)
    assert plan.notices == [], "2 ranks with 2 workers each have 4 cores"
    reasons = {(one["settings"]["task"], one["settings"]["cache"]): one["reason"] for one in plan.skipped}
    assert reasons == {
        ("train", "warm"): "2 ranks: train trains in one process; their training is sweep.task: [ddp]",
        ("read", "cold"): "2 ranks: they are measured from a warm cache, not from a cold one",
    }


def test_each_worker_of_each_rank_has_a_shard(raw):
    assert Plan(raw).readers("webdataset") == 2
    raw["loaders"][1] = {"name": "webdataset", "world": [3], "workers": [0, 4]}
    assert Plan(raw).readers("webdataset") == 12


@pytest.mark.parametrize(("world", "workers", "cores"), [(8, 8, 16), (3, 0, 2)])
def test_more_workers_than_cores_are_said_before_anything_runs(raw, monkeypatch, world, workers, cores):
    monkeypatch.setattr(experiment, "cores_allowed", lambda: cores)
    raw["sweep"] |= {"world": [1, world], "workers": [0, workers] if workers else [0]}
    [notice] = Plan(raw).notices
    assert notice.startswith(f"sweep.world: {world} ranks with {workers} workers each share {cores} cores. ")


def test_what_is_no_number_of_ranks_is_refused(raw):
    raw["sweep"]["world"] = [0]
    with pytest.raises(UserError, match=r"sweep.world\[0\]: found 0, allowed is an integer >= 1 and <= 64"):
        Plan(raw)
