"""A copy of the project in a folder of its own: a small experiment, its Snakemake, and what a call of that would do."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from scripts.common.files import read_json
from scripts.machine import devices
from tests.support.programs import PROJECT
from tests.support.warm_python import WarmPython

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".snakemake", "results", "__pycache__", "figures", "*.html", ".*_cache"
)


def left_out(folder: str, names: list[str]) -> set[str]:
    """Return what a copy does without: as LEFT_OUT, but for what Python has compiled, which is not compiled again."""
    if Path(folder).name == "__pycache__":
        return {name for name in names if not name.endswith(".pyc")}  # others are being written
    return set(LEFT_OUT(folder, names)) - {"__pycache__"}


LOADERS = ["torchaudio", "dali_npy", "numpy_memmap", "lazy_memmap", "webdataset"]  # of a format each
PATIENCE = 600  # seconds until a test gives up waiting: on a slow machine everything takes its time
SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    """Yield an empty folder on a disk and one in RAM, and remove both at the end."""
    temporary = Path(tempfile.gettempdir())
    disk = tempfile.mkdtemp(prefix="feedrate-test-", dir="/var/tmp" if devices.in_memory(temporary) else temporary)
    ram = tempfile.mkdtemp(prefix="feedrate-test-", dir=SHARED_MEMORY)
    try:
        yield Path(disk), Path(ram)
    finally:
        shutil.rmtree(disk)
        shutil.rmtree(ram, ignore_errors=True)  # Snakemake takes the empty folders above a temporary output away too


@dataclass(frozen=True)
class Job:
    """One job that Snakemake would run."""

    rule: str
    wildcards: Mapping[str, str]
    reason: str = ""


@dataclass(frozen=True)
class Call:
    """A call of a program that has ended."""

    status: int
    output: str  # of stdout and stderr


def heed_interrupts() -> None:
    """Let a new process die of Ctrl-C, which it would ignore if the tests were started in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


ONE_ROUND = {
    "minutes": "none",
    "repeats": 1,
    "attempts": 1,  # beside other tests each is disturbed
    "train_repeats": 1,
    "bottlenecks": "none",
    "timeline": "none",
    **{"cold": "all", "trainings": "all", "train_sweep": "all"},
}


@cache
def warm_snakemake() -> WarmPython:
    """Return what all calls of this process are forks of; it ends with this process."""
    warm = WarmPython("snakemake.cli,jsonschema", patience=PATIENCE)
    atexit.register(warm.__enter__().__exit__)
    return warm


class ProjectCopy:
    """A copy of the project at `root` whose tiers are a folder in RAM and the project's own disk."""

    def __init__(self, root: Path, ram: Path, **config: Any) -> None:
        shutil.copytree(PROJECT, root, ignore=left_out)
        self.root = root
        self.ram = ram
        self.config = {
            "dataset": "demo",
            "datasets": {"demo": {"source": "synthetic", "clips": 24, "seed": 3}},
            "audio": {"seconds": 1},
            "storage": {"ram": {"path": str(ram)}, "disk": {"path": "results/placed"}},
            "loaders": LOADERS,
            "sweep": {"device": ["cpu"], "batch_size": [8], "workers": [0], "task": ["read"], "cache": ["warm"]},
            "measure": {**ONE_ROUND, "seconds": 0.05, "profile_seconds": 0.3, "tensors": False},
        }
        self.configure(**config)

    def configure(self, **config: Any) -> None:
        """Set keys of the config."""
        self.config = {**self.config, **config}
        (self.root / "config.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))

    def start(self, *arguments: str, path: str = "") -> subprocess.Popen:
        """Start Snakemake in a process group of its own; folders in `path` go before PATH."""
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *arguments],
            cwd=self.root,
            env=self._environment(path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=heed_interrupts,
        )

    def call(self, *arguments: str, path: str = "") -> Call:
        """Return what Snakemake said, however it ended; it is a fork of a process that has imported it.

        One that does not end is killed, and has a status below 0.
        """
        said = self.root / ".said"
        status = warm_snakemake().run_module(
            "snakemake", self.root, *arguments, environment=self._environment(path), written=said
        )
        return Call(status, said.read_text(errors="replace"))

    @staticmethod
    def _environment(path: str) -> dict[str, str]:
        places = [*filter(None, [path]), str(Path(sys.executable).parent), os.environ["PATH"]]
        return {**os.environ, "PATH": os.pathsep.join(places)}

    def snakemake(self, *arguments: str, path: str = "") -> str:
        """Return what Snakemake said; it must end well."""
        done = self.call(*arguments, path=path)
        assert done.status == 0, f"snakemake {' '.join(arguments)} failed:\n{done.output[-5000:]}"
        return done.output

    def planned(self, *arguments: str) -> list[Job]:
        """Return the jobs that a call would run, without `all`."""
        output = self.snakemake("--dry-run", *arguments)
        jobs = []
        for round_number in re.split(r"(?m)^(?:local)?(?:rule|checkpoint) ", output)[1:]:
            found = re.search(r"(?m)^    wildcards: (.*)$", round_number)
            pairs = (pair.split("=", 1) for pair in found[1].split(", ")) if found else ()
            reason = re.search(r"(?m)^    reason: (.*)$", round_number)
            jobs.append(Job(round_number.partition(":")[0], dict(pairs), reason[1] if reason else ""))
        counted = re.search(r"(?m)^total +(\d+)$", output)
        assert len(jobs) == (int(counted[1]) if counted else 0), output[-3000:]
        return [job for job in jobs if job.rule != "all"]

    def records(self, dataset: str = "demo") -> dict[str, tuple[int, str]]:
        """Return (time of writing, text) of each proof, and of each record that a session holds, by its path below the
        runs' folder.
        """
        runs = self.root / "results" / "runs" / dataset
        found = {}
        for path in sorted([*runs.glob("*/*/*/proof.json"), *runs.glob("sessions/*/*/**/*.json")]):
            with suppress(FileNotFoundError):  # an attempt, which its session has renamed meanwhile
                found[path.relative_to(runs).as_posix()] = (path.stat().st_mtime_ns, path.read_text())
        return found

    def sessions(self, dataset: str = "demo") -> dict[str, set[str]]:
        """Return the loaders of the results of each session, by the name of its folder."""
        folders = (self.root / "results" / "runs" / dataset).glob("sessions/*/session.json")
        return {path.parent.name: {one.split("/")[1] for one in read_json(path)["results"]} for path in folders}

    def files_in_ram(self) -> list[str]:
        """Return the files that are in the RAM tier."""
        return [str(path.relative_to(self.ram)) for path in self.ram.rglob("*") if not path.is_dir()]


def rules_of(jobs: list[Job]) -> Counter:
    """Return how many jobs of each rule there are."""
    return Counter(job.rule for job in jobs)


def values(jobs: list[Job], rule: str, wildcard: str) -> set[str]:
    """Return the values of a wildcard among the jobs of a rule."""
    return {job.wildcards[wildcard] for job in jobs if job.rule == rule}
