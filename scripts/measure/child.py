"""Runs a program's work in a child process, so that a crash of a library becomes a row with its reason.

A child that is killed or stopped by the user leaves nothing; one that dies of its own fault (a segmentation fault, the
kernel's out-of-memory killer) is reported. The child dies with its parent.
"""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
CHILD = "FEEDRATE_CHILD"
PR_SET_PDEATHSIG = 1  # prctl(2)


def is_child() -> bool:
    """Return whether this process is the child; if so it will be killed when its parent ends."""
    parent = os.environ.pop(CHILD, None)
    if parent is None:
        return False
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it ended before the call above
        sys.exit(1)
    return True


def run_again(threads: int) -> str | None:
    """Run this program once more as a child with its thread pools set to `threads`; return why it crashed, or None.

    Exits with the child's status where the child failed without crashing (an error that it has printed, a signal
    from the user).
    """
    kills = _out_of_memory_kills()
    pools = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment = {**os.environ, **pools, CHILD: str(os.getpid())}
    child = subprocess.Popen([sys.executable, *sys.argv], env=environment)
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.wait()
        sys.exit(130)
    if status == 0:
        return None
    if status < 0 and -status in CRASHES:
        return f"the process crashed ({signal.Signals(-status).name})"
    if status == -signal.SIGKILL and _out_of_memory_kills() > kills:
        return "the kernel killed the process: out of memory"
    sys.exit(status if status > 0 else 128 - status)


def _out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot (0 where it does not say)."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0
