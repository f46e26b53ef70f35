"""A fault in a program's calls of the C library: where it lies, what happens there, and whether it was met.

By `shim.c`, preloaded, where there is a C compiler. Without one a fault is not planted, and its row says so.
"""

import errno
import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
CALLS = ("open", "read", "write", "sync", "rename", "fork", "clock")


class NotHere(Exception):
    """A fault that this machine or user cannot plant; the text says why."""


@functools.cache
def library() -> Path:
    """Return the compiled shim. Raises NotHere without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotHere("no C compiler to make the shim with: install gcc")
    made = Path(tempfile.mkdtemp(prefix="feedrate-shim-")) / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", made, SOURCE, "-ldl"], check=True)
    return made


@dataclass(frozen=True)
class Shim:
    """One planted fault; the words are those of shim.c."""

    call: str
    path: str = ""
    do: str = "error"
    number: int = 0  # errno
    after: int = 0
    seconds: int = 0
    once: bool = False  # to one of all processes

    def environment(self, log: Path) -> dict[str, str]:
        """Return what a program's environment needs; `log` has a byte for each time that it is met."""
        return {
            **{"LD_PRELOAD": str(library()), "FAULT_CALL": self.call, "FAULT_PATH": self.path, "FAULT_DO": self.do},
            **{"FAULT_ERRNO": str(self.number), "FAULT_AFTER": str(self.after), "FAULT_SECONDS": str(self.seconds)},
            **{"FAULT_LOG": str(log), "FAULT_ONCE": "1" if self.once else ""},
        }


def fails(call: str, path: str, name: str, after: int = 0) -> Shim:
    """Return an error of this name, such as ENOSPC, at a call about a path."""
    return Shim(call, path, number=getattr(errno, name), after=after)


def kills(call: str, path: str, after: int = 0, once: bool = False) -> Shim:
    """Return a kill -9 of whichever process is about to make the call."""
    return Shim(call, path, "kill", after=after, once=once)


def cleaned() -> dict[str, str]:
    """Return this process's environment without a planted fault."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("FAULT_", "LD_PRELOAD"))}
