"""Sessions beside earlier ones: which block is new, what is measured again, and beside what."""

import random
import subprocess
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.machine import page_cache
from scripts.measure import run_session
from scripts.measure.visits import NO_RECORD, TRIES, Server, Visitor
from scripts.plan.experiment import Plan
from tests.support.workflow_copy import folders


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


RUNNING = SimpleNamespace(cache="warm", location={"uri": "file:///nowhere"})


def test_a_warm_visit_finds_its_files_in_the_cache_after_a_limited_one(plan, monkeypatch):
    with folders() as (disk, _):
        (disk / "train").mkdir()
        (disk / "train" / "data.bin").write_bytes(bytes(8_000_000))
        shares = []

        def made(_visitor, run, _out):
            shares.append(page_cache.residency(page_cache.files_of(disk)).share)
            if run.cache == "limited":
                page_cache.evict(page_cache.files_of(disk))
            return {"reason": None}

        monkeypatch.setattr(Visitor, "forked", made)
        monkeypatch.setattr(Visitor, "interpreted", made)
        visitor = Visitor(plan.sample, None)
        at = {"uri": f"file://{disk}", "path": str(disk), "held_in": str(disk)}
        for cache in ("warm", "limited", "limited", "warm", "warm"):
            visitor.make(replace(plan.runs[0], location=at, cache=cache), disk / "0.json")
    assert shares[0] == 1 and shares[2] == 0 and shares[3:] == [1, 1]


@pytest.mark.parametrize(("found", "reason"), [
    (TimeoutError(), "no end after 10 minutes"), ("the process crashed (SIGSEGV)", "the process crashed (SIGSEGV)"),
    (None, "the control run left no record; the session's log says what it said"),
])  # fmt: skip
def test_a_control_run_that_breaks_leaves_its_reason(plan, tmp_path, monkeypatch, found, reason):
    def make(_job, _seconds, _watch):
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(Visitor, "_server", lambda _visitor, _bound: SimpleNamespace(make=make))
    Visitor(plan.sample, random.Random(0)).control(plan.bounds[0], tmp_path / "0.json")
    record = read_json(tmp_path / "0.json")
    assert (record["status"], record["reason"], record["clips_per_second"]) == ("failed", reason, None)


def test_the_fork_server_may_say_two_lines_at_once():
    said = subprocess.Popen(["printf", '{"pid": 5}\\n{"status": 0}\\n{"pi'], stdout=subprocess.PIPE, text=True)
    server = SimpleNamespace(process=said, heard=b"")
    soon = time.monotonic() + 60
    assert [Server._hear(server, soon), Server._hear(server, soon)] == [{"pid": 5}, {"status": 0}]
    with pytest.raises(UserError, match="the fork server ended with status 0"):
        Server._hear(server, soon)
    said.stdout.close()


def test_trials_are_made_again_where_they_failed_or_do_not_say_all_that_is_asked_for(plan):
    step = {"step_ms": 20, "au_percent": 80.0}
    run = replace(plan.runs[0], bottlenecks=False, timeline=False, step_limit_ms=0.0, asked_step_ms=20)
    trials = {"status": "ok", "asked_step": step, "minimum_step": None, "bottleneck_trials": None, "spans": None}
    trials |= {"warnings": []}
    assert run_session._answers(trials, run)
    assert not run_session._answers(trials | {"asked_step": None}, run), "its rate said enough, of another step"
    assert run_session._answers(trials | {"asked_step": None}, replace(run, asked_step_ms=0.0))
    broke = {"asked_step": None, "warnings": [{"code": "no-steps"}]}
    assert run_session._answers(trials | broke, run), "it breaks with steps"
    assert not run_session._answers(trials, replace(run, asked_step_ms=10))
    assert not run_session._answers(trials | {"status": "failed"}, run)
    for more, said, broke in (
        ({"bottlenecks": True}, {"bottleneck_trials": {"full": 1.0}}, "no-bottleneck-trials"),
        ({"timeline": True}, {"spans": []}, "no-timeline"),
        ({"step_limit_ms": 200.0}, {"minimum_step": {"limit_ms": 200.0}}, "no-steps"),
    ):
        asked = replace(run, **more)
        assert not run_session._answers(trials, asked)
        assert run_session._answers(trials | said, asked)
        assert run_session._answers(trials | {"warnings": [{"code": broke}]}, asked), "it cannot be said"
    assert not run_session._answers(trials | {"minimum_step": {"limit_ms": 100.0}}, asked)


@pytest.mark.parametrize(("lost", "made"), [(0, 1), (1, 2), (TRIES, TRIES)])
def test_a_visit_that_leaves_no_record_is_tried_again(monkeypatch, lost, made):
    records = [{"status": "failed", "reason": f"{NO_RECORD} (status -9)"}] * lost + [{"status": "ok", "reason": None}]
    asked = []

    def forked(_visitor, run, _out):
        asked.append(run)
        return records[len(asked) - 1]

    monkeypatch.setattr(Visitor, "forked", forked)
    monkeypatch.setattr("scripts.measure.visits.forkable", lambda _run: True)
    assert Visitor(None, None).make(RUNNING, None) is records[made - 1] and len(asked) == made
