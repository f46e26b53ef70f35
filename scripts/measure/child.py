"""Runs a program's work in a child process, so that a crash of a library becomes a row with its reason.

A child that is killed or stopped by the user leaves nothing; one that dies of its own fault (a segmentation fault, the
kernel's out-of-memory killer) is reported. The child dies with its parent.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
CHILD = "FEEDRATE_CHILD"
SPIN_COUNT = "1000"  # turns of libgomp's waiting loop, some microseconds
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


def run_again(threads: int, limit_minutes: float) -> str | None:
    """Run this program once more as a child with its thread pools set to `threads`; return why it crashed, or None.

    The pools spin only briefly: by default OpenMP's threads wait some milliseconds at full speed after each parallel
    loop, here the sink's, and would take the cores from a loader's own workers. Not to spin at all would slow down
    loops that follow at once upon another, as in torch's gather.

    Exits with the child's status where the child failed without crashing (an error that it has printed, a signal from
    the user). What the child started ends with it.
    """
    kills = _out_of_memory_kills()
    pools = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment = {**os.environ, **pools, "GOMP_SPINCOUNT": SPIN_COUNT, CHILD: str(os.getpid())}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    child = subprocess.Popen([sys.executable, *sys.argv], env=environment, start_new_session=True)
    try:
        status = child.wait(limit_minutes * 60)
    except subprocess.TimeoutExpired:
        return f"no end after {limit_minutes:g} minutes (measure.limit_minutes)"
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
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
