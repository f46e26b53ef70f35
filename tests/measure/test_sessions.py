"""Sessions beside earlier ones: which round is new, what is measured again, and beside what."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.common.corpus import Corpus
from scripts.common.files import write_json
from scripts.common.vocabulary import NOT_WARM
from scripts.machine import devices, page_cache
from scripts.machine.folders import location_of
from scripts.measure import launch, one_run, run_session
from scripts.measure.launch import Cause
from scripts.measure.runner import TRIES, Runner
from scripts.plan.experiment import Plan
from scripts.plan.results import Bound, Result
from scripts.tables.records import checked_record
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.made_runs import step_trials
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


def test_a_warm_run_finds_its_files_in_the_cache_after_a_limited_one(plan, monkeypatch):
    with folders() as (disk, _):
        (disk / "train").mkdir()
        (disk / "train" / "data.bin").write_bytes(bytes(8_000_000))
        shares = []

        def made(_runner, result, _fork):
            shares.append(page_cache.residency(page_cache.files_of(disk)).share)
            if result.cache == "limited":
                page_cache.evict(page_cache.files_of(disk))
            return {"reason_code": None}

        monkeypatch.setattr(Runner, "_no_room", lambda _runner, _run: None)
        monkeypatch.setattr(Runner, "made", made)
        runner = Runner(plan.sample, None)
        at = {"uri": f"file://{disk}", "path": str(disk), "held_in": str(disk)}
        for cache in ("warm", "limited", "limited", "warm", "warm"):
            runner.make(replace(plan.results[0], location=at, cache=cache))
    assert shares[0] == 1 and shares[2] == 0 and shares[3:] == [1, 1]


@pytest.mark.parametrize(
    ("evicted", "room", "tries", "says"),
    [
        (1, 10**12, 2, None),  # others had put the files out of the cache once
        (99, 10**12, TRIES, "0 % of them stayed in the page cache. Other programs"),
        (99, 10**6, 1, "0.01 GB, and memory has room for 0.00 GB beside what processes use and"),
        (0, 10**12, 1, "its files are in the page cache, so that it reads past that, or other files"),
    ],
)
def test_a_run_that_was_not_warm_is_tried_again_where_there_is_room(plan, monkeypatch, evicted, room, tries, says):
    """It says the cause that was seen; more memory is no advice where there is room."""
    with folders() as (disk, _):
        (disk / "train").mkdir()
        (disk / "train" / "data.bin").write_bytes(bytes(8_000_000))
        files, shares = page_cache.files_of(disk), []

        def made(_runner, _result, _fork):
            shares.append(page_cache.residency(files).share)
            warm = evicted and len(shares) > evicted
            if not warm and evicted:
                page_cache.evict(files)
            code = None if warm else NOT_WARM
            return {"reason_code": code, "reason": code and "not warm: 8 MB were read from a device for 8 MB of files"}

        monkeypatch.setattr(Runner, "_no_room", lambda _runner, _run: None)
        monkeypatch.setattr(Runner, "made", made)
        monkeypatch.setattr(devices, "available_ram", lambda: room)
        at = {"uri": f"file://{disk}", "path": str(disk), "held_in": str(disk)}
        record = Runner(plan.sample, None).make(replace(plan.results[0], location=at, cache="warm"))
    assert shares == [1] * tries, "the files are read into the cache before another try"
    assert (record["reason_code"] is None) == (says is None)
    assert says is None or (says in record["reason"] and "more memory" not in record["reason"])


@pytest.mark.parametrize("ended", [
    launch.Ended(None, Cause.NO_END, "no end"), launch.Ended(-11, Cause.CRASHED, "it crashed"),
    launch.Ended(3, Cause.LOST, "status 3"), launch.Ended(None, Cause.NO_SERVER, "gone"),
])  # fmt: skip
def test_a_control_run_that_breaks_leaves_its_reason(plan, tmp_path, monkeypatch, ended):
    corpus = make_corpus(tmp_path / "corpus", items=8, seconds=0.1)
    monkeypatch.setattr(launch, "run", lambda *_: ended)
    bound = replace(plan.bounds[0], corpus=str(corpus.root))
    record = Runner(corpus.sample, random.Random(0)).control(bound)
    assert (record["status"], record["reason_code"], record["items_per_second"]) == ("failed", ended.cause, None)
    assert ended.reason in record["reason"]


def test_trials_are_made_again_where_they_failed_or_do_not_say_all_that_is_asked_for(plan):
    result = replace(plan.results[0], bottlenecks=False, timeline=False)
    trials = {"status": "ok", "steps": None, "bottleneck_trials": None, "spans": None, "warnings": []}
    assert run_session._answers(trials, result) and not run_session._answers(trials | {"status": "failed"}, result)
    for more, said, broke in (
        ({"bottlenecks": True}, {"bottleneck_trials": {"full": 1.0}}, "no-bottleneck-trials"),
        ({"timeline": True}, {"spans": []}, "no-timeline"),
        ({"batch_ms": 10.0, "asked_step_ms": 20.0}, {"steps": step_trials(10.0, 1.0)}, "no-steps"),
    ):
        asked = replace(result, **more)
        assert not run_session._answers(trials, asked)
        assert run_session._answers(trials | said, asked)
        assert run_session._answers(trials | {"warnings": [{"code": broke}]}, asked), "it cannot be said"
    tried = trials | said
    assert run_session._answers(tried, replace(asked, batch_ms=11.0, asked_step_ms=0.0)), "about as long"
    for changed in ({"batch_ms": 13.0}, {"asked_step_ms": 10.0}, {"host_share": 0.5}):
        assert not run_session._answers(tried, replace(asked, **changed))


@pytest.fixture
def small(plan, tmp_path) -> Result:
    """The proof of a memory map of few items."""
    corpus = make_corpus(tmp_path / "corpus", items=40, seconds=0.1)
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    result = next(result for result in plan.results if result.loader == "numpy_memmap")
    path = str(tmp_path / "proof.json")
    location = location_of(tmp_path / "memmap").as_json()
    return replace(result, corpus=str(corpus.root), location=location, mode="proof", proof=None, path=path)


@pytest.mark.parametrize("cause", [Cause.LOST, Cause.NO_SERVER])
@pytest.mark.parametrize(("lost", "tries"), [(0, 1), (1, 2), (TRIES, TRIES)])
def test_a_run_that_leaves_no_record_is_tried_again(monkeypatch, small, cause, lost, tries):
    asked = []

    def made(result, _server, heap_seed):
        asked.append(heap_seed)
        if len(asked) <= lost:
            return None, launch.Ended(3, cause, "so")
        return one_run.new_record(one_run.loader_of(result), result), launch.Ended(0)

    monkeypatch.setattr("scripts.measure.runner.made", made)
    record = Runner(Corpus(Path(small.corpus)).sample, random.Random(0)).make(small)
    assert len(set(asked)) == tries
    assert (record["status"], record["reason_code"]) == (("failed", cause) if lost == TRIES else ("ok", None))


def test_trials_with_steps_leave_a_record_of_each_length(small):
    with Runner(Corpus(Path(small.corpus)).sample, random.Random(0)) as runner:
        write_json(Path(small.path), runner.make(small))
        asked = {"batch_ms": 5.0, "asked_step_ms": 8.0, "host_share": 0.5}
        record = runner.make(replace(small, mode="trials", proof=small.path, **asked))
    checked_record(record, Path(small.path))
    steps = record["steps"]
    assert [steps[name]["step_ms"] for name in ("plain", "knee", "long", "check")] == [0.0, 5.0, 20.0, 8.0]
    assert all(steps[name]["period_ms"] >= 0.99 * steps[name]["step_ms"] for name in ("knee", "long", "check"))
    assert steps["host_share"] == 0.5 and record["warnings"] == []


def test_a_batch_that_is_larger_than_the_split_is_a_batch_of_all(small):
    """What the in-memory ceiling streams is no larger than what a loader can deliver."""
    corpus = Corpus(Path(small.corpus))
    result = replace(small, settings={**small.settings, "batch_size": 10**9})
    with Runner(corpus.sample, random.Random(0)) as runner:
        for asked in (result, replace(result, mode="run", proof=result.path, seconds=0.05)):
            record = runner.make(asked)
            assert (record["status"], record["reason"]) == ("ok", None)
            write_json(Path(result.path), record)
        [items] = {items for _, items in runner.servers}
        bound = Bound(corpus=small.corpus, settings={"device": "cpu", "batch_size": 10**9}, seconds=0.05)
        assert items == corpus.counts["train"] and runner.control(bound)["items_per_second"] > 0


def test_a_batch_that_does_not_fit_is_a_row_with_its_reason_and_the_rest_goes_on(small, monkeypatch):
    free = devices.available_ram()
    with Runner(Corpus(Path(small.corpus)).sample, random.Random(0)) as runner:
        monkeypatch.setattr(devices, "available_ram", lambda: 1000)
        record = runner.make(small)
        checked_record(record, Path(small.path))
        assert (record["status"], record["reason_code"], record["items_per_second"]) == ("failed", "no-room", None)
        bound = Bound(corpus=small.corpus, settings={"device": "cpu", "batch_size": 8})
        assert not runner.servers and runner.control(bound)["reason_code"] == "no-room"
        monkeypatch.setattr(devices, "available_ram", lambda: free)
        assert runner.make(small)["status"] == "ok"
