"""Sessions beside earlier ones: which block is new, what is measured again, and beside what."""

import json
import random
import subprocess
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.common.counting import Visit
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.vocabulary import PROTOCOL
from scripts.machine import page_cache
from scripts.measure import one_run, run_session
from scripts.measure.visits import NO_RECORD, TRIES, Server, Visitor
from scripts.plan.experiment import Plan
from tests.measure.test_race import LOCAL, RUN, Played
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


def result(loader, task="read"):
    about = {"loader": loader, "tier": "disk", "slug": "", "task": task, "cache": "warm", "step_ms": 0, **LOCAL}
    return SimpleNamespace(**about, settings=RUN)


RUNNING = SimpleNamespace(cache="warm", location={"uri": "file:///nowhere"})


def session_of(runs, asked=()):
    session = SimpleNamespace(runs=runs, asked=set(asked), now=None)
    session._starves, session._expense = lambda _one, _rate: False, lambda _one: 0
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
    assert run_session.Session._companions(session_of(runs), played.race, runs) == {"fast", "trained"}
    assert run_session.Session._companions(session_of(runs), played.race, ["slow"]) == {"fast"}, "of its condition"


def test_what_was_measured_by_itself_is_not_its_own_companion(tmp_path):
    """However fast it is: it comes beside the fastest of the others."""
    known = {"alone": {7: Visit(9.0)}, "fast": {0: Visit(2.0)}, "slow": {0: Visit(1.0)}}
    measure = dict.fromkeys(run_session.LENGTHEN, 5)
    (tmp_path / "state.json").write_text(json.dumps({"asked": measure, "race_seconds": 1.0, "ended": "time"}))
    taken = []

    class Race(SimpleNamespace):
        def run(self):
            taken.append(self.taking)

    def race(_visitor, _say, made, taking=None, _spent=0.0):
        return Race(made=made, taking=taking, ended="", block=0, visits=0, made_again=0, conditions={}, live=[])

    session = SimpleNamespace(known=lambda: known, measure=measure, state=tmp_path / "state.json", name="main")
    session = SimpleNamespace(**vars(session), runs=known, again=set(), _apart=lambda _known: {"alone"}, _race=race)
    session.failed, session.asked, session._first_block = set(), set(), lambda: 8
    session.whole, session._before = session.state, partial(run_session.Session._before, session)
    session._companions = lambda race, _new: {max(race.made, key=lambda one: race.made[one][0].speed)}
    session._explained = lambda _visitor, _race: []
    run_session.Session.run(session, None, None)
    assert taken == [{"alone", "fast"}]


def test_what_was_measured_first_and_alone_is_measured_again_beside_all():
    """`snakemake results/NAME.json`, then everything: where visits are counted it has had all, in blocks of its own."""
    known, raced = {"first": {0: Visit(9.0)}}, []

    class Race(SimpleNamespace):
        def run(self):
            raced.append((self.taking, self.fresh, self.since))

    def race(_visitor, _say, made, taking=None, _spent=0.0):
        return Race(made=made, taking=taking, ended="", block=0, visits=0, made_again=0, conditions={}, live=[])

    told = {"measure": dict.fromkeys(run_session.LENGTHEN, 5), "name": "main", "again": set(), "failed": {"wrong"}}
    told |= {"runs": dict.fromkeys(["first", "later", "wrong"]), "_before": lambda _asked: None, "_race": race}
    session = SimpleNamespace(**told, known=lambda: known, _apart=lambda _known: set(), _first_block=lambda: 8)
    session._companions, session._explained = lambda race, _new: set(race.made), lambda _visitor, _race: []
    run_session.Session.run(session, None, None)
    assert raced == [({"first", "later", "wrong"}, {"first", "later"}, 8)]


@pytest.mark.parametrize(
    ("own", "whole", "found"),
    [
        (None, None, None),
        (None, "", None),  # a whole session that was killed is for that to go on with
        (None, "time", "whole"),
        ("", None, "own"),
        ("", "time", "own"),  # it was killed
        ("time", "", "own"),
        ("time", "blocks", "whole"),
        ("longer", "blocks", "own"),  # it was as long as is asked for
    ],
)
def test_a_session_of_some_loaders_leaves_the_whole_one_to_be_gone_on_with(tmp_path, monkeypatch, own, whole, found):
    monkeypatch.setattr(run_session.Session, "_proven", staticmethod(lambda _run: True))
    config = tmp_path / "session-main.json"
    demo = {"dataset": "demo", "datasets": {"demo": {"source": "synthetic"}}, "storage": {"ram": {"path": "/dev/shm"}}}
    plan = Plan({**demo, "loaders": ["npy", "numpy_memmap"]}, project=tmp_path)
    every, one = (run_session.Session(plan, "main", loaders, config) for loaders in ([], ["npy"]))
    assert every.state == every.whole == one.whole and one.state != one.whole
    for file, name, ended in ((one.state, "own", own), (one.whole, "whole", whole)):
        if ended is not None:
            asked = {"minutes": 30 if ended == "longer" else 5}
            file.write_text(json.dumps({"name": name, "ended": ended, "asked": asked, "race_seconds": 60.0}))
    before = one._before({"minutes": 30})
    assert (before and before["name"]) == found
    if found == "whole":
        assert before["race_seconds"] == 60.0 * len(one.runs) / len(every.runs) < 60.0, "its share of the time"
    assert (every._before({"minutes": 30}) or {}).get("ended") == whole


def test_a_killed_session_goes_on_with_the_time_that_it_had_left(tmp_path):
    """Also one of what is new alone, which is not raced again beside all, nor counted as a race of all."""
    measure = dict.fromkeys(run_session.LENGTHEN, 5)
    visits = {name: {0: Visit(1.0)} for name in "abc"}
    state, taken = tmp_path / "state.json", []

    class Race(SimpleNamespace):
        def run(self):
            taken.append((sorted(self.taking), self.spent))
            self.say(self)
            if self.killed:
                raise KeyboardInterrupt

    def session(known, killed=False):
        def race(_visitor, say, made, taking=None, spent=0.0):
            told = {"ended": "time", "block": 0, "visits": 0, "made_again": 0, "conditions": {}, "live": []}
            return Race(say=say, made=made, taking=taking, spent=spent, seconds=7.0, killed=killed, **told)

        told = {"measure": measure, "state": state, "name": "main", "again": set(), "runs": dict.fromkeys("abc")}
        made = SimpleNamespace(**told, known=lambda: known, _apart=lambda _known: set(), _race=race, whole=state)
        made._before = partial(run_session.Session._before, made)
        made.failed, made.asked, made._first_block = set(), set(), lambda: 8
        made._companions, made._explained = lambda _race, _new: {"a"}, lambda _visitor, _race: []
        return made

    def run(known, killed=False):
        if killed:
            with pytest.raises(KeyboardInterrupt):
                run_session.Session.run(session(known, killed), None, lambda _race: None)
        else:
            found = run_session.Session.run(session(known), None, lambda _race: None)
            state.write_text(json.dumps(found))  # as main does
        return json.loads(state.read_text())

    two = {name: visits[name] for name in "ab"}
    assert run({}, killed=True)["race_seconds"] == 7
    assert run(visits, killed=True)["race_seconds"] == 14
    assert 14 <= run(visits)["race_seconds"] < 15
    assert run(two, killed=True)["spent"] == 7
    assert 14 <= run(visits)["race_seconds"] < 15, "of a race of all"
    measure["minutes"] = 9
    run(visits)
    first, everything, alone = taken[0], ["a", "b", "c"], ["a", "c"]
    assert first == (everything, 0.0)
    assert [names for names, _ in taken[1:]] == [everything, everything, alone, alone, everything]
    assert [round(spent) for _, spent in taken[1:]] == [7, 14, 0, 7, 14]


def test_what_has_failed_has_no_visits_and_is_not_visited_again(plan, tmp_path):
    """In a later session too: its good visits are not what others are compared with."""
    run = replace(plan.runs[0], proof=str(tmp_path / "proof.json"), path=str(tmp_path / "run.json"))
    (tmp_path / "proof.npy").write_bytes(b"sums")
    proof = {"code": "c", "verification": {}, "declared": {"versions": {}}, "started": "2026-01-01T00:00:00Z"}
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    good = {"protocol": PROTOCOL, "proof": one_run.relied_on(proof, run), "status": "ok", "clips_per_second": 9.0}
    good |= {"before": None, "after": None, "warnings": [], "resources": None, "started": "2026-01-01T00:01:00Z"}
    good |= {"epoch_start_seconds": 0.25}
    session = run_session.Session(plan, "main", [], tmp_path / "session.json")
    session.runs = {run.path: run}
    for block, start_from in enumerate(("window", "proof")):
        (tmp_path / f"{block}.json").write_text(json.dumps(good | {"epoch_start_from": start_from}))
    assert set(session.known()[run.path]) == {0, 1} and not session.failed
    assert session.starts == {run.path: {0: 0.25}}
    (tmp_path / "2.json").write_text(json.dumps(good | {"status": "failed", "clips_per_second": None}))
    assert session.known() == {} and session.failed == {run.path}
    played = Played({"bad": 9.0, "good": 5.0}, blocks=2, failed={"bad"})
    assert played.leaders == {"good"} and {one for one, _, _ in played.visited} == {"good"}
    session.failed.clear()
    (tmp_path / "proof.json").write_text(json.dumps(proof | {"started": "2026-01-01T00:02:00Z"}))
    assert set(session.known()[run.path]) == {0, 1} and not session.failed and session.again == {run.path}
    assert not (tmp_path / "2.json").exists(), "it was proven again since"


def test_what_an_epoch_start_took_is_told_to_the_visits_of_other_blocks(plan, tmp_path):
    """Three are measured where windows see them; a visit that is made again sees its own anew."""
    told = []
    seen = iter([("window", 0.3), ("window", 0.5), ("visits", 0.5), ("window", 0.1), ("window", 0.2), ("window", 9.0)])

    def make(run, _file):
        told.append((run.start_seconds, run.start_within))
        start_from, seconds = next(seen)
        found = {"epoch_start_from": start_from, "epoch_start_seconds": seconds}
        return {"clips_per_second": 1.0, "resources": None, **found}

    session = run_session.Session(plan, "main", [], tmp_path / "session.json")
    session.runs = {run.path: run for run in plan.runs}
    first, other, *_ = (run.path for run in plan.runs)
    for block, attempt in ((0, 0), (0, 1), (1, 0), (2, 0), (3, 0)):
        session._visit(SimpleNamespace(make=make), first, block, attempt)
    assert told == [(None, 10.0), (None, 10.0), (0.5, 3.0), (0.5, 3.0), (pytest.approx(0.3), 3.0)]
    assert session._start(first, 4) == {"start_seconds": 0.2, "start_within": 0.0}
    assert session._start(other, 4) == {"start_seconds": None, "start_within": 10.0}


def test_visits_of_other_storage_do_not_count(plan, tmp_path):
    run = replace(plan.runs[0], proof=str(tmp_path / "proof.json"), written=str(tmp_path / "memmap"))
    (tmp_path / "proof.npy").write_bytes(b"sums")
    proof = {"code": "c", "verification": {}, "declared": {"versions": {}}, "started": "then"}

    def relies(**changes):
        return one_run.relied_on(proof, replace(run, **changes))

    assert relies() == json.loads(json.dumps(relies()))
    assert relies(location={**run.location, "path": "/mnt/hdd"}) != relies()
    assert relies(emulate="hdd_7200") != relies()
    assert relies(limited_share=0.25) == relies(), "the cache is not limited"
    assert relies(cache="limited", limited_share=0.25) != relies(cache="limited", limited_share=0.5)
    written = [relies()]  # nothing is known of its files
    for files, seconds in ((2, 1.0), (2, 9.0), (8, 1.0)):
        (tmp_path / "memmap.json").write_text(json.dumps({"files": files, "seconds": seconds}))
        written.append(relies())
    assert written[0] != written[1] == written[2] != written[3], "it was written as more files"
    assert relies(format="npy") != relies(format="memmap"), "other code writes it"
    known, own = relies(), relies(file="mine.py")
    proof["started"] = "now"
    assert relies() == known, "a proof that is made again of the same is the same"
    assert relies(file="mine.py") != own, "what it imports may be another one"


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


@pytest.mark.parametrize("rate, tried", [(100.0, False), (700.0, False), (800.0, True), (5000.0, True)])
def test_the_users_step_is_not_tried_with_what_is_far_too_slow_for_it(plan, tmp_path, rate, tried):
    """A batch of 32 at 720 items/s takes 44 ms: AU is 45 % at most."""
    session = run_session.Session(plan, "main", [], tmp_path / "session-main.json")
    run = plan.runs[0]
    session.runs = {run.path: replace(run, settings={**run.settings, "batch_size": 32, "workers": 2, "prefetch": 2})}
    plan.config["report"]["step_ms"] = 20
    asked = session._trials(run.path, tmp_path / "trials.json", False, rate)
    assert asked.asked_step_ms == (20 if tried else 0.0)


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
