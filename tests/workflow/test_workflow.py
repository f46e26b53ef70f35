"""The workflow end to end, by the real Snakemake: in copies of the project, on a second of audio an item.

One finished experiment serves most tests. Those that change it get it back as it was, at the same path: Snakemake and
the tiers' folders both remember where the project is.
"""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import yaml

from scripts.report import charts
from tests.support.workflow_copy import LOADERS, PATIENCE, PROJECT, Call, ProjectCopy, folders, rules_of, values

TABLES = ("runs", "ranking", "best", "formats", "tiers", "bounds", "tensors", "training", "seconds", "noise", "skipped")
ALONE = {"write_format", "place_format", "profile_tier", "run_session"}  # whose time is a result
AFTER_THE_RUNS = {"summarize_loader", "make_tables", "draw_figures", "render_report"}
RECORDING_PYTHON = """#!/bin/bash
echo "start $$ $EPOCHREALTIME ${{2##*.}}" >> {log}
{python} "$@"
status=$?
echo "end $$ $EPOCHREALTIME ${{2##*.}}" >> {log}
exit $status
"""
ROUNDS = 6  # of a session that is stopped twice
BROKEN = '''"""A loader that loses the last item of each batch."""

from contextlib import contextmanager

from scripts.common import plugins

FORMAT, REQUIRES, SETTINGS = "memmap", ("torch", "numpy"), ("workers",)


@contextmanager
def open_epochs(request):
    """Yield an epoch function that gives too little."""
    request.options.update(gather="batch", reuse=False)
    with plugins.load("loaders", "numpy_memmap").open_epochs(request) as whole:
        yield lambda number: ({key: value[:-1] for key, value in batch.items()} for batch in whole(number))
'''


class Span(NamedTuple):
    """When a program of a job ran."""

    program: str
    start: float
    end: float


@dataclass
class Experiment:
    """A finished experiment, and what was seen while it ran."""

    project: ProjectCopy
    output: str
    spans: list[Span]
    put_back: Callable[[], None]


@pytest.fixture(scope="module")
def places() -> Iterator[tuple[Path, Path]]:
    """An empty folder on a disk and one in RAM."""
    with folders() as made:
        yield made


@pytest.fixture(scope="module")
def experiment(places) -> Experiment:
    """Every loader on two tiers, run once, on more cores than one job needs."""
    disk, ram = places
    project = ProjectCopy(disk / "feedrate", ram)
    python, log = disk / "bin" / "python", disk / "programs.log"
    python.parent.mkdir()
    python.write_text(RECORDING_PYTHON.format(log=log, python=sys.executable))
    python.chmod(0o755)
    output = project.snakemake("--cores", "4", path=str(python.parent))
    kept = disk / "kept"
    shutil.copytree(project.root, kept)

    def put_back() -> None:
        shutil.rmtree(project.root)
        shutil.copytree(kept, project.root)
        project.config = yaml.safe_load((kept / "config.yaml").read_text())

    return Experiment(project, output, spans_of(log), put_back)


@pytest.fixture
def project(experiment) -> Iterator[ProjectCopy]:
    """The finished experiment's project, to be changed: it is put back."""
    yield experiment.project
    experiment.put_back()


@pytest.fixture(scope="module")
def untouched(places) -> ProjectCopy:
    """A project in which nothing ever runs."""
    disk, ram = places
    return ProjectCopy(disk / "untouched", ram)


def spans_of(log: Path) -> list[Span]:
    """Return when each program ran, from what the recording python wrote."""
    started, found = {}, []
    for line in log.read_text().splitlines():
        event, pid, moment, program = line.split(" ", 3)
        if event == "start":
            started[pid] = float(moment)
        else:
            found.append(Span(program, started.pop(pid), float(moment)))
    assert not started, f"programs without an end: {started}"
    return found


# The finished experiment


def test_every_loader_has_its_results(experiment):
    for loader in LOADERS:
        results = json.loads((experiment.project.root / "results" / f"{loader}.json").read_text())
        assert {run["tier"] for run in results} == {"ram", "disk"}, f"{loader}: a tier has no run"
        for run in results:
            assert run["status"] == "ok", f"{loader} on {run['tier']}: {run['reason']}"
            assert run["items_per_second"] > 0, f"{loader} on {run['tier']}: no speed"
            assert run["result_items_per_second"] > 0, f"{loader} on {run['tier']}: no summary"


def test_every_stage_left_what_is_promised(experiment):
    """The folders of docs/architecture.md."""
    results = experiment.project.root / "results"
    formats = sorted(path.stem for path in (results / "formats" / "demo").glob("*.json"))
    assert formats == ["memmap", "npy", "tensordict", "wav", "webdataset"]
    wanted = [
        "clips/demo/ledger-0000.csv",
        "clips/demo/store",
        *(f"corpus/demo/shards/0000/{name}" for name in ("000000.wav", "items.csv", "rejected.csv")),
        *(f"corpus/demo/{name}" for name in ("manifest.csv", "classes.csv", "rejected.csv", "corpus.json")),
        *(f"formats/demo/{name}/{split}" for name in formats for split in ("train", "validation")),
        *(f"placed/demo/{tier}.json" for tier in ("ram", "disk")),
        *(f"placed/demo/disk/{name}.json" for name in formats),
        "runs/demo/plan.json",
        "runs/demo/session-main.json",
        "runs/demo/explained-main.json",
        "runs/demo/sessions/main-1/session.json",
        "runs/demo/sessions/main-1/bounds/main/cpu-b8/0.json",
        *(f"tables/demo/{name}.csv" for name in TABLES),
        *(f"tables/demo/{name}" for name in ("warnings.csv", "dataset.json", "host.json")),
        *(
            f"../report/figures/demo/{name}.svg"
            for name in ("throughput", "scaling", "concurrency", "first_batch", "training", "conversion")
        ),
        "../report/index.html",
        "../report/figures/demo/light.html",
    ]
    assert [path for path in wanted if not (results / path).exists()] == [], "promised and not there"
    session = "sessions/main-1/[!b]*"
    for place, name in (("*", "proof.json"), ("*", "proof.npy"), (session, "result.json"), (session, "0.json")):
        found = list(results.glob(f"runs/demo/{place}/*/*/{name}"))
        assert len(found) == 2 * len(LOADERS), f"one {name} a result"
    assert sorted(path.name for path in results.glob("placed/feedrate-*/demo/*")) == formats, "the copies on the disk"
    assert [str(path) for path in results.rglob("*.partial-*")] == [], "left behind half written"


def test_the_tables_hold_every_run(experiment):
    with open(experiment.project.root / "results" / "tables" / "demo" / "ranking.csv", newline="") as file:
        ranked = {(row["loader"], row["tier"]) for row in csv.DictReader(file) if row["status"] == "ok"}
    assert ranked == {(loader, tier) for loader in LOADERS for tier in ("ram", "disk")}
    page = (experiment.project.root / "report" / "index.html").read_text()
    assert [loader for loader in LOADERS if loader not in page] == [], "not named in the report"


def test_a_second_call_finds_nothing_to_do(experiment):
    assert "Nothing to be done" in experiment.project.snakemake()


def test_ram_is_given_back(experiment):
    assert experiment.project.files_in_ram() == [], "left in RAM"


def test_nothing_runs_beside_a_measurement(experiment):
    counts = {program: sum(span.program == program for span in experiment.spans) for program in ALONE}
    expected = {"write_format": 5, "place_format": 2 * 5, "profile_tier": 2, "run_session": 2}  # with what explains
    assert counts == expected, "programs that ran"
    beside = [
        f"{other.program} beside {span.program}"
        for span in experiment.spans
        if span.program in ALONE
        for other in experiment.spans
        if other is not span and other.start < span.end and span.start < other.end
    ]
    assert beside == [], "programs that shared the machine with a measurement"


def test_snakemakes_own_report(project):
    project.snakemake("--report", "report.html")
    text = (project.root / "report.html").read_text()
    assert [chart.TITLE for chart in charts.every().values() if chart.TITLE not in text] == []


# What a change makes run again


RAISED = {  # whose number is raised: the rules that run for that, and whose results make others run
    "scripts/prepare/count_clips.py": {"count_clips"},
    "scripts/sources/synthetic.py": {"fetch_clips"},
    "scripts/kinds/audio.py": {"build_corpus"},
    "scripts/formats/npy.py": {"write_format"},
    "scripts/tiers/posix.py": {"place_on_disk", "place_on_ram", "profile_tier"},
    "scripts/loaders/numpy_memmap.py": {"prove_loader"},
    "PROTOCOL": {"prove_loader"},
    "REPORT": {"make_tables", "summarize_loader"},
}


@pytest.mark.parametrize("what", RAISED)
def test_a_raised_number_runs_what_it_stands_for(experiment, what):
    """The VERSION of a file, which it gets where it has none, or a number of the vocabulary."""
    project = experiment.project
    name, file = ("VERSION", what) if "/" in what else (what, "scripts/common/vocabulary.py")
    path = project.root / file
    text = path.read_text()
    changed, raised = re.subn(rf"(?m)^{name} = (\d+)", lambda found: f"{name} = {int(found[1]) + 1}", text)
    path.write_text(changed if raised else f"{text}\n{name} = 2\n")
    try:
        jobs = project.planned()
    finally:
        path.write_text(text)
    changed = [job for job in jobs if "have changed" in job.reason]
    assert {job.rule for job in changed} == RAISED[what]
    others = {job.rule for job in jobs if not re.search("have changed|Input files updated", job.reason)}
    assert others <= {"place_on_ram"}, "a copy in RAM is gone after its runs"
    if what.startswith(("scripts/formats/", "scripts/loaders/")):
        assert {job.wildcards.get("format") or job.wildcards["loader"] for job in changed} == {Path(what).stem}


def test_other_machines_render_the_report_again_and_measure_nothing(project):
    """Their tables are inputs: the list, and what is in its folders."""
    kept, tables = project.records(), project.root / "results" / "tables" / "demo"
    for name in ("lab", "old"):
        shutil.copytree(tables, project.root / name)
        host = json.loads((tables / "host.json").read_text())
        host["hosts"][0]["host"]["cpu"] = f"The CPU of {name}"
        (project.root / name / "host.json").write_text(json.dumps(host))
    drawn = {"make_tables": 1, "draw_figures": 1, "render_report": 1}
    for given in (["lab"], {"lab": "lab", "old": "old"}):
        project.configure(report={"machines": given})
        jobs = rules_of(project.planned())
        assert {name: count for name, count in jobs.items() if name != "summarize_loader"} == drawn
    project.snakemake()
    assert project.planned() == []
    assert project.records() == kept, "runs were made again"
    page = (project.root / "report" / "index.html").read_text()
    assert "The CPU of lab" in page and "The CPU of old" in page
    with open(project.root / "old" / "runs.csv", "a") as file:
        file.write("\n")
    assert rules_of(project.planned()) == {"draw_figures": 1, "render_report": 1}


def test_words_run_nothing(project):
    """A comment and another docstring in each file, and what people read for a key."""
    for path in (project.root / "scripts").rglob("*.py"):
        path.write_text(path.read_text().replace('"""', '"""Otherwise: ', 1) + "\n# a comment\n")
    for path in (project.root / "workflow").rglob("*.yaml"):
        path.write_text(path.read_text() + "\n# a comment\n")
    words = project.root / "scripts" / "common" / "vocabulary.py"
    words.write_text(words.read_text().replace("every byte is read once", "every byte is read"))
    assert project.planned() == []


def test_one_more_value_in_the_sweep_runs_that_value(experiment):
    """On a tier that keeps its copies; a copy in RAM is made again, and then all that read it run again."""
    jobs = experiment.project.planned("--config", "sweep={batch_size: [8, 16]}")
    on_disk = [job for job in jobs if job.wildcards.get("tier") == "disk"]
    assert values(on_disk, "prove_loader", "loader") == set(LOADERS)
    assert rules_of(on_disk) == {"prove_loader": len(LOADERS)}
    assert all("-b16" in job.wildcards["slug"] for job in on_disk), "an old setting on the disk is proven again"
    known = {"prove_loader", "measure_session", "explain_session", "place_on_ram"}
    assert rules_of(jobs).keys() <= AFTER_THE_RUNS | known


def test_another_step_explains_again_and_proves_and_measures_nothing(experiment):
    jobs = rules_of(experiment.project.planned("--config", "report={step_ms: 5}"))
    again = dict.fromkeys(("explain_session", "make_tables", "draw_figures", "render_report"), 1)
    assert jobs == {**again, "summarize_loader": len(LOADERS)}, "copies, proofs or a session again"


def test_a_loader_asked_for_by_itself_has_what_a_session_of_all_holds(project):
    kept = project.records()
    assert rules_of(project.planned("results/dali_npy.json")) == {"summarize_loader": 1}
    project.snakemake("results/dali_npy.json")
    assert project.planned("results/dali_npy.json") == []
    assert project.sessions().keys() == {"main-1"} and project.records() == kept


def test_another_length_is_another_session_and_the_first_is_kept(project):
    """And a dry run, which says so, writes nothing."""
    plan = project.root / "results" / "runs" / "demo" / "plan.json"
    kept, before = project.records(), (plan.stat().st_mtime_ns, plan.read_text())
    given = ["--config", "loaders=[numpy_memmap]", "storage={ram: null}", "measure={seconds: 0.1}"]
    jobs = rules_of(project.planned(*given))
    assert jobs["measure_session"] == 1 and not jobs.keys() & {"prove_loader", "place_on_disk", "write_format"}
    assert (plan.stat().st_mtime_ns, plan.read_text()) == before
    project.snakemake(*given)
    assert project.records().items() >= kept.items()
    assert project.sessions() == {"main-1": set(LOADERS), "main-2": {"numpy_memmap"}}
    assert project.planned(*given) == []
    project.snakemake("results/numpy_memmap.json")
    assert project.records().items() >= kept.items() and len(project.sessions()) == 2, "the first holds what is asked"


def test_one_more_session_of_the_same_has_its_files_placed_anew(project):
    kept, given = project.records(), ["--config", "measure={sessions: 2}"]
    copies = {path: path.stat().st_ctime_ns for path in (project.root / "results/placed").rglob("*.npy")}
    jobs = rules_of(project.planned(*given))
    assert jobs["measure_session"] == 1 and not jobs.keys() & {"place_on_disk", "write_format"}
    project.snakemake(*given)
    facts = {path: record for path, record in kept.items() if path.startswith("sessions/")}
    assert facts and project.records().items() >= facts.items()
    assert project.sessions() == {"main-1": set(LOADERS), "main-2": set(LOADERS)}
    assert copies and all(path.stat().st_ctime_ns > made for path, made in copies.items())
    assert project.planned(*given) == [] and not rules_of(project.planned())["measure_session"]
    with open(project.root / "results/tables/demo/runs.csv", encoding="utf-8", newline="") as file:
        assert {row["session"] for row in csv.DictReader(file)} == {"main-1", "main-2"}


def test_another_data_set_and_back_throws_nothing_away(project):
    first = dict(project.config)
    kept = project.records()
    other = {"source": "synthetic", "clips": 12, "seed": 4}
    both = {**project.config["datasets"], "other": other}
    project.configure(
        dataset="other", datasets=both, loaders=["numpy_memmap"], storage={"disk": first["storage"]["disk"]}
    )
    project.snakemake()
    made = project.records("other")
    held = {"disk/numpy_memmap/cpu-b8-w0-gather_batch/0.json", "bounds/main/cpu-b8/0.json"}
    assert {f"sessions/main-1/{name}" for name in held} <= made.keys()
    assert project.records() == kept, "runs of the first data set changed"
    rows = json.loads((project.root / "results" / "numpy_memmap.json").read_text())
    assert {row["dataset"] for row in rows} == {"other"}

    project.configure(**first)
    jobs = project.planned()
    assert rules_of(jobs) == {"summarize_loader": 1, "render_report": 1}
    project.snakemake()
    assert project.records() == kept, "runs of the first data set were made again"
    assert project.records("other") == made, "runs of the other data set are gone"
    rows = json.loads((project.root / "results" / "numpy_memmap.json").read_text())
    assert {row["dataset"] for row in rows} == {"demo"}


def test_a_loader_that_delivers_wrong_data_is_a_row(project):
    (project.root / "scripts" / "loaders" / "broken.py").write_text(BROKEN)
    project.configure(loaders=["numpy_memmap", "broken"], storage={"disk": {"path": "results/placed"}})
    kept = project.records()
    project.snakemake()
    results = json.loads((project.root / "results" / "broken.json").read_text())
    log = (project.root / "results" / "logs" / "demo" / "summarize_loader" / "broken.log").read_text()
    assert "broken on disk" in log and " failed: verification: " in log, "said on the terminal, too"
    assert len(results) == 1
    for run in results:
        assert run["status"] == "failed", run
        assert "verification" in run["reason"], run["reason"]
        assert run["items_per_second"] is None, "a speed for wrong data"
    with open(project.root / "results" / "tables" / "demo" / "ranking.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["loader"] == "broken"]
    assert [(row["status"], row["rank"], row["items_per_second"]) for row in rows] == [("failed", "", "")] * len(rows)
    assert {row["tier"] for row in rows} == {"disk"}
    assert all("verification" in row["reason"] for row in rows), rows
    page = (project.root / "report" / "index.html").read_text()
    assert "broken" in page, "the failed loader is not in the report"
    assert "verification" in page, "the reason is not in the report"
    assert project.records().items() >= {path: kept[path] for path in kept if path.startswith("sessions/")}.items()

    done = project.call("results/broken.json")
    assert done.status != 0, "a loader that was asked for has no speed, and all is said to be well"
    reasons = set(re.findall(r"(?m)^error: broken has no speed: (.*)", done.output))
    assert reasons == {run["reason"] for run in results}, done.output[-3000:]


# A fresh project


@dataclass
class Started:
    """Snakemake at work."""

    project: ProjectCopy
    process: subprocess.Popen

    def wait_for(self, what: str, found: Callable[[], object]) -> object:
        """Return what `found` gives, once that is true."""
        deadline = time.monotonic() + PATIENCE
        while not (result := found()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}:\n{self.process.communicate()[0][-3000:]}")
            time.sleep(0.02)
        return result

    def session(self) -> psutil.Process | None:
        """Return the process that measures a session, once it is at work."""
        with suppress(psutil.Error):
            below = psutil.Process(self.process.pid).children(recursive=True)
            found = [each for each in below if "scripts.measure.run_session" in each.cmdline()]
            parents = {each.ppid() for each in found}
            return next((each for each in found if each.pid not in parents), None)
        return None

    def runs(self) -> dict[str, tuple[int, str]]:
        """Return the records of the runs that count."""
        records = self.project.records()
        return {path: one for path, one in records.items() if Path(path).stem.isdigit() and "/bounds/" not in path}

    def end(self) -> Call:
        output, _ = self.process.communicate(timeout=PATIENCE)
        return Call(self.process.returncode, output)


def left_of(group: int) -> list[str]:
    """Return the command lines of the processes that are left of a process group."""
    left = []
    for process in psutil.process_iter(["cmdline", "status"]):
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                left.append(" ".join(process.info["cmdline"] or ()))
    return left


def test_one_loader_interrupted_and_killed_goes_on_where_it_was(places):
    """`snakemake results/npy.json` where nothing is, Ctrl-C, again, kill -9 of the session, again.

    No run is lost or made twice.
    On the tier in RAM, whose copy must outlast both. Ctrl-C leaves a report of what is there.
    """
    disk, ram = places
    project = ProjectCopy(disk / "one_loader", ram, storage={"ram": {"path": str(ram)}})
    project.configure(measure={**project.config["measure"], "repeats": ROUNDS}, report={"now": "numpy_memmap"})
    wanted, both = "results/npy.json", {"npy", "numpy_memmap"}
    jobs = project.planned(wanted)
    once = ("fetch_clips", "count_clips", "build_corpus", "index_corpus", "measure_session", "explain_session")
    twice = ("write_format", "place_on_ram", "prove_loader")
    assert rules_of(jobs) == {**dict.fromkeys((*once, "summarize_loader"), 1), **dict.fromkeys(twice, 2)}
    assert values(jobs, "prove_loader", "loader") == both
    assert values(jobs, "write_format", "format") == {"npy", "memmap"}

    first = Started(project, project.start(wanted))
    first.wait_for("two runs", lambda: len(first.runs()) >= 2)
    os.killpg(first.process.pid, signal.SIGINT)
    said = first.end()
    assert said.status != 0, "an interrupted workflow that claims to have ended well"
    assert left_of(first.process.pid) == [], "processes outlived Ctrl-C"
    finished = first.runs()
    assert 2 <= len(finished) < 2 * ROUNDS
    assert (project.root / "report" / "index.html").exists(), said.output[-3000:]

    second = Started(project, project.start(wanted))
    victim = second.wait_for("a session", second.session)
    second.wait_for("another run", lambda: len(second.runs()) > len(finished))
    victim.kill()
    said = second.end()
    assert said.status != 0, "a workflow that lost its session and claims to have ended well"
    assert left_of(second.process.pid) == [], "processes outlived the session"
    after = second.runs()
    assert after.items() >= finished.items(), "runs that had ended before Ctrl-C were repeated"

    project.snakemake(wanted)
    complete = second.runs()
    assert len(complete) == 2 * ROUNDS and complete.items() >= after.items(), "runs that had ended were repeated"
    result = json.loads((project.root / wanted).read_text())
    assert [run["status"] for run in result] == ["ok"] * ROUNDS
    assert project.sessions() == {"only-npy-1": both}, "with the current loader, and one for all three calls"
    assert project.files_in_ram() == [], "left in RAM"
    assert project.planned(wanted) == [], "a call that should find nothing to do"

    results = project.root / "results"
    assert sorted(path.name for path in results.glob("*.json")) == ["npy.json"], "other loaders' results"
    assert sorted(path.name for path in results.glob("formats/demo/*.json")) == ["memmap.json", "npy.json"]
    assert {path.name for path in results.glob("runs/demo/ram/*")} == both, "other runs"


def test_a_folder_of_ones_own(places):
    import numpy as np
    import soundfile

    disk, ram = places
    recordings = disk / "my recordings"
    rng = np.random.default_rng(0)
    for folder in ("Größe & co", "it's #1 {x} 100%"):
        (recordings / folder).mkdir(parents=True)
        for number, ending in enumerate(("wav", "flac", "wav")):
            audio = rng.uniform(-0.5, 0.5, (2 * 22_050, 1 + number % 2))
            soundfile.write(recordings / folder / f"rec {number}.{ending}", audio, 22_050)
    (recordings / "Größe & co" / "broken.wav").write_bytes(b"RIFF, and then nothing of the kind")

    project = ProjectCopy(disk / "folder", ram, storage={"disk": {"path": "results/placed"}})
    project.configure(
        datasets={**project.config["datasets"], "my_folder": {"source": "folder", "path": "/path/to/audio"}}
    )
    arguments = ["results/numpy_memmap.json", "--config", "dataset=my_folder"]
    arguments.append(f"datasets={{my_folder: {{path: {recordings}}}}}")
    project.snakemake(*arguments)

    result = json.loads((project.root / "results" / "numpy_memmap.json").read_text())
    assert [(run["status"], run["dataset"]) for run in result] == [("ok", "my_folder")]
    corpus = project.root / "results" / "corpus" / "my_folder"
    with open(corpus / "rejected.csv", newline="") as file:
        rejected = list(csv.DictReader(file))
    assert [row["id"] for row in rejected] == ["Größe & co/broken.wav"], rejected
    assert rejected[0]["reason"], "the broken file has no reason"
    info = json.loads((corpus / "corpus.json").read_text())
    assert sum(info["items"].values()) == 2 * 3 * 2, "six recordings of two seconds are twelve items of one"
    assert info["classes"] == 2, "a class for each folder"
    assert project.planned(*arguments) == [], "a call that should find nothing to do"


def test_a_loader_asked_for_as_a_target_is_measured_whatever_the_preset_says(untouched):
    """And what the preset leaves out of config.yaml is said, with what to type."""
    jobs = untouched.planned("results/lazy_memmap.json", "results/zarr.json", "--config", "preset=ladder")
    assert (
        values(jobs, "prove_loader", "loader") == values(jobs, "summarize_loader", "loader") == {"lazy_memmap", "zarr"}
    )
    said = untouched.snakemake("--dry-run", "--config", "preset=ladder")
    assert "snakemake results/dali_npy.json --config preset=ladder" in said


def test_a_dry_run_says_how_long_it_will_take(untouched):
    assert "\nResults: 10 of 10 to measure, about " in untouched.snakemake("-n")
    assert "\nResults: 2 of 2 to measure, about " in untouched.snakemake("-n", "results/numpy_memmap.json")


def test_a_report_of_a_data_set_without_pages_names_what_is_missing(untouched):
    done = untouched.call("--report", "report.html")
    assert done.status != 0 and "report/figures/demo/" in done.output
    assert not (untouched.root / "report.html").exists()


@pytest.mark.parametrize(
    ("typed", "text", "said"),
    [
        ([], "sweeep: {workers: [0]}\n", "config: sweeep"),
        (["--config", "measure={repeats: 0}"], "", "config: measure.repeats"),
        ([], "dataset: other\n", "config.yaml, line "),
    ],
)
def test_a_mistake_in_the_config_stops_before_any_job(untouched, typed, text, said):
    """What is said of each is in the scene of errors."""
    with open(untouched.root / "config.yaml", "a") as file:
        file.write(text)
    done = untouched.call(*typed)
    untouched.configure()
    assert done.status != 0, done.output
    assert said in done.output and "Traceback" not in done.output, done.output
    assert not (untouched.root / "results").exists(), "a job has run"


def test_odd_names_that_are_allowed_make_a_plan(untouched):
    good = untouched.config["storage"]
    odd = {"path": str(untouched.root / "a b'\"$HOME;*é音<A>~%(x)s")}
    untouched.configure(storage={"_": odd, "a" * 19: {"path": str(untouched.ram)}})
    jobs = untouched.planned()
    untouched.configure(storage=good)
    assert values(jobs, "profile_tier", "tier") == {"_", "a" * 19}


# The rules as they are written


def test_the_linter_is_content(untouched):
    lines = untouched.snakemake("--lint").splitlines()
    said = [line for line in lines if line.strip() and not line.startswith("Using workflow specific profile")]
    assert said == ["Congratulations, your workflow is in a good condition!"]


def test_the_rules_are_formatted():
    snakefmt = Path(sys.executable).with_name("snakefmt")
    done = subprocess.run([snakefmt, "--check", "workflow"], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
