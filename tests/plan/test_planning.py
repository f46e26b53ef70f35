"""The plan of a call: built and written by the call that the user types, read by its jobs, and what is made for it."""

import json

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.plan import planning
from scripts.plan.experiment import Plan, by_itself
from scripts.plan.planning import asked_for
from tests.support.made_runs import measured

LOADERS = ["numpy_memmap", "resident", "torchaudio"]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A config of three loaders, in an empty project in which the test works."""
    monkeypatch.chdir(tmp_path)
    return {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 24}},
        "storage": {"disk": {"path": "results/disk"}},
        "loaders": LOADERS,
        "sweep": {"device": ["cpu"], "task": ["read"], "workers": [0]},
        "report": {"now": "torchaudio"},
    }


def typed(config, **overrides):
    return planning.planning({**config, **overrides}, overrides, typed=True)


@pytest.mark.parametrize(
    ("targets", "loaders"),
    [
        ([], []),
        (["all"], []),
        (["results/ring.json"], ["ring"]),
        (["./results/ring.json", "results/npy.json"], ["npy", "ring"]),
        (["results/ring.json", "report/index.html"], []),
        (["results/runs/demo/plan.json"], []),
    ],
)
def test_loaders_are_asked_for_by_name_where_nothing_else_is(targets, loaders):
    assert asked_for(targets) == loaders


def test_the_plan_is_written_when_a_call_begins_and_only_where_it_differs(config):
    plan = typed(config)
    assert not plan.path.exists(), "not by a dry run"
    plan.begin([])
    before, call = plan.path.stat().st_mtime_ns, plan.call_path.read_text()
    typed(config).begin([])
    assert plan.path.stat().st_mtime_ns == before and plan.call_path.read_text() != call
    typed(config, report={"now": "torchaudio", "step_ms": 7}).begin([])
    assert read_json(plan.path)["config"]["report"]["step_ms"] == 7


def test_a_job_reads_what_the_call_has_written_and_builds_nothing(config, monkeypatch):
    plan = typed(config)
    plan.need("npy")
    plan.begin(["results/npy.json"])
    monkeypatch.setattr(planning, "Plan", None)
    read = planning.planning(config, {}, typed=False)
    assert json.loads(json.dumps(read.content)) == json.loads(json.dumps(plan.content))
    assert {result.loader for result in read.results.values()} == {*LOADERS, "npy"}
    assert read.session_digest("main") == plan.session_digest("main") and read.words([]) == []


def test_the_device_is_resolved_where_the_plan_is_built(config, monkeypatch):
    """`auto` on a machine without a GPU; the node that measures has one."""
    config["sweep"]["device"] = ["auto"]
    monkeypatch.setattr(Plan, "has_gpu", False)
    plan = typed(config)
    plan.begin([])
    monkeypatch.setattr(Plan, "has_gpu", True)
    read = planning.planning(config, {}, typed=False)
    assert {result.settings["device"] for result in read.results.values()} == {"cpu"}


def test_a_loader_that_nobody_knows_is_told_with_the_nearest(config):
    with pytest.raises(UserError, match="Did you mean 'numpy_memmap'"):
        typed(config).need("numpy_memap")


def test_a_loader_by_itself_has_a_session_of_its_own_until_there_is_one_of_all(config):
    plan = typed(config)
    one = ["results/resident.json"]
    assert plan.sessions_of("resident", []) == plan.sessions_of("resident", ["all"]) == ["main"]
    assert plan.sessions_of("resident", one) == [by_itself("resident")]
    assert {plan.results[one].loader for one in plan.sessions[by_itself("resident")]} == {"resident", "torchaudio"}
    session = measured(plan.plan, plan.plan.results)
    assert typed(config).sessions_of("resident", one) == [by_itself("resident")], "it has not ended"
    session.say(ended="time")
    assert typed(config).sessions_of("resident", one) == []
    longer = {**config, "measure": {"seconds": 3}}
    assert typed(longer).sessions_of("resident", one) == [by_itself("resident")], "it was measured otherwise"


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({"report": {"now": "resident", "step_ms": 3}}, False),
        ({"measure": {"seconds": 3}}, True),
        ({"measure": {"minutes": 50}}, True),
        ({"storage": {"disk": {"path": "elsewhere"}}}, True),
        ({"sweep": {"device": ["cpu"], "task": ["read"], "workers": [2]}}, True),
    ],
)
def test_what_makes_a_session_again(config, change, again):
    assert (typed(config, **change).session_digest("main") != typed(config).session_digest("main")) == again
    assert typed(config, **change).content_digest() != typed(config).content_digest()


def test_another_call_at_work_and_too_little_room_are_refused(config, monkeypatch):
    plan = typed(config)
    with monkeypatch.context() as patch:
        patch.setattr(planning, "at_work", lambda: "found another call")
        with pytest.raises(UserError, match="found another call"):
            plan.begin([])
    monkeypatch.setattr(planning.room, "free_bytes", lambda _path: 0)
    with pytest.raises(UserError, match="too little room"):
        plan.begin([])
    assert not plan.path.exists()


def test_what_an_earlier_call_left_in_ram_goes_when_one_begins(config, monkeypatch):
    monkeypatch.setattr(planning, "remove_from_ram", lambda _plan: ["/dev/shm/left"])
    assert typed(config).begin([])[0].endswith("/dev/shm/left")
