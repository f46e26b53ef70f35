"""Starts the process of a job, watches it, limits it, ends it with all that it has started, and knows why it died.

It is a fork of a warm server (`warm.py`), or a new interpreter; `process.py` is what runs in either. A crash of a
library becomes a cause and its words. Whatever is killed, nothing of a job is left at work.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from scripts.common import isolated
from scripts.common.errors import UserError
from scripts.common.serving import served
from scripts.common.vocabulary import SPIN_COUNT
from scripts.machine.server_process import keep_orphans
from scripts.measure.sampler import Sampler
from scripts.plan.results import Measurement

if TYPE_CHECKING:
    from scripts.measure.warm import Server

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
HINTS = {  # what is mostly the cause, and what to do
    signal.SIGSEGV: ": by a fault in a library; where the log does not help, leave this loader or setting out",
    signal.SIGBUS: ": a file that it has mapped was cut, its device failed (dmesg), or /dev/shm is full (df /dev/shm)",
    signal.SIGKILL: ": use fewer workers or smaller batches, or end other programs",
}
# Kills a process group when whoever holds its stdin is killed: the process ends by itself then, its workers may not.
GUARD = ("sh", "-c", 'read -r ended || kill -s KILL -- "-$1"', "sh")
PROCESS = (sys.executable, "-m", "scripts.measure.process")
PROC, SHARED_MEMORY = Path("/proc"), Path("/dev/shm")
ENDED = ("Z", "X")  # states of a process that nobody has waited for, and of one that is just being removed
LONGEST_DEATH = 5.0  # seconds
LONGEST_TEMPORARY = 75  # bytes of TMPDIR: a socket's path has at most 107 (unix(7)), multiprocessing adds 32


class Cause(StrEnum):
    """Why a measurement has no number; its record has the code beside the words."""

    CRASHED = "crashed"
    OUT_OF_MEMORY = "out-of-memory"  # the kernel killed the process
    NO_END = "no-end"  # within its limit
    NO_ROOM = "no-room"  # its batches do not fit into memory: it was not tried
    LOST = "lost"  # the process ended by itself or was killed from outside, and left no record
    NO_SERVER = "no-server"  # the warm server ended
    FOLLOWS = "follows"  # a rank failed since another did


@dataclass(frozen=True)
class Ended:
    """How a process ended: with a status, or before it could; `cause` and `reason` where it did not end well.

    `record` is what it measured, None where it left none. One that crashes on its way out leaves a record too.
    """

    status: int | None = None
    cause: Cause | None = None
    reason: str | None = None
    record: dict[str, Any] | None = None

    @property
    def crash(self) -> str | None:
        """Why it was not the program that ended the process; None where it was, or where somebody outside did."""
        return None if self.cause in (Cause.LOST, Cause.NO_SERVER) else self.reason


@dataclass(frozen=True)
class Job:
    """What a process is to measure, and what it begins with."""

    measured: Measurement
    threads: int  # of its pools
    heap_seed: int = 0  # of the allocations that the fork of a session begins with
    env: str = isolated.DEFAULT
    environment: Mapping[str, str] = field(default_factory=dict)  # beside that of this process
    groups: Sequence[str] = ()  # folders of the control groups that it joins

    def as_json(self) -> bytes:
        """Return it as `process.py` takes it, on one line."""
        return json.dumps(
            {
                "kind": type(self.measured).__name__,
                "measured": asdict(self.measured),
                "heap_seed": self.heap_seed,
                "groups": list(self.groups),
                "served": served,
                "environment": self.whole_environment(),
                "parent": os.getpid(),
            }
        ).encode()

    def whole_environment(self) -> dict[str, str]:
        """Return all of the environment of its process."""
        return {**environment_of(self.threads), **isolated.environment(self.env), **self.environment}


@dataclass(frozen=True)
class Process:
    """A process at work: once `ended` can be read from, `status` returns how it ended."""

    pid: int
    ended: int
    status: Callable[[], int]


class ServerGoneError(Exception):
    """A warm server that ended, or could not be started."""


def environment_of(threads: int) -> dict[str, str]:
    """Return the environment of a process whose thread pools have so many threads, which spin only briefly.

    By default OpenMP's threads wait some milliseconds at full speed after each parallel loop, here the sink's, and
    would take the cores from a loader's own workers. Not to spin at all would slow down loops that follow at once upon
    another, as in torch's gather.
    """
    pools = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **pools, "GOMP_SPINCOUNT": SPIN_COUNT}


def run(job: Job, watch: Sampler, server: "Server | None" = None, minutes: float | None = None) -> Ended:
    """Do a job in a process of its own, a fork of `server` where there is one; return how that ended, and its record.

    `watch` looks at it. It is ended after `minutes`, by default those of what it measures. The process answers into
    memory that it has from here: of one that is killed no file is left.
    """
    check_temporary()
    with open(os.memfd_create("record"), "rb") as answer:
        ended = _done(job, watch, server, minutes, answer.fileno())
        answer.seek(0)
        with contextlib.suppress(ValueError):  # there is none, or half of one
            return replace(ended, record=json.load(answer))
    return ended


def _done(job: Job, watch: Sampler, server: "Server | None", minutes: float | None, answer: int) -> Ended:
    """Return how a job ended, whose record goes to the descriptor `answer`."""
    kills = out_of_memory_kills()
    limit = job.measured.limit_minutes if minutes is None else minutes
    try:
        with server.forked(job, answer) if server else _interpreter(job, answer) as process:
            status = _status(process, time.monotonic() + limit * 60, watch)
    except TimeoutError:
        setting = " (measure.limit_minutes)" if minutes is None else ""
        return Ended(None, Cause.NO_END, f"no end after {limit:g} minutes{setting}")
    except ServerGoneError as gone:
        lack = f"; the kernel has killed for lack of memory{HINTS[signal.SIGKILL]}"
        return Ended(None, Cause.NO_SERVER, f"{gone}{lack if out_of_memory_kills() > kills else ''}")
    finally:
        watch.end_left()
    return _ended(status, kills)


@contextmanager
def told_to_end() -> Iterator[None]:
    """Have a program that is told to end (SIGTERM, Ctrl-C) exit from the round, whose job ends with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def exit_if_lost(ended: Ended) -> None:
    """Exit as a process that failed without crashing: by an error that it has printed, or a signal from outside."""
    if ended.cause != Cause.LOST:
        return
    if ended.status == -signal.SIGKILL:
        print(
            "error: something killed the measuring process (SIGKILL), perhaps for lack of memory: it leaves no record",
            file=sys.stderr,
        )
    sys.exit(ended.status if ended.status > 0 else 128 - ended.status)


def _ended(status: int, kills: int) -> Ended:
    """Return how a process ended, by its status and the kernel's kills before it."""
    if status == 0:
        return Ended(0)
    if -status in CRASHES:
        words = f"the process crashed ({signal.Signals(-status).name}){HINTS.get(-status, '')}"
        return Ended(status, Cause.CRASHED, words)
    if status == -signal.SIGKILL and out_of_memory_kills() > kills:
        words = f"the kernel killed the process: out of memory{HINTS[signal.SIGKILL]}"
        return Ended(status, Cause.OUT_OF_MEMORY, words)
    return Ended(status, Cause.LOST, f"the process ended with status {status}")


def _status(process: Process, deadline: float, watch: Sampler) -> int:
    """Return the status of a process once it has ended, while `watch` looks at it. Raises TimeoutError."""
    try:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended already
            watch.start(process.pid)
        while True:
            pause = watch.take() if watch.tree else 1.0
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if readable(process.ended, max(0.001, min(pause, left))):
                return process.status()
    finally:
        watch.stop()


@contextmanager
def _interpreter(job: Job, answer: int) -> Iterator[Process]:
    """Start a new interpreter for a job; it ends with the round, and with this process."""
    with ending_orphans(), _started(job, answer) as process:
        yield process


@contextmanager
def _started(job: Job, answer: int) -> Iterator[Process]:
    """Start a new interpreter for a job, and end it."""
    program = subprocess.Popen(
        [*PROCESS, "--answer", str(answer)],
        env=job.whole_environment(),
        stdin=subprocess.PIPE,
        pass_fds=[answer],
        start_new_session=True,
    )
    guard = subprocess.Popen([*GUARD, str(program.pid)], stdin=subprocess.PIPE, start_new_session=True)
    ended = _end_of(program.pid)
    try:
        with contextlib.suppress(BrokenPipeError), program.stdin as told:
            told.write(job.as_json())
        yield Process(program.pid, ended, program.wait)
    finally:
        end(program.pid)
        program.wait()
        os.close(ended)
        guard.communicate(b"ended\n")


def _end_of(child: int) -> int:
    """Return a descriptor that can be read from once a child has ended."""
    try:
        return os.pidfd_open(child)
    except OSError:  # before Linux 5.3, or forbidden in a sandbox
        reading, writing = os.pipe()

        def wait() -> None:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            os.close(writing)

        threading.Thread(target=wait, daemon=True).start()
        return reading


def readable(descriptor: int, seconds: float) -> bool:
    """Wait for so many seconds at most; return whether there is something to read."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def check_temporary() -> None:
    """Raise UserError where worker processes could not send a tensor.

    The sockets for it are in the temporary folder, and where its path is too long, the receiver waits for ever.
    """
    temporary = tempfile.gettempdir()
    if len(os.fsencode(temporary)) > LONGEST_TEMPORARY:
        raise UserError(
            f"TMPDIR: found {temporary}, a path of {len(os.fsencode(temporary))} bytes; allowed are at most "
            f"{LONGEST_TEMPORARY}, since the sockets of worker processes are there. Name a shorter one: TMPDIR=/tmp"
        )


def end(pid: int) -> None:
    """Kill a process that leads a session, all that is in it, and the sessions that were started below it: ranks."""
    for leader in [*_sessions_below(pid), pid]:
        _end_session(leader)


def _end_session(leader: int) -> None:
    """Kill the process group of a session's leader and remove what torch's processes in the session have left in RAM.

    torch names such a file by the process that has made it, and takes the name away at once, unless it is killed
    before. Returns when they have ended: a killed process runs on until the kernel has taken it down, beside whatever
    is measured next. One that hangs in the kernel, on a device, is waited for LONGEST_DEATH seconds.
    """
    members = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit() and _in_group(entry, leader)]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    deadline = time.monotonic() + LONGEST_DEATH
    while any(_in_group(PROC / str(process), leader) for process in members) and time.monotonic() < deadline:
        time.sleep(0.001)
    for process in {leader, *members}:
        for left in SHARED_MEMORY.glob(f"torch_{process}_*"):
            left.unlink(missing_ok=True)


@contextmanager
def ending_orphans() -> Iterator[None]:
    """Kill what a program that the block has started and waited for has left behind, in whatever session.

    The block starts no process that outlasts it.
    """
    known = _children()
    keep_orphans()
    try:
        yield
    finally:
        end_children(known)
        keep_orphans(False)


def end_children(known: Collection[int] = ()) -> None:
    """Kill and wait for all children of this process but the known ones, and for all that is below them."""
    while left := _children() - {*known}:
        for process in left:  # what one of them has started is a child of this process from now on
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # somebody else has waited for it
                os.waitpid(process, 0)


def _children() -> set[int]:
    return {process.pid for process in psutil.Process().children()}


def _sessions_below(pid: int) -> list[int]:
    """Return the leaders of the sessions that a process and its descendants have started: those of ranks."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(ProcessLookupError):
                found += [process.pid] if os.getsid(process.pid) == process.pid else []
    return found


def _in_group(process: Path, leader: int) -> bool:
    """Return whether a process is of this leader's group and has not ended."""
    try:
        state, _parent, group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:  # ended meanwhile
        return False
    return int(group) == leader and state not in ENDED  # proc_pid_stat(5)


def out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot (0 where it does not say)."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0
