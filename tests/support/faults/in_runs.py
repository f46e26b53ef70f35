"""Faults of proofs, of sessions and of bounds: of the data that is read, of loaders, and of what measures."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.common import facts
from scripts.common.files import write_json
from scripts.machine import control_groups
from scripts.plan.experiment import Plan
from scripts.tables.records import checked_record
from tests.support.faults.project import PATIENCE, PLAN, Project
from tests.support.faults.registry import Outcome, fault
from tests.support.faults.shim import NotHere, Shim, fails, kills
from tests.support.programs import program_line

LOADER = "numpy_memmap"
NO_NUMBER = "no number; the reason says what to do"
NAMED = "no number; the reason names the file that has changed, and what to do"
STOPS = "it stops, says so, and the same command goes on"
CHANGED = r"changed since it was placed: {}.*delete .*type the same command again"
NOBODY = 65534
ENDLESS, KILLS = 10_000, 4  # rounds of a session that is killed, so that none ends before; how often it is


def numbers(*records: dict[str, Any]) -> int:
    """Return how many records give a speed."""
    return sum(bool(record["items_per_second"]) for record in records)


def refused(record: dict[str, Any]) -> Outcome:
    """Return the outcome of a proof or a run that must not hold: its reason, and whether it gives a number."""
    return Outcome(record["reason"] or "", wrong=numbers(record) + (record["status"] == "ok"))


def flip(path: Path, place: int = -1) -> None:
    """Flip one bit of a file, where the audio is."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


# The data


@fault(
    "one bit of a placed memory map flipped before the proof",
    "proofs",
    NAMED,
    CHANGED.format(r"audio\.npy"),
    short=True,
)
def _(project: Project) -> Outcome:
    flip(project.data(LOADER) / "train" / "audio.npy")
    return refused(project.prove(LOADER))


@fault("one bit of a placed label flipped", "proofs", NAMED, CHANGED.format(r"labels\.npy"))
def _(project: Project) -> Outcome:
    flip(project.data(LOADER) / "train" / "labels.npy")
    return refused(project.prove(LOADER))


@fault("a placed file was cut", "proofs", NAMED, CHANGED.format(r"audio\.npy"))
def _(project: Project) -> Outcome:
    path = project.data(LOADER) / "train" / "audio.npy"
    os.truncate(path, path.stat().st_size - 5000)
    return refused(project.prove(LOADER))


@fault("a placed file is gone", "proofs", NAMED, CHANGED.format(r"audio\.npy"))
def _(project: Project) -> Outcome:
    (project.data(LOADER) / "train" / "audio.npy").unlink()
    return refused(project.prove(LOADER))


@fault("one bit of one of many files flipped", "proofs", NAMED, CHANGED.format(r"000005\.npy"))
def _(project: Project) -> Outcome:
    of_files(project)
    flip(project.data("npy") / "train" / "000005.npy")
    return refused(project.prove("npy"))


def of_files(project: Project) -> None:
    """Write and place the format of a file for each item."""
    from tests.support.faults import project as stages

    for command in (stages.formats(project, "npy"), stages.placed(project, "npy")):
        done = project.run(command)
        assert done.status == 0, done.output[-2000:]


@fault("a disk gives stale blocks", "proofs", "no number; the gate names the items", r"verification: .*item 3 ")
def _(project: Project) -> Outcome:
    of_files(project)
    return refused(project.prove("npy", Shim("read", "npy/train/000003.npy", "stale")))


@fault("a placed file cannot be read", "proofs", NO_NUMBER, r"Input/output error.*dmesg")
def _(project: Project) -> Outcome:
    of_files(project)
    return refused(project.prove("npy", fails("read", "npy/train/000003.npy", "EIO")))


@fault("an older copy of the same size is in the place of the data", "proofs", NAMED, CHANGED.format(r"audio\.npy"))
def _(project: Project) -> Outcome:
    path = project.data(LOADER) / "train" / "audio.npy"
    content = path.read_bytes()
    item = 4 * 1600
    path.write_bytes(content[: -2 * item] + content[-item:] + content[-2 * item : -item])
    return refused(project.prove(LOADER))


@fault("one bit flipped between proof and run", "sessions", NAMED, CHANGED.format(r"audio\.npy"), short=True)
def _(project: Project) -> Outcome:
    flip(project.data(LOADER) / "train" / "audio.npy")
    return refused(project.measure(LOADER))


@fault("the data is cut while it is mapped", "sessions", NO_NUMBER, r"SIGBUS.*(dmesg|cut)|changed since it was placed")
def _(project: Project) -> Outcome:
    entry = project.entry(LOADER, seconds=600.0)
    process = project.start(project.run_command(entry))
    path = project.data(LOADER) / "train" / "audio.npy"
    wait_for(project, process, lambda: any(str(path) in maps(one.pid) for one in project.left()))
    os.truncate(path, 4096)
    output, _ = process.communicate(timeout=PATIENCE)
    out = project.root / entry["path"]
    assert out.is_file(), output[-1000:]
    return refused(json.loads(out.read_text()))


def maps(process: int) -> str:
    """Return the kernel's list of what a process has mapped."""
    try:
        return Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return ""


def wait_for(project: Project, process: subprocess.Popen, seen: Callable[[], bool]) -> None:
    """Wait until something is so, as long as a program lives."""
    end = time.monotonic() + PATIENCE
    while not seen():
        assert process.poll() is None, f"it ended: {process.communicate()[0][-1000:]}"
        assert time.monotonic() < end, f"waited in vain: {project.left()}"
        time.sleep(0.02)


# Loaders


def planted(
    name: str, body: str, says: str, short: bool = False, how: Callable[[Project], dict] | None = None, **entry: Any
):
    """Enter a loader that does something with each batch; its proof must have a reason, and nothing may be left."""

    @fault(name, "proofs", NO_NUMBER, says, short)
    def _(project: Project) -> Outcome:
        workers = entry.get("workers", 1)
        run = project.own(body, workers=[workers])
        more = how(project) if how else {}
        record = project.measured({**run, "limit_minutes": entry.get("limit_minutes", 2.0)}, **more)
        project.wait_until_gone()
        return refused(record)


planted("a worker is killed", "os.kill(os.getpid(), 9)", r"worker.*(killed|exited).*fewer workers", short=True)
planted("a worker exits", "os._exit(3)", r"worker.*exited.*fewer workers")
planted("a worker crashes", "ctypes.string_at(0)", r"worker.*(Segmentation fault|killed|exited).*log")
planted(
    "the measuring process crashes",
    "ctypes.string_at(0)",
    r"the process crashed \(SIGSEGV\).*leave this loader",
    workers=0,
)
planted(
    "a loader hangs", "time.sleep(10**6)", r"no end after 0\.05 minutes \(measure\.limit_minutes\)", limit_minutes=0.05
)
planted(
    "a deadlock after a fork",
    "threading.current_thread() is threading.main_thread() and LOCK.acquire() and LOCK.acquire()",
    r"no end after 0\.05 minutes \(measure\.limit_minutes\)",
    limit_minutes=0.05,
)
planted(
    "an exception that cannot be pickled",
    'class Own(Exception): pass\n            raise Own("here")',
    r"Own.*planted\.py, line|here",
)
planted("memory runs out in a worker", "bytearray(1 << 46)", r"MemoryError.*fewer")
planted(
    "too many open files",
    'self.files = [open("/dev/null") for _ in range(300)]',
    r"Too many open files.*ulimit -n",
    how=lambda _: {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))},
)


def ordinary(project: Project) -> dict[str, Any]:
    """Return how a program is started as an ordinary user who may have few processes."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("prlimit") is None:
        raise NotHere("to bound its processes needs root, setpriv and prlimit")
    for path in (project.folder, project.root, *project.root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    user = [
        *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
        *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"),
        *("--bounding-set=-all,+dac_read_search", "prlimit", "--nproc=60", "--"),
    ]
    return {"within": user}


planted(
    "a loader forks without end, bounded by ulimit -u",
    "[os.fork() for _ in range(100)]",
    r"ulimit -u",
    how=ordinary,
)


def small_shared_memory(_: Project) -> dict[str, Any]:
    """Return how a program is started in a mount namespace whose /dev/shm is small."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        raise NotHere("no mount namespace for a small /dev/shm: run it as root, outside a container")
    return {"within": ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=48k tmpfs /dev/shm && exec "$@"', "sh"]}


planted(
    "/dev/shm is full",
    "return {'audio': torch.zeros(40, 1, 1600), 'target': torch.zeros(40).long(), 'item': torch.zeros(40).long()}",
    r"df /dev/shm",
    how=small_shared_memory,
)


@fault("a memory limit is hit (control group)", "proofs", NO_NUMBER, r"out of memory.*(fewer workers|smaller batches)")
def _(project: Project) -> Outcome:
    run = project.own("self.kept = bytearray(os.urandom(1 << 20)) * 2000", workers=[0])
    try:
        with control_groups.group(None, memory=True) as folders:
            Path(folders[0], "memory.max").write_text(str(900 * 2**20))
            join = {"preexec_fn": lambda: control_groups.join(folders)}
            record = project.measured(run, **join)
            project.wait_until_gone()
    except control_groups.NotPermitted as reason:
        raise NotHere(f"no control group for memory: {reason}") from None
    return refused(record)


# The processes that measure


@fault(
    "the measuring process is killed",
    "proofs",
    "no record; what is said is how to go on",
    r"error: .*something killed",
)
def _(project: Project) -> Outcome:
    record = project.prove(LOADER, kills("open", "memmap/train/audio.npy"))
    return Outcome(record["reason"], half=(project.root / project.run_of(LOADER).proof).exists())


@fault("the program above it is killed", "proofs", "no record, no process is left; the same command makes it")
def _(project: Project) -> Outcome:
    entry = project.own("time.sleep(10**6)", workers=[1])
    process = project.start(project.run_command(entry))
    wait_for(project, process, lambda: len(project.left()) >= 3)
    process.kill()
    process.communicate()
    project.wait_until_gone()
    return Outcome(half=len(list((project.root / entry["path"]).parent.glob("proof*"))))


def told_by_program(name: str, shim: Shim, says: str | None, short: bool = False) -> None:
    """Enter a fault of writing a proof: there is none afterwards, and it is made by the same command."""

    @fault(name, "proofs", "no record that looks finished; the same command makes it", says, short)
    def _(project: Project) -> Outcome:
        record = project.prove(LOADER, shim)
        half = record["status"] == "ok"
        again = project.prove(LOADER)
        assert again["status"] == "ok", again["reason"]
        return Outcome(record["reason"] or "", half=half)


told_by_program("proof: killed between write and rename", kills("rename", "/proof.json"), None)
told_by_program(
    "proof: disk full", fails("write", "proof.json", "ENOSPC"), r"No space left on device.*[Ff]ree some space"
)
told_by_program(
    "checksums: quota exceeded", fails("write", "proof.npy", "EDQUOT"), r"Disk quota exceeded.*[Ff]ree some space"
)


def session(project: Project, shim: Shim | None) -> Outcome:
    """Return the outcome of a session that meets a fault, and of the same command after it."""
    done = project.run(project.session_command(), shim)
    project.wait_until_gone()
    made = project.runs()
    log = project.root / "log.txt"
    reasons = [record["reason"] for record in made if record["reason"]]
    again = project.run(project.session_command())
    assert again.status == 0, f"the same command failed afterwards: {again.output[-2000:]}"
    lost = not any(record["status"] == "ok" and record["items_per_second"] for record in project.runs())
    text = "\n".join([done.output, *reasons, "" if reasons or not log.exists() else log.read_text()])
    return Outcome(text, lost=lost, wrong=sum(bool(one["items_per_second"]) and one["status"] != "ok" for one in made))


@fault("session: killed between a run's write and its rename", "sessions", "the same command goes on")
def _(project: Project) -> Outcome:
    return session(project, kills("rename", "/0.json"))


@fault(
    "session: the process of a run is killed",
    "sessions",
    "no number of that run after three tries; the same command makes it again",
    r"run.*(killed|again)",
)
def _(project: Project) -> Outcome:
    return session(project, kills("open", "memmap/train/audio.npy"))


@fault(
    "session: the fork server is killed",
    "sessions",
    "no number of that run after three tries; the same command makes it again",
    r"warm server.*again",
)
def _(project: Project) -> Outcome:
    return session(project, kills("fork", ""))


@fault("session: disk full", "sessions", STOPS, r"No space left on device.*[Ff]ree some space")
def _(project: Project) -> Outcome:
    return session(project, fails("write", "0.attempt-0.json", "ENOSPC"))


@fault("session: Ctrl-C", "sessions", "it ends at once, the same command goes on")
def _(project: Project) -> Outcome:
    return ended_by(project, signal.SIGINT)


@fault("session: SIGTERM", "sessions", "it ends at once, the same command goes on")
def _(project: Project) -> Outcome:
    return ended_by(project, signal.SIGTERM)


def ended_by(project: Project, number: int) -> Outcome:
    """Return the outcome of a session that gets a signal while it runs."""
    process = project.start(project.session_command())
    wait_for(project, process, lambda: len(project.left()) >= 3)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    project.wait_until_gone()
    assert process.returncode == 130 and "Traceback" not in output, (process.returncode, output[-1000:])
    return session(project, None)


HELPED = '''"""A loader beside a process that never notices that nobody needs it."""

import subprocess
from contextlib import contextmanager
from dataclasses import replace

from scripts.common import plugins

FORMAT = "memmap"
SETTINGS = ("workers",)


@contextmanager
def open_epochs(request):
    options = {"gather": "batch", "reuse": False}
    with plugins.load("loaders", "numpy_memmap").open_epochs(replace(request, options=options)) as epoch:
        helper = subprocess.Popen(["sleep", "600"])
        yield epoch
        helper.kill()
        helper.wait()
'''


@fault("session: killed at any moment", "sessions", "what had ended stays; the same command goes on", short=True)
def _(project: Project) -> Outcome:
    """By kill -9, each second time with all that it has started."""
    file, chance, before = project.root / "helped.py", random.Random(8), {}
    file.write_text(HELPED)
    entry = {"name": "helped", "file": str(file), "workers": [0, 1]}
    for proof in in_rounds(project, entry, ENDLESS).proofs.values():
        assert project.measured(asdict(proof))["status"] == "ok"
    for number in range(KILLS):
        process = project.start(project.session_command())
        if number % 2 == 0:
            wait_for(project, process, lambda: len(counted(project)) > len(before))  # noqa: B023
        time.sleep(3 * chance.random())
        assert process.poll() is None, f"it ended: {process.communicate()[0][-1000:]}"
        os.killpg(process.pid, signal.SIGKILL)
        if number % 2:
            project.end_all()
        project.wait_until_gone()
        process.communicate()
        after = counted(project)
        assert after.items() >= before.items(), "a run that had ended was lost or made again"
        [found] = facts.sessions(project.root, "demo")
        for path in after:
            record = checked_record(found.record(path.parent.relative_to(found.folder).as_posix(), path), path)
            assert record["status"] == "ok" and record["repeat"] == int(path.stem)
        before = after
    in_rounds(project, entry, 2 + max(int(path.stem) for path in before))
    outcome = session(project, None)
    every = counted(project)
    assert every.items() >= before.items() and (project.root / "results/runs/demo/session-main.json").is_file()
    assert len({path.parent for path in every}) == 2, "with a worker process, and without one"
    return outcome


def in_rounds(project: Project, entry: Mapping[str, Any], rounds: int) -> Plan:
    """Write the plan of a session of so many rounds of one loader, and return it."""
    measure = {**project.config["measure"], "repeats": rounds}
    plan = project.planned({**project.config, "loaders": [entry], "measure": measure})
    write_json(project.root / PLAN, plan.as_json())
    return plan


def counted(project: Project) -> dict[Path, bytes]:
    """Return what the records of the runs hold that count."""
    found = project.root.glob("results/runs/demo/sessions/*/disk/*/*/*.json")
    return {path: path.read_bytes() for path in found if path.stem.isdigit()}


@fault("session: the clock is set back by a day", "sessions", "every number is as long as it was measured")
def _(project: Project) -> Outcome:
    shim = Shim("clock", do="back", after=20, seconds=86_400)
    done = project.run(project.session_command(), shim)
    assert done.status == 0, done.output[-1000:]
    (record,) = project.runs()
    (epoch, *_) = record["times"]["epochs"]
    sane = record["status"] == "ok" and record["items_per_second"] > 0 and 0 < epoch["seconds"] < PATIENCE
    return Outcome(record["reason"] or "", wrong=not sane)


def damage(name: str, path: str, change: Callable[[bytes], bytes], says: str) -> None:
    """Enter a file that a session relies on, damaged: it is said which, and no number comes of it."""

    @fault(name, "sessions", "no number; it says which file to delete", says)
    def _(project: Project) -> Outcome:
        if path.startswith("sessions/"):
            first = project.run(project.session_command())
            assert first.status == 0, first.output[-1000:]
            (project.root / "results/runs/demo/session-main.json").unlink()
        file = next(project.root.glob(f"results/runs/demo/{path}"))
        whole = file.read_bytes()
        file.write_bytes(change(whole))
        done = project.run(project.session_command())
        made = project.runs() if done.status == 0 else []
        file.write_bytes(whole)
        reasons = [record["reason"] or "" for record in made]
        return Outcome("\n".join([done.output, *reasons]), wrong=numbers(*made))


DELETE = r"found it damaged.*Delete "
damage("proof cut", "disk/*/*/proof.json", lambda text: text[:200], DELETE)
damage("checksums cut", "disk/*/*/proof.npy", lambda text: text[:150], DELETE)
damage("an earlier run's record cut", "sessions/*/disk/*/*/0.json", lambda text: text[:200], DELETE)
damage("the session's state cut", "sessions/*/session.json", lambda text: text[:20], DELETE)


# Bounds


def bound(name: str, shim: Shim, says: str | None) -> None:
    """Enter a fault of a session's control runs."""

    @fault(name, "bounds", "no record that looks finished; the same command makes it", says)
    def _(project: Project) -> Outcome:
        return session(project, shim)


bound("control run: killed between write and rename", kills("rename", "/bounds/"), None)
bound("control run: disk full", fails("write", "/bounds/", "ENOSPC"), r"No space left on device.*[Ff]ree some space")
bound(
    "control run: the corpus cannot be read",
    fails("read", "corpus.json", "EIO"),
    r"corpus\.json: Input/output error.*dmesg",
)


@fault(
    "fio is killed while it profiles a tier",
    "bounds",
    "the profile has no speeds, and says why",
    r"killed \(SIGKILL\).*--forcerun profile_tier",
)
def _(project: Project) -> Outcome:
    if shutil.which("fio") is None:
        raise NotHere("no fio on the path: sh envs/system_packages.sh installs it where it may")
    tier, out = project.root / "tier", project.root / "tier.json"
    words = ["--options", json.dumps({"path": str(tier)}), "--tier", "disk", "--item-bytes", "6400", "--seconds", "0.2"]
    folder = project.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "fio").write_text("#!/bin/sh\nkill -9 $$\n")
    (folder / "fio").chmod(0o755)
    command = ["env", f"PATH={folder}:{os.environ['PATH']}", *program_line("profile_tier"), *words, "--out", str(out)]
    done = project.run(command)
    record = json.loads(out.read_text()) if out.is_file() else {"reason": None, "fio": None}
    return Outcome(record["reason"] or done.output, wrong=record["fio"] is not None)
