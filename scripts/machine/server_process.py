"""A server that a program starts for its own life: it ends with its parent, however that ends."""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

PRCTL, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = ctypes.CDLL(None).prctl, 1, 36  # prctl(2)


@contextmanager
def running(command: Sequence[str], log: Path, stdout: int | None = None) -> Iterator[subprocess.Popen]:
    """Run a server while the block runs; what it prints is in the file `log`, stdout too unless that is given.

    It is in a session of its own, so that Ctrl-C reaches the program alone, which then ends it. The kernel kills it
    when the thread that has started it ends: start it in the main thread.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as file:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file if stdout is None else stdout,
            stderr=file,
            start_new_session=True,
            preexec_fn=partial(end_with, os.getpid()),
        )
        try:
            yield server
        finally:
            server.kill()
            server.wait()
            if server.stdout:
                server.stdout.close()


def first_line(server: subprocess.Popen, log: Path) -> str:
    """Return the line that a server prints once it listens. Raises OSError with the end of its log where it ends."""
    stream: IO[bytes] = server.stdout
    line = stream.readline().decode().strip()
    if not line:
        raise OSError(f"the server ended with status {server.wait()}: {last_words(log)}")
    return line


def last_words(log: Path) -> str:
    """Return the end of a log."""
    with contextlib.suppress(OSError):
        return log.read_text(encoding="utf-8", errors="replace").strip()[-300:]
    return ""


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; end at once where that has ended already.

    The parent is the thread that has started it.
    """
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def keep_orphans(kept: bool = True) -> None:
    """Have what this process has started stay below it, whatever sessions it begins and whatever parents end."""
    PRCTL(PR_SET_CHILD_SUBREAPER, int(kept))
