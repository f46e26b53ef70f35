"""A tiny project in which every stage has run once, and what tells a whole output from a half one."""

import contextlib
import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
import uuid
import wave
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from scripts.common import plugins
from scripts.common.corpus import SPLITS, Corpus, read_manifest, to_float
from scripts.common.files import write_json
from scripts.common.ledger import read_ledger
from scripts.plan.experiment import Plan
from scripts.plan.results import Result
from tests.support.faults.shim import Shim, cleaned
from tests.support.programs import PROJECT, program_line

ITEMS = 24  # of a tenth of a second, in two folders
RATE = 16_000
PATIENCE = 120  # seconds until a fault that ends in nothing is given up: on a slow machine everything takes its time
MARK = "FEEDRATE_TEST_FAULTS"  # in the environment of all that a project starts
PLAN = "results/runs/demo/plan.json"
VOLATILE = ("seconds", "items_per_second")  # of the records of formats and of what was placed


@dataclass(frozen=True)
class Done:
    """A program that has ended."""

    status: int
    output: str  # stdout and stderr


@dataclass(frozen=True)
class Stage:
    """A program, what it makes, and the ids of the items that are right in that."""

    command: Callable[["Project"], list[str]]
    outputs: tuple[str, ...]
    items: Callable[["Project"], set[str]]


class Project:
    """A folder with audio and the results of each stage; `restore` puts it back as it was prepared."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.kept = folder, folder / "project", folder / "kept"
        self.mark = uuid.uuid4().hex
        self.log = folder / "met"
        self.recordings: dict[str, Any] = {}  # of a download, once there was one
        make_audio(self.root / "audio")
        self.config = {
            "dataset": "demo",
            "datasets": {"demo": {"source": "folder", "path": str(self.root / "audio")}},
            "audio": {"seconds": 0.1, "min_seconds": 0.01},
            "storage": {"disk": {"path": "results/placed"}},
            "loaders": [{"name": "numpy_memmap", "gather": ["batch"], "reuse": [False]}, {"name": "npy"}],
            "sweep": {
                "device": ["cpu"],
                "batch_size": [4],
                "workers": [0],
                "task": ["read"],
                "cache": ["warm"],
                "allocator": ["keep"],
            },
            "measure": {
                **{"minutes": "none", "repeats": 1, "seconds": 0.05, "bottlenecks": "none", "timeline": "none"},
                **{"tensors": False, "threads": 1},
            },
        }
        self.plan = self.planned(self.config)
        write_json(self.root / PLAN, self.plan.as_json())
        for name in STAGES:
            done = self.run(STAGES[name].command(self))
            assert done.status == 0, f"{name}: {done.output[-3000:]}"
        self.prove("numpy_memmap")
        shutil.copytree(self.root, self.kept)
        self.right = {name: (self.digests(name), stage.items(self)) for name, stage in STAGES.items()}

    def planned(self, config: Mapping[str, Any]) -> Plan:
        """Return the plan of a config in this project."""
        with contextlib.chdir(self.root):
            plan = Plan(config, project=self.root)
            assert plan.results
        return plan

    def restore(self) -> None:
        """Put everything back as it was prepared, at the same path."""
        shutil.rmtree(self.root)
        shutil.copytree(self.kept, self.root)
        self.log.unlink(missing_ok=True)

    # Programs

    def environment(self, shim: Shim | None = None) -> dict[str, str]:
        """Return the environment of a program of this project, with a planted fault where there is one."""
        own = {"PYTHONPATH": str(PROJECT), MARK: self.mark, "PYTHONDONTWRITEBYTECODE": "1"}
        return {**cleaned(), **own, **(shim.environment(self.log) if shim else {})}

    def start(self, command: list[str], shim: Shim | None = None, **how: Any) -> subprocess.Popen:
        """Start a program in a session of its own."""
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment(shim),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **how,
        )

    def run(self, command: list[str], shim: Shim | None = None, **how: Any) -> Done:
        """Run a program to its end; a fault that is planted by a shim has to be met."""
        process = self.start(command, shim, **how)
        output, _ = process.communicate(timeout=PATIENCE)
        assert shim is None or self.log.exists(), f"the fault was not met: {output[-500:]}"
        return Done(process.returncode, output)

    def end_all(self) -> None:
        """Kill what programs of this project have left, by their ids."""
        for process in self.left():
            process.kill()

    def left(self) -> list[psutil.Process]:
        """Return what programs of this project have started and still runs."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def wait_until_gone(self) -> None:
        """Wait until nothing runs any more that a program of this project has started."""
        end = time.monotonic() + PATIENCE
        while left := self.left():
            assert time.monotonic() < end, f"left at work: {left}"
            time.sleep(0.05)

    # Stages

    def faulty(self, name: str, shim: Shim | None, **how: Any) -> "Found":
        """Run a stage's program anew with a fault, then without; return what was said, and what is lost or half."""
        stage = STAGES[name]
        for output in stage.outputs:
            remove(self.output(output))
        first = self.run(stage.command(self), shim, **how)
        self.wait_until_gone()
        half = self.half(name)
        lost = len(self.right[name][1] - stage.items(self)) if first.status == 0 else 0  # it said that all was well
        again = self.again(name)
        return Found(first.status, first.output, lost + again.lost, half + again.half)

    def again(self, name: str) -> "Found":
        """Run a stage's program without a fault; it has to end well. Return what is lost or half then."""
        done = self.run(STAGES[name].command(self))
        assert done.status == 0, f"the same command failed afterwards: {done.output[-2000:]}"
        return Found(0, done.output, len(self.right[name][1] - STAGES[name].items(self)), self.half(name))

    def digests(self, name: str) -> list[Any]:
        """Return what each output of a stage holds, without times."""
        return [digest(self.output(pattern)) for pattern in STAGES[name].outputs]

    def output(self, pattern: str) -> Path:
        """Return the one path of this pattern; where there is none, one that is not there."""
        return next(self.root.glob(pattern), self.root / "nothing")

    def half(self, name: str) -> int:
        """Return how many outputs of a stage are there and are not whole."""
        return sum(
            found not in (None, right) for found, right in zip(self.digests(name), self.right[name][0], strict=True)
        )

    # Runs

    def run_of(self, loader: str, tier: str = "disk") -> Result:
        """Return the planned run of a loader."""
        return next(result for result in self.plan.results if (result.loader, result.tier) == (loader, tier))

    def data(self, loader: str) -> Path:
        """Return the folder of the placed format that a loader reads."""
        return self.root / self.run_of(loader).location["path"]

    def prove(self, loader: str, shim: Shim | None = None, **changes: Any) -> dict[str, Any]:
        """Prove a loader by its program; return the record, or one that says how the program ended."""
        proof = self.plan.proofs[self.run_of(loader).proof]
        return self.measured({**asdict(proof), **changes}, shim)

    def measured(self, entry: Mapping[str, Any], shim: Shim | None = None, **how: Any) -> dict[str, Any]:
        """Measure what an entry of the plan says; return its record, or one that says how the program ended."""
        out = self.root / entry["path"]
        remove(out)
        done = self.run([*how.pop("within", ()), *self.run_command(entry)], shim, **how)
        if out.is_file():
            return json.loads(out.read_text())
        return {"status": f"ended with {done.status}", "reason": done.output, "items_per_second": None}

    def run_command(self, entry: Mapping[str, Any]) -> list[str]:
        """Return the command that measures what an entry of the plan says, by a plan that has it as its result."""
        write_json(self.root / "row.json", {**self.plan.as_json(), "results": [entry]})
        return [*program_line("run_loader"), "--plan", "row.json", "--result", entry["id"]]

    def measure(self, loader: str, shim: Shim | None = None, **changes: Any) -> dict[str, Any]:
        """Run a proven loader by its program; return the record."""
        return self.measured(self.entry(loader, **changes), shim)

    def entry(self, loader: str, **changes: Any) -> dict[str, Any]:
        """Return the row of a run of a loader that is no session's."""
        return {**asdict(self.run_of(loader)), "path": "run.json", **changes}

    def own(self, body: str, **settings: Any) -> dict[str, Any]:
        """Return the entry of a proof of a loader of the user's own, whose data set runs `body` for each batch."""
        file = self.root / "planted.py"
        file.write_text(OWN.format(body=body))
        entry = {"name": "planted", "file": str(file), **settings}
        plan = self.planned({**self.config, "loaders": [entry]})
        (proof,) = plan.proofs.values()
        return {**asdict(proof), "broken": None}

    def session_command(self) -> list[str]:
        """Return the command of the session."""
        out = ["--out", "results/runs/demo/session-main.json", "--log", "log.txt"]
        return [*program_line("run_session"), "--plan", PLAN, "--session", "main", *out]

    def runs(self) -> list[dict[str, Any]]:
        """Return the records of the runs that count."""
        found = self.root.glob("results/runs/demo/sessions/*/disk/*/*/*.json")
        return [json.loads(path.read_text()) for path in sorted(found) if path.stem.isdigit()]


OWN = '''"""A loader whose data set does what it should not."""

import ctypes
import os
import threading
import time
from contextlib import contextmanager

import torch

from scripts.loaders._torch import epochs_of

FORMAT = "memmap"
SETTINGS = ("workers",)
LOCK = threading.Lock()


@contextmanager
def open_epochs(request):
    class Planted(torch.utils.data.Dataset):
        def __len__(self):
            return request.items

        def __getitems__(self, positions):
            {body}
            count = len(positions)
            labels = torch.zeros(count, request.classes)
            audio = torch.zeros(count, 1, request.samples)
            target, item = torch.zeros(count).long(), torch.tensor(positions)
            return {{"audio": audio, "target": target, "labels": labels, "item": item}}

    with epochs_of(request, Planted()) as epoch:
        yield epoch
'''


@dataclass(frozen=True)
class Found:
    """What a stage did that met a fault and was then run again."""

    status: int
    output: str
    lost: int
    half: int


def make_audio(folder: Path) -> None:
    """Write ITEMS short recordings of noise into two folders."""
    random = np.random.default_rng(0)
    for number in range(ITEMS):
        path = folder / "ab"[number % 2] / f"{number:02d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(random.integers(-9999, 9999, RATE // 10, dtype=np.int16).tobytes())


def remove(path: Path) -> None:
    """Remove a file or a folder, where it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def digest(path: Path) -> Any:
    """Return what tells the content of a file or a folder from any other, None where it is not there."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        return {str(file.relative_to(path)): digest(file) for file in files}
    if not path.is_file():
        return None
    content = path.read_bytes()
    if path.suffix == ".json":
        try:
            value = json.loads(content)
        except ValueError:
            return "no JSON"
        return {key: part for key, part in value.items() if key not in VOLATILE}
    return hashlib.sha256(content).hexdigest()


# What each stage runs and leaves. Each takes the one before from the same project.

FORMAT = "memmap"
LEDGER, SHARD, CORPUS = "results/clips/demo/ledger-0000.csv", "results/corpus/demo/shards/0000", "results/corpus/demo"
OF_KIND = '{"seconds": 0.1, "min_seconds": 0.01}'  # options of the kind of data


def fetch(project: Project) -> list[str]:
    options = json.dumps({"path": str(project.root / "audio")})
    words = ["--source", "folder", "--options", options, "--clip-seconds", "0.1", "--store", "results/clips/demo/store"]
    return [*program_line("fetch_clips"), *words, "--ledger", LEDGER]


def count(_: Project) -> list[str]:
    words = ["--ledgers", "results/clips/demo", "--shards", "1", "--out", "results/clips/demo/clips.json"]
    return [*program_line("count_clips"), *words]


def corpus(_: Project) -> list[str]:
    words = ["--ledger", LEDGER, "--store", "results/clips/demo/store", "--kind-options", OF_KIND]
    return [*program_line("build_corpus"), *words, "--jobs", "2", "--out", SHARD]


def index(_: Project) -> list[str]:
    words = ["--shards-dir", f"{CORPUS}/shards", "--count", "1", "--kind-options", OF_KIND, "--out", CORPUS]
    return [*program_line("index_corpus"), *words]


def formats(_: Project, name: str = FORMAT) -> list[str]:
    places = ["--out", f"results/formats/demo/{name}", "--record", f"results/formats/demo/{name}.json"]
    return [*program_line("write_format"), "--format", name, "--corpus", CORPUS, *places]


def placed(project: Project, name: str = FORMAT, options: Mapping[str, Any] | None = None) -> list[str]:
    copy = project.plan.copy("disk").format(format=name)
    words = ["--options", json.dumps(options or project.plan.config["storage"]["disk"]), "--tier", "disk"]
    words += ["--source", f"results/formats/demo/{name}", "--copy", copy]
    return [*program_line("place_format"), *words, "--record", f"results/placed/demo/disk/{name}.json"]


def of_ledger(project: Project) -> set[str]:
    return {row.id for row in read_ledger(project.root / LEDGER) if row.status == "fetched"}


def of_shard(project: Project) -> set[str]:
    with open(project.root / SHARD / "items.csv", encoding="utf-8", newline="") as file:
        return {row["id"] for row in csv.DictReader(file)}


def of_manifest(project: Project) -> set[str]:
    return {item.id for item in read_manifest(project.root / CORPUS / "manifest.csv")}


def right_in(folder: Path, made: Corpus, name: str = FORMAT) -> set[str]:
    """Return the ids of the items that a format gives back as the corpus has them."""
    found = set()
    for split in SPLITS:
        items = {item.index: item for item in made.items(split)}
        for number, audio, _ in plugins.load("formats", name).read(folder / split, made) if items else ():
            if np.array_equal(audio, to_float(made.padded(items[number]))[None]):
                found.add(items[number].id)
    return found


def of_format(project: Project) -> set[str]:
    return right_in(project.root / "results" / "formats" / "demo" / FORMAT, Corpus(project.root / CORPUS))


def of_copy(project: Project) -> set[str]:
    return right_in(project.data("numpy_memmap"), Corpus(project.root / CORPUS))


STAGES: dict[str, Stage] = {
    "fetch": Stage(fetch, (LEDGER,), of_ledger),
    "count": Stage(count, ("results/clips/demo/clips.json",), of_ledger),
    "corpus": Stage(corpus, (SHARD,), of_shard),
    "index": Stage(
        index, tuple(f"{CORPUS}/{name}" for name in ("manifest.csv", "classes.csv", "corpus.json")), of_manifest
    ),
    "formats": Stage(formats, (f"results/formats/demo/{FORMAT}", f"results/formats/demo/{FORMAT}.json"), of_format),
    "placed": Stage(placed, (f"results/placed/*/demo/{FORMAT}", f"results/placed/demo/disk/{FORMAT}.json"), of_copy),
}


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[Project]:
    """Yield a project below an empty folder; nothing that it started is left afterwards."""
    project = Project(folder)
    try:
        yield project
    finally:
        project.end_all()


def interrupted(process: subprocess.Popen, number: int = signal.SIGKILL) -> str:
    """Send a signal to a program alone and return what it said."""
    os.kill(process.pid, number)
    return process.communicate(timeout=PATIENCE)[0]
