"""A session that is killed, at any moment: nothing half-written counts, nothing of it goes on, and its command does."""

import json
import os
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import psutil
import pytest

from scripts.common import facts
from scripts.common.files import write_json
from scripts.measure.runner import Runner
from scripts.plan.experiment import Plan
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line

KILLS = 4
ENDLESS = 10_000  # rounds of a session that is killed: none ends before it is
PATIENCE = 300  # seconds until a test gives up: on a slow machine everything takes its time
SHORT = 60  # seconds in which what is left of a killed session must end; torch's workers look each 5 s
MARK = "FEEDRATE_TEST_SESSION"  # in the environment of all that a session starts
SCHEMA = json.loads((PROJECT / "docs" / "run.schema.json").read_text())
PLANTED = '''"""Planted: {about}"""

import subprocess
from contextlib import contextmanager
from dataclasses import replace

from scripts.loaders import numpy_memmap

FORMAT = "memmap"


@contextmanager
def open_epochs(request):
    with numpy_memmap.open_epochs(replace(request, options={{"gather": "batch", "reuse": False}})) as epoch:
        helpers = [subprocess.Popen(["sleep", "600"]) for _ in range({helpers})]
        yield epoch
        for helper in helpers:
            helper.kill()
            helper.wait()
'''
LOADERS = {  # what each is, and how many processes it starts that never notice that it is gone
    "with_worker": ("a worker process of torch.", 0),
    "helped": ("a process that notices nothing.", 1),
}


@dataclass
class Place:
    """A folder in which sessions can be started."""

    folder: Path
    plan: Plan
    marks: list[str] = field(default_factory=list)  # of all that was started

    def start(self, *command: str) -> tuple[subprocess.Popen, str]:
        """Start a program in a session of its own; return it and the mark of all its processes."""
        mark = uuid.uuid4().hex
        self.marks.append(mark)
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), MARK: mark}
        return subprocess.Popen(command, cwd=self.folder, env=environment, start_new_session=True), mark

    def session(self, repeats: int) -> tuple[subprocess.Popen, str]:
        """Start the session of so many rounds, those of earlier ones among them."""
        plan = self.plan.as_json()
        plan["config"]["measure"] = {**plan["config"]["measure"], "repeats": repeats}
        write_json(self.folder / "plan.json", plan)
        out = ["--out", "results/runs/demo/session-main.json", "--log", "log.txt"]
        return self.start(*program_line("run_session"), "--plan", "plan.json", "--session", "main", *out)

    def runs(self) -> dict[str, bytes]:
        """Return what the records of the runs hold that count."""
        found = self.folder.glob("results/runs/demo/sessions/*/ram/*/*/*.json")
        return {str(path): path.read_bytes() for path in found if path.stem.isdigit()}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    """Two planted loaders, placed and proven."""
    folder = tmp_path_factory.mktemp("project")
    for name, (about, helpers) in LOADERS.items():
        (folder / f"{name}.py").write_text(PLANTED.format(about=about, helpers=helpers))
    entries = [{"name": name, "file": str(folder / f"{name}.py")} for name in LOADERS]
    entries[0]["workers"] = [1]
    measure = {"minutes": "none", "repeats": ENDLESS, "seconds": 0.05, "bottlenecks": "none", "timeline": "none"}
    config = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 64, "seed": 3}},
        "audio": {"seconds": 0.1, "min_seconds": 0.01},
        "storage": {"ram": {"path": str(folder / "ram")}},
        "loaders": entries,
        "sweep": {"device": ["cpu"], "batch_size": [8], "workers": [0], "task": ["read"], "allocator": ["keep"]},
        "measure": measure,
    }
    (folder / "ram").mkdir()
    corpus = make_corpus(folder / "results" / "corpus" / "demo", items=64, seconds=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(PROJECT))
        plan = Plan(config)
        write_format(corpus, "memmap", Path(plan.location("ram", "helped").path), readers=1)
        with Runner(plan.sample, random.Random(0)) as runner:
            for proof in plan.proofs.values():
                record = runner.make(proof)
                write_json(Path(proof.path), record)
                assert record["status"] == "ok"
    return Place(folder, plan)


def marked(mark: str) -> dict[psutil.Process, str]:
    """Return the processes of a session that have not ended, and their names. Any may end meanwhile."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found[process] = process.name()
    return found


def kill_marked(mark: str) -> None:
    for process in marked(mark):
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture(autouse=True)
def nothing_is_left(place) -> Iterator[None]:
    """End what a test that failed has left."""
    yield
    for mark in place.marks:
        kill_marked(mark)


def wait_for(what: str, seen: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so; fail with `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_session_killed_at_any_moment_leaves_nothing_half_and_goes_on(place):
    """kill -9 of the session's process group, and each second time of all that it has started too."""
    chance = random.Random(8)
    valid = jsonschema.Draft202012Validator(SCHEMA)
    before: dict[str, bytes] = {}
    started = time.monotonic()
    process, mark = place.session(ENDLESS)
    wait_for("no run", lambda: bool(place.runs()), PATIENCE)
    length = time.monotonic() - started  # until the first run is there
    moments = [(number + chance.random()) / KILLS * 1.5 * length for number in range(1, KILLS)]
    for number, moment in enumerate([0.0, *chance.sample(moments, len(moments))]):
        if number:
            process, mark = place.session(ENDLESS)
            time.sleep(moment)
        assert process.poll() is None, "it ended by itself"
        os.killpg(process.pid, signal.SIGKILL)
        if number % 2:
            kill_marked(mark)
        process.wait()
        wait_for(f"left of a session killed after {moment:.2f} s", lambda mark=mark: not marked(mark), SHORT)
        after = place.runs()
        assert after.items() >= before.items(), "a run that had ended was lost or made again"
        [session] = facts.sessions(place.folder, "demo")
        for path in map(Path, after):
            record = session.record(path.parent.relative_to(session.folder).as_posix(), path)
            valid.validate(record)
            assert record["status"] == "ok" and record["repeat"] == int(path.stem)
        before = after
    assert before and not (place.folder / "results/runs/demo/session-main.json").exists()

    rounds = 2 + max(int(Path(path).stem) for path in before)
    process, mark = place.session(rounds)
    assert process.wait(PATIENCE) == 0
    complete = place.runs()
    assert complete.items() >= before.items()
    folders = [Path(path).parent for path in complete]
    assert all(folders.count(folder) > 1 for folder in folders) and len(set(folders)) == len(LOADERS)
    assert json.loads((place.folder / "results/runs/demo/session-main.json").read_text())["runs"] > 0
    assert not marked(mark)
