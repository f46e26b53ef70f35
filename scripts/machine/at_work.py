"""Which programs of feedrate are at work in a folder for another call of Snakemake: one that lives, or was killed."""

import os
import re
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
PROGRAM = re.compile(rb"(?:^|\0)-m\0scripts\.\w+\.(\w+)")
PROCESS = b"process"  # of a job, or a warm server, which ends by itself; what has asked for it is named


class Program(NamedTuple):
    """A program at work."""

    name: str
    process: int
    snakemake: int | None  # the process that has started it; None where that is gone

    def words(self) -> str:
        """Return it as a message names it."""
        of = "whose Snakemake is gone" if self.snakemake is None else f"of Snakemake (process {self.snakemake})"
        return f"{self.name} (process {self.process}), {of}"


def of_other_calls(folder: Path, call: str, proc: Path = PROC) -> list[Program]:
    """Return the programs that were started in `folder` by another call than `call` (FEEDRATE_CALL), by process id.

    Only of those that this user may look at, on this machine; what a program has started itself is not named.
    """
    found = {}
    for process in (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()):
        try:
            name = PROGRAM.search((proc / f"{process}/cmdline").read_bytes())
            if name is None or name[1] == PROCESS or Path(os.readlink(proc / f"{process}/cwd")) != folder:
                continue
            variables = (proc / f"{process}/environ").read_bytes().split(b"\0")
            theirs = next((one[14:] for one in variables if one.startswith(b"FEEDRATE_CALL=")), None)
            if theirs is not None and theirs != call.encode():
                found[process] = name[1].decode()
        except OSError:  # ended meanwhile, or another user's
            continue
    above = {process: _ancestors(process, proc) for process in found}
    return [
        Program(found[process], process, snakemake_above(process, proc))
        for process in sorted(found)
        if not found.keys() & set(above[process])
    ]


def snakemake_above(process: int, proc: Path = PROC) -> int | None:
    """Return the process of the Snakemake that runs this one; None where there is none, or it is gone."""
    return next((one for one in _ancestors(process, proc) if _is_snakemake(one, proc)), None)


def _ancestors(process: int, proc: Path) -> list[int]:
    """Return the processes above this one, the closest first; see proc_pid_stat(5)."""
    above = []
    try:
        while (process := int((proc / f"{process}/stat").read_text().rpartition(")")[2].split()[1])) > 0:
            above.append(process)
    except OSError:  # ended meanwhile
        pass
    return above


def _is_snakemake(process: int, proc: Path) -> bool:
    try:
        words = (proc / f"{process}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return False
    return any(Path(word).name == "snakemake" for word in words[:3])  # after an interpreter and -m
