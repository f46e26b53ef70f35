"""Sessions keep what they measured: which one goes on, what begins a new one, and that no record is lost or changed."""

import contextlib
import itertools
from pathlib import Path

import pytest

from scripts.common import facts
from scripts.common.files import read_json, write_json
from scripts.measure import run_session
from scripts.measure.run_session import Session
from scripts.plan.estimate import estimate
from scripts.plan.experiment import Plan, by_itself
from scripts.plan.planned import Planned
from scripts.report.kept import DIFFERS, kept_text
from tests.support.made_runs import step_trials

LOADERS = ["numpy_memmap", "resident", "torchaudio"]
DIFFERENT = {  # by what is planted
    "cores": ["cores"],
    "seconds": ["seconds"],
    "protocol": ["protocol"],
    "moved": ["storage"],
    "python": ["python"],
    "checksums": ["checksums"],
    "loader": [],
}
SPEEDS = {"numpy_memmap": 9000.0, "resident": 5000.0, "torchaudio": 900.0}


class Planted:
    """Makes runs without a process: each loader has its speed; of `failing` the run fails, of `wrong` by its data."""

    def __init__(self, failing=(), wrong=(), stop_after=None):
        self.failing, self.wrong, self.left = failing, wrong, stop_after
        self.order, self.trials = [], []

    def make(self, run):
        if run.mode == "trials":
            self.trials.append((run.id, run.asked_step_ms))
            steps = step_trials(run.batch_ms, 1.0, run.asked_step_ms) if run.batch_ms else None
            return {**self._record(run), "bottleneck_trials": {"full": 1.0}, "spans": [], "steps": steps}
        if self.left is not None and (left := self.left - len(self.order)) <= 0:
            raise KeyboardInterrupt(left)
        self.order.append((run.id, run.repeat))
        return self._record(run)

    def control(self, bound):
        return {"record": "bound", "id": bound.id}

    def _record(self, run):
        failed = run.loader in (*self.failing, *self.wrong)
        problems = ["1 item altered"] if run.loader in self.wrong else []
        return {
            **{"status": "failed" if failed else "ok", "settings": dict(run.settings), "repeat": run.repeat},
            **{"items_per_second": None if failed else SPEEDS[run.loader], "resources": None, "warnings": []},
            **{"verification": {"problems": problems}, "steps": None, "reason": "lost" if failed else None},
        }


def built(root: Path, **changes) -> Plan:
    """A plan of three loaders on a disk."""
    measure = {"minutes": "none", "repeats": 2, "bottlenecks": "none", "timeline": "none", **changes.pop("measure", {})}
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic"}},
        "storage": {"disk": {"path": str(root / "disk")}},
        "loaders": LOADERS,
        "sweep": {"device": ["cpu"], "task": ["read"], "workers": [0], "cache": ["warm"]},
        "measure": measure,
        "report": {"now": "torchaudio", "step_ms": 20},
        **changes,
    }
    return Plan(raw, project=root)


def plan_of(root: Path, **changes) -> Planned:
    """A plan of three loaders on a disk, whose data and proofs are there."""
    plan = built(root, **changes)
    write_json(root / plan.folder("corpus") / "corpus.json", {"sample": plan.sample.as_json(), "items": {"train": 64}})
    for proof in plan.proofs.values():
        declared = {"versions": {}, "preloads": False}
        record = {"status": "ok", "started": "then", "checksums_hash": "same", "verification": {}, "declared": declared}
        record["lifetime"] = "lasting"
        write_json(root / proof.path, record)
        Path(proof.location["held_in"]).mkdir(parents=True, exist_ok=True)
    return Planned(plan.as_json())


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """An empty project, in which the test works, and whose verdict has every result explained."""

    def verdict_of(content, _root):
        return {
            "answers": [{"explain": [f"{row['loader']}/{row['tier']}/{row['slug']}" for row in content["results"]]}]
        }

    monkeypatch.setattr(run_session, "verdict_of", verdict_of)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(plan: Planned, runner: Planted, name: str = "main", **how):
    """Take a session to its end and explain it, or to where its runner stops it."""
    session = Session(plan, name, **how)
    with contextlib.suppress(KeyboardInterrupt):
        if not how.get("explain"):
            session.run(runner, lambda _race: None)
        session.explained(runner, lambda _race: None)
    return session


def session_call(monkeypatch, plan: Planned, planted: Planted) -> Planted:
    """Take a plan's sessions to their end as the program does, or to where the runner stops them."""
    monkeypatch.setattr(run_session, "Runner", lambda *_: contextlib.nullcontext(planted))
    with contextlib.suppress(KeyboardInterrupt):
        run_session._measure(plan, "main")
    return planted


def write_formats(root: Path, plan: Planned) -> None:
    """Write a file of each format of a plan, and its copies, as rules before a session do."""
    for result in plan.results.values():
        for folder in (root / result.written, Path(result.location["held_in"])):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "data").write_bytes(result.format.encode())


def copies(plan: Planned) -> dict[str, int]:
    """When the file of each copy that a plan's results read was made; its bytes are those of its format."""
    found = {}
    for result in plan.results.values():
        file = Path(result.location["held_in"], "data")
        assert file.read_bytes() == result.format.encode()
        found[result.id] = file.stat().st_ctime_ns
    return found


def records(root: Path) -> dict[str, bytes]:
    """Every file of facts but what says how far a session came."""
    files = (root / "results/runs/demo/sessions").rglob("*.json")
    return {str(file.relative_to(root)): file.read_bytes() for file in files if file.name != facts.STATE}


def test_a_session_that_was_stopped_goes_on_from_its_records(root):
    plan = plan_of(root)
    run(plan, Planted(stop_after=4))
    before = records(root)
    again = Planted()
    session = run(plan, again)
    assert records(root).items() >= before.items() and session.facts.folder.name == "main-1"
    assert {len(session.facts.rounds(result)) for result in session.results} == {2}
    assert session.facts.state["ended"] == "rounds"
    counted = [int(Path(path).stem) for path in before if Path(path).stem.isdigit() and "bounds" not in path]
    assert min(number for _, number in again.order) > max(counted), "rounds of its own"
    assert run(plan, third := Planted()).facts.folder == session.facts.folder and third.order == [], "nothing is left"


COLD = {"sweep": {"device": ["cpu"], "task": ["read"], "workers": [0], "cache": ["warm", "cold"]}}
LED_COLD, OTHER_COLD = (f"disk/{name}/cpu-b32-w0{{}}-cold" for name in ("numpy_memmap", "torchaudio"))
LED_COLD, OTHER_COLD = LED_COLD.format("-gather_batch"), OTHER_COLD.format("-decoder_load")


def test_only_what_leads_is_measured_from_a_cold_cache_where_the_plan_says_so(root):
    """And after the race; a session that was stopped there goes on with it, and then nothing is left."""
    plan = plan_of(root, **COLD, measure={"cold": "leaders"})
    run(plan, first := Planted(stop_after=7))
    assert [one for one, _ in first.order[6:]] == [LED_COLD], "after the six warm runs"
    assert not facts.sessions(root, "demo")[0].state["ended"]
    session = run(plan, again := Planted())
    assert {one for one, _ in again.order} == {LED_COLD} and session.facts.state["ended"]
    assert len(session.facts.rounds(LED_COLD)) == run_session.COLD_RUNS
    assert run(plan, third := Planted()).facts.folder == session.facts.folder and third.order == []
    cold = [row for row in plan.content["results"] if row["cache"] == "cold"]
    found = {row["id"]: facts.left_out(row, session.facts) for row in cold}
    assert found == {LED_COLD: None, OTHER_COLD: "not-leading"}
    run(plan_of(root, **COLD, measure={"cold": "all"}), every := Planted())
    assert OTHER_COLD in {one for one, _ in every.order}, "the same session goes on, and all are measured"
    assert len(facts.sessions(root, "demo")) == 1


@pytest.mark.parametrize("cache", [["cold"], ["cold", "limited"]])
def test_without_a_warm_race_all_are_measured_from_a_cold_cache(root, cache):
    plan = plan_of(root, sweep={**COLD["sweep"], "cache": cache}, measure={"cold": "leaders"})
    run(plan, runner := Planted())
    assert {one for one, _ in runner.order} == set(plan.results) and LED_COLD in plan.results


@pytest.mark.parametrize(
    ("planted", "change"),
    [
        ("cores", {}),
        ("seconds", {"measure": {"seconds": 1.0}}),
        ("protocol", {}),
        ("moved", {"storage": {"disk": {"path": "elsewhere"}}}),
        ("python", {}),
        ("checksums", {}),
        ("loader", {"loaders": [*LOADERS, "npy"]}),
    ],
)
def test_what_is_measured_otherwise_has_a_session_of_its_own_and_deletes_nothing(root, monkeypatch, planted, change):
    run(plan_of(root), Planted())
    before = records(root)
    assert before
    monkeypatch.setitem(SPEEDS, "npy", 70.0)
    if planted == "cores":
        monkeypatch.setattr(run_session, "cores_allowed", lambda: 77)
    if planted == "protocol":
        monkeypatch.setattr(facts, "PROTOCOL", facts.PROTOCOL + 1)
    if planted == "python":
        monkeypatch.setattr(run_session.platform, "python_version", lambda: "3.99")
    plan = plan_of(root, **change)
    if planted == "checksums":
        for proof in plan.proofs.values():
            write_json(root / proof.path, read_json(root / proof.path) | {"checksums_hash": "other"})
    session = run(plan, again := Planted())
    assert session.facts.folder.name == "main-2" and len({result for result, _ in again.order}) == len(session.results)
    after = records(root)
    assert after.items() >= before.items()
    shown = facts.shown_by_group(plan.content, root)
    [main] = shown["main"]
    assert main.number == session.facts.number, "the latest of those that hold as much"
    kept = list(facts.kept(plan.content, root, [main]))
    assert [(one["session"], one["runs"]) for one in kept] == [("main-1", 6)]
    assert kept[0]["different"] == DIFFERENT[planted], "it says in what"
    assert kept_text({"dataset": "demo", "kept": kept}).startswith("Kept and not shown: 6 runs of 1 earlier session")
    assert set(kept[0]["different"]) <= DIFFERS.keys()


def test_a_longer_session_goes_on_and_a_reworded_report_measures_nothing(root):
    run(plan_of(root), Planted())
    before = records(root)
    session = run(plan_of(root, measure={"repeats": 3}), longer := Planted())
    assert session.facts.folder.name == "main-1" and len(longer.order) == 3 and records(root).items() >= before.items()
    session = run(plan_of(root, measure={"repeats": 3}, report={"now": "resident", "step_ms": 99}), none := Planted())
    assert none.order == [] and session.facts.folder.name == "main-1"


def test_several_sessions_are_measured_one_after_the_other_with_files_placed_anew(root, monkeypatch):
    """Rounds of all have numbers of their own; a killed set goes on, and of what is there nothing is measured again."""
    plan = plan_of(root, measure={"sessions": 3, "bottlenecks": "candidates"})
    write_formats(root, plan)
    placed = [copies(plan)]
    session_call(monkeypatch, plan, Planted(stop_after=6 + 4))
    placed.append(copies(plan))
    assert [one.finished for one in facts.sessions(root, "demo")] == [True, False]
    [shown] = facts.shown_by_group(plan.content, root)["main"]
    assert shown.folder.name == "main-1", "one that was stopped is not shown beside one that came to its end"
    before, again = records(root), session_call(monkeypatch, plan, Planted())
    placed.append(copies(plan))
    assert records(root).items() >= before.items() and again.trials, "the candidates are explained once, at the end"
    assert all(len(set(times)) == 3 for times in zip(*(one.values() for one in placed), strict=True))
    every = facts.sessions(root, "demo")
    assert [one.folder.name for one in every] == ["main-1", "main-2", "main-3"]
    assert {one.folder.name for one in every if one.trials(again.trials[0][0])} == {"main-3"}
    for result in plan.results:
        rounds = [number for one in every for number in one.rounds(result)]
        assert [len(one.rounds(result)) for one in every] == [2, 2, 2] and len(set(rounds)) == 6
    assert len(facts.shown_by_group(plan.content, root)["main"]) == 3
    assert session_call(monkeypatch, plan, third := Planted()).order == third.trials == [], "nothing is left"
    assert copies(plan) == placed[-1]


def test_a_session_of_another_day_counts_where_its_facts_are_the_same(root, monkeypatch):
    plans = [plan_of(root, measure={"sessions": count}) for count in (1, 3, 2)]
    write_formats(root, plans[0])
    calls = [session_call(monkeypatch, plan, Planted()) for plan in plans]
    assert [len(one.order) for one in calls] == [6, 12, 0], "only the missing ones are measured"
    shown = facts.shown_by_group(plans[2].content, root)["main"]
    assert [one.number for one in shown] == [1, 2, 3], "more than asked for are no reason to show fewer"
    other = session_call(monkeypatch, plan_of(root, measure={"seconds": 9.0}), Planted())
    assert len(other.order) == 6 and [one.number for one in facts.shown_by_group(plans[1].content, root)["main"]] == [
        *(1, 2, 3)
    ], "what relies on something else is of no set"
    monkeypatch.setattr(run_session, "cores_allowed", lambda: 77)
    assert len(session_call(monkeypatch, plans[0], Planted()).order) == 6, "nor is what another machine measured"


def test_the_plan_knows_which_sessions_are_left(root):
    """A third of a set is there: two thirds of the minutes are left."""
    run(plan_of(root), Planted())
    one, three = (built(root, measure={"sessions": count, "minutes": 4.0}) for count in (1, 3))
    assert [{plan.sessions_left(result) for result in plan.results} for plan in (one, three)] == [{0}, {2}]
    assert not estimate(one).left and estimate(three).session_minutes == pytest.approx(8)


def test_what_failed_by_the_machine_is_tried_again_and_wrong_data_is_not(root):
    plan = plan_of(root)
    first = run(plan, Planted(failing=["resident"], wrong=["torchaudio"]))
    assert facts.failures_of(root, "demo", "main") == 1, "Snakemake makes the session again for that"
    assert first.facts.state["ended"]
    session = run(plan, again := Planted())
    tried = {result.split("/")[1] for result, _ in again.order}
    assert "resident" in tried and "torchaudio" not in tried
    assert {len(session.facts.rounds(one.id)) for one in session.results.values() if one.loader == "torchaudio"} == {1}
    assert not run(plan, third := Planted()).again and third.order == []
    assert facts.failures_of(root, "demo", "main") == 1


def test_the_seed_fixes_the_order(root):
    orders = []
    for seed, number in ((0, 0), (0, 1), (5, 2)):
        folder = root / str(number)
        folder.mkdir()
        plan = plan_of(root, measure={"seed": seed, "repeats": 6})
        planted = Planted()
        for path in (root / "results/runs/demo").glob("sessions"):
            path.rename(folder / "kept")
        run(plan, planted)
        orders.append([result for result, _ in planted.order])
    assert orders[0] == orders[1] != orders[2]


def test_another_step_is_tried_in_the_session_that_is_shown_and_no_trial_is_overwritten(root):
    told = {"measure": {"bottlenecks": "candidates"}}
    run(plan_of(root, **told), first := Planted())
    before = records(root)
    assert {step for _, step in first.trials} - {0.0} == {20}
    plan = plan_of(root, **told, report={"now": "torchaudio", "step_ms": 35})
    session = run(plan, again := Planted(), explain=True)
    assert again.order == [] and {step for _, step in again.trials} - {0.0} == {35}
    assert records(root).items() >= before.items() and session.facts.folder.name == "main-1"
    of_first = next(iter(dict(again.trials)))
    assert session.facts.trials(of_first, facts.STEPS).name == "steps-1.json"
    assert session.facts.trials(of_first).name == "trials-0.json", "what explains its speed says nothing of steps"
    run(plan, third := Planted(), explain=True)
    assert third.trials == []


def test_a_result_whose_copy_is_gone_is_not_explained_again(root):
    told = {"measure": {"bottlenecks": "candidates"}}
    run(plan_of(root, **told), Planted())
    plan = plan_of(root, **told, report={"now": "torchaudio", "step_ms": 35})
    for result in plan.results.values():
        if (place := Path(result.location["held_in"])).exists():
            place.rename(f"{place}-away")
    run(plan, again := Planted(), explain=True)
    assert again.trials == []


def test_a_loader_by_itself_has_the_current_one_beside_it(root):
    plan = plan_of(root)
    session = run(plan, planted := Planted(), by_itself("resident"))
    assert {result.split("/")[1] for result, _ in planted.order} == {"resident", "torchaudio"}
    assert session.facts.folder.name == "only-resident-1"
    run(plan, Planted())
    ids = {result.id for result in plan.of_loader("resident")}
    [shown] = facts.shown_by_group(plan.content, root, ids)["main"]
    assert shown.name == "main", "of a session of all, where it is there"


def test_only_some_loaders_are_measured_where_the_config_says_so(root):
    plan = plan_of(root, measure={"only": ["resident", "torchaudio"]})
    assert {result.loader for result in plan.results.values()} == {"resident", "torchaudio"}


def test_what_an_epoch_start_took_is_told_to_the_runs_of_other_rounds(root):
    """Three are measured where windows see them; a run that is made again sees its own anew."""
    told = []
    seen = iter([("window", 0.3), ("window", 0.5), ("runs", 0.5), ("window", 0.1), ("window", 0.2), ("window", 9.0)])
    planted = Planted()

    def make(run):
        told.append((run.start_seconds, run.start_within))
        start_from, seconds = next(seen)
        return planted._record(run) | {"epoch_start_from": start_from, "epoch_start_seconds": seconds}

    session = Session(plan_of(root), "main")
    first, other, *_ = session.results
    runner = type("Runner", (), {"make": staticmethod(make)})
    for round_number, attempt in ((0, 0), (0, 1), (1, 0), (2, 0), (3, 0)):
        session._run(runner, first, round_number, attempt)
    assert told == [(None, 10.0), (None, 10.0), (0.5, 3.0), (0.5, 3.0), (pytest.approx(0.3), 3.0)]
    assert session._start(first, 4) == {"start_seconds": 0.2, "start_within": 0.0}
    assert session._start(other, 4) == {"start_seconds": None, "start_within": 10.0}


def test_what_runs_rely_on(root):
    plan = plan_of(root)
    row = vars(next(iter(plan.results.values())))
    proof = {"verification": {}, "declared": {"versions": {}}, "started": "then", "checksums_hash": "one"}

    def relies(made=proof, **changes):
        return facts.relied_on({**row, **changes}, made, root)

    known = relies()
    assert relies(location={**row["location"], "path": "/mnt/hdd"}) != known
    assert relies(emulate="hdd_7200") != known
    assert relies(limited_share=0.25) == known, "the cache is not limited"
    assert relies(cache="limited", limited_share=0.25) != relies(cache="limited", limited_share=0.5)
    assert relies(host_share=0.9) == known and relies(step_ms=20, host_share=0.9) != relies(step_ms=20, host_share=0.3)
    written = [known]  # nothing is known of its files
    for files, seconds in ((2, 1.0), (2, 9.0), (8, 1.0)):
        write_json(root / f"{row['written']}.json", {"files": files, "seconds": seconds})
        written.append(relies())
    assert written[0] != written[1] == written[2] != written[3], "it was written as more files"
    later = {**proof, "started": "now"}
    assert relies(later) == relies(), "a proof that is made again of the same is the same"
    assert relies(later, file="mine.py") != relies(file="mine.py"), "what it imports may be another one"
    assert len({str(relies(**one)) for one in itertools.chain([{}], ({"seconds": 9}, {"epochs": 3}))}) == 3
