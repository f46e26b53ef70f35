"""Runs a program's work in a child process, so that a crash of a library becomes a row with its reason.

A child that is killed or stopped by the user leaves nothing; one that dies of its own fault (a segmentation fault, the
kernel's out-of-memory killer) is reported. The child dies with its parent.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil

from scripts.common.errors import UserError
from scripts.machine import control_groups

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
HINTS = {  # what is mostly the cause, and what to do
    signal.SIGSEGV: ": by a fault in a library; where the log does not help, leave this loader or setting out",
    signal.SIGBUS: ": a file that it has mapped was cut, its device failed (dmesg), or /dev/shm is full (df /dev/shm)",
    signal.SIGKILL: ": use fewer workers or smaller batches, or end other programs",
}
# Kills a process group when whoever holds its stdin is killed: the child ends by itself then, its workers may not.
GUARD = ("sh", "-c", 'read -r ended || kill -KILL -- "-$1"', "sh")
CHILD = "FEEDRATE_CHILD"
SPIN_COUNT = "1000"  # turns of libgomp's waiting loop, some microseconds
PROC, SHARED_MEMORY = Path("/proc"), Path("/dev/shm")
PR_SET_PDEATHSIG = 1  # prctl(2)
ENDED = ("Z", "X")  # states of a process that nobody has waited for, and of one that is just being removed
LONGEST_DEATH = 5.0  # seconds
LONGEST_TEMPORARY = 75  # bytes of TMPDIR: a socket's path has at most 107 (unix(7)), multiprocessing adds 32


class Watch(Protocol):
    """Looks at the child while it runs; see measure/sampler.py."""

    def start(self, pid: int) -> None:
        """Look at this process, which has just been started, and at its descendants."""

    def take(self) -> float:
        """Look at them if it is time to; return after how many seconds it will be."""

    def stop(self) -> None:
        """Stop looking: the child has ended, or is about to be killed."""


joined: list[str] = []  # the folders of the control groups that this process is in, once is_child has been asked


def is_child() -> bool:
    """Return whether this process is the child; if so it will be killed when its parent ends.

    It joins the control groups that its parent has made for it, so call this before anything heavy is imported:
    memory stays with the group in which it was first touched.
    """
    parent = os.environ.pop(CHILD, None)
    if parent is None:
        return False
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it ended before the call above
        sys.exit(1)
    joined.extend(control_groups.from_environment())
    control_groups.join(joined)
    return True


def environment_of(threads: int) -> dict[str, str]:
    """Return the environment of a child whose thread pools have so many threads, which spin only briefly."""
    pools = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **pools, "GOMP_SPINCOUNT": SPIN_COUNT, CHILD: str(os.getpid())}


def run_again(
    threads: int,
    limit_minutes: float,
    watch: Watch | None = None,
    folders: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> str | None:
    """Run this program once more as a child with its thread pools set to `threads`; return why it crashed, or None.

    The pools spin only briefly: by default OpenMP's threads wait some milliseconds at full speed after each parallel
    loop, here the sink's, and would take the cores from a loader's own workers. Not to spin at all would slow down
    loops that follow at once upon another, as in torch's gather.

    `watch` looks at the child while this process waits for it; `folders` are the control groups that the child joins,
    `more` is what else is in its environment.

    Exits with the child's status where the child failed without crashing (an error that it has printed, a signal from
    the user). What the child started ends with it.
    """
    check_temporary()
    kills = out_of_memory_kills()
    environment = environment_of(threads) | control_groups.environment(folders) | dict(more or {})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    child = subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env=environment, start_new_session=True)
    guard = subprocess.Popen([*GUARD, str(child.pid)], stdin=subprocess.PIPE, start_new_session=True)
    try:
        status = _wait(child, limit_minutes * 60, watch) if watch else child.wait(limit_minutes * 60)
    except subprocess.TimeoutExpired:
        return no_end(limit_minutes)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        for leader in [*_sessions_below(child.pid), child.pid]:
            end_session(leader)
        child.wait()
        guard.communicate(b"ended\n")
    return crash_or_exit(status, kills)


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


def no_end(limit_minutes: float) -> str:
    """Return why what took longer than it may has no number."""
    return f"no end after {limit_minutes:g} minutes (measure.limit_minutes)"


def crash_or_exit(status: int, kills: int) -> str | None:
    """Return why a child crashed, or None where it ended well; exit with its status where it failed otherwise.

    `kills`: those of the kernel before it (`out_of_memory_kills`).
    """
    if status == 0:
        return None
    crash = crash_of(status, kills)
    if crash:
        return crash
    if status == -signal.SIGKILL:
        print(
            "error: the measuring process was killed from outside (SIGKILL), perhaps for lack of memory, by a service "
            "or a limit of the machine; it leaves no record",
            file=sys.stderr,
        )
    sys.exit(status if status > 0 else 128 - status)


def end_session(leader: int) -> None:
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


def crash_of(status: int, kills: int) -> str | None:
    """Return why a process ended that did not end well, by its status and the kernel's kills before it; or None."""
    if status < 0 and -status in CRASHES:
        return f"the process crashed ({signal.Signals(-status).name}){HINTS.get(-status, '')}"
    if status == -signal.SIGKILL and out_of_memory_kills() > kills:
        return f"the kernel killed the process: out of memory{HINTS[signal.SIGKILL]}"
    return None


def _wait(child: subprocess.Popen, seconds: float, watch: Watch) -> int:
    """Return the child's status once it has ended, while `watch` looks at it; TimeoutExpired after `seconds`."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        stack.callback(watch.stop)
        watch.start(child.pid)
        try:
            ended = os.pidfd_open(child.pid)
        except OSError:  # before Linux 5.3, or forbidden in a sandbox
            ended = None
        else:
            stack.callback(os.close, ended)
        while True:
            pause = watch.take()
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(child.args, seconds)
            if _ended(child, ended, min(pause, left)):
                return child.wait()


def _ended(child: subprocess.Popen, pidfd: int | None, seconds: float) -> bool:
    """Wait for so many seconds at most; return whether the child has ended."""
    if pidfd is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
        return child.returncode is not None
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot (0 where it does not say)."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0
