"""Sessions beside earlier ones: which block is new, what is measured again, and beside what."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.common.counting import Visit
from scripts.measure import one_run, run_session
from scripts.measure.visits import NO_RECORD, TRIES, Visitor
from scripts.plan.experiment import Plan
from tests.measure.test_race import LOCAL, RUN, Played


@pytest.fixture
def plan(tmp_path) -> Plan:
    """A plan of two loaders on a disk."""
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic"}},
        "storage": {"disk": {"path": str(tmp_path / "disk")}},
        "loaders": ["numpy_memmap", "resident"],
        "sweep": {"device": ["cpu"], "task": ["read"]},
    }
    return Plan(raw, project=tmp_path)


def result(loader, task="read"):
    about = {"loader": loader, "tier": "disk", "slug": "", "task": task, "cache": "warm", "step_ms": 0, **LOCAL}
    return SimpleNamespace(**about, settings=RUN)


def session_of(runs, asked=()):
    session = SimpleNamespace(runs=runs, asked=set(asked), now=None, _expense=lambda _one, _rate: 0)
    session._finalists = lambda race: run_session.Session._finalists(session, race)
    return session


def test_a_block_is_of_one_session_whatever_its_loaders(tmp_path, monkeypatch):
    """Also of loaders and settings that the plan no longer has, and of a session whose visits were all made again."""
    monkeypatch.chdir(tmp_path)
    session = SimpleNamespace(plan=SimpleNamespace(folder=lambda stage: f"results/{stage}/demo"))
    assert run_session.Session._first_block(session) == 0
    for place in (
        "ram/gone/w0/4.json",
        "ram/gone/w0/proof.json",
        "ram/gone/w0/7.attempt-1.json",
        "tensors/b32/90.json",
    ):
        file = Path("results/runs/demo", place)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    assert run_session.Session._first_block(session) == 5
    control = Path("results/runs/demo/bounds/main/b32/61.json")  # the second of block 6
    control.parent.mkdir(parents=True)
    control.write_text("{}")
    assert run_session.Session._first_block(session) == 7


def test_what_was_measured_by_itself_is_measured_beside_others():
    runs = {name: result(name) for name in "abcd"} | {"t": result("t", "train")}
    known = {
        "a": {0: Visit(1.0), 1: Visit(1.0)},
        "b": {1: Visit(1.0)},
        "c": {5: Visit(1.0), 6: Visit(1.0)},
        "d": {6: Visit(1.0)},  # beside c, which nothing else was beside
        "t": {6: Visit(1.0)},  # alone in its condition
    }
    assert run_session.Session._apart(session_of(runs), known) in ({"c", "d"}, {"a", "b"})
    known["e"], runs["e"] = {0: Visit(1.0)}, result("e")
    assert run_session.Session._apart(session_of(runs), known) == {"c", "d"}
    assert run_session.Session._apart(session_of(runs, asked="cd"), known) == set()


def test_what_is_new_is_measured_beside_the_fastest_of_each_condition():
    runs = {"fast": result("fast"), "slow": result("slow")}
    runs |= {"trained": result("trained", "train"), "late": result("late", "train")}
    speeds = {"fast": 100.0, "slow": 50.0, "trained": 9.0, "late": 5.0}
    played = Played(speeds, blocks=6, condition=lambda one: run_session.condition(runs[one]))
    assert run_session.Session._companions(session_of(runs), played.race) == {"fast", "trained"}


def test_visits_of_other_storage_do_not_count(plan, tmp_path):
    run = replace(plan.runs[0], proof=str(tmp_path / "proof.json"))
    (tmp_path / "proof.npy").write_bytes(b"sums")
    proof = {"code": "c", "verification": {}, "declared": {"versions": {}}}

    def relies(**changes):
        return one_run.relied_on(proof, replace(run, **changes))

    assert relies() == json.loads(json.dumps(relies()))
    assert relies(location={**run.location, "path": "/mnt/hdd"}) != relies()
    assert relies(emulate="hdd_7200") != relies()
    assert relies(limited_share=0.25) == relies(), "the cache is not limited"
    assert relies(cache="limited", limited_share=0.25) != relies(cache="limited", limited_share=0.5)


def test_trials_are_made_again_where_they_failed_or_another_step_is_asked_for():
    step = {"step_ms": 20, "au_percent": 80.0}
    assert run_session._answers({"status": "ok", "asked_step": step}, 20)
    assert run_session._answers({"status": "ok", "asked_step": None}, 20), "what is no task for steps"
    assert not run_session._answers({"status": "ok", "asked_step": step}, 10)
    assert not run_session._answers({"status": "failed", "asked_step": None}, 20)


@pytest.mark.parametrize(("lost", "made"), [(0, 1), (1, 2), (TRIES, TRIES)])
def test_a_visit_that_leaves_no_record_is_tried_again(monkeypatch, lost, made):
    records = [{"status": "failed", "reason": f"{NO_RECORD} (status -9)"}] * lost + [{"status": "ok", "reason": None}]
    asked = []

    def forked(_visitor, run, _out):
        asked.append(run)
        return records[len(asked) - 1]

    monkeypatch.setattr(Visitor, "forked", forked)
    monkeypatch.setattr("scripts.measure.visits.forkable", lambda _run: True)
    assert Visitor(None, None).make("run", None) is records[made - 1] and len(asked) == made
