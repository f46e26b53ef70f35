"""Which programs of feedrate are at work in a folder for another call of Snakemake: one that lives, or was killed."""

import os
import re
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
PROGRAM = re.compile(rb"(?:^|\0)-m\0scripts\.(?:prepare|measure)\.(\w+)")  # that make or measure something
PROOFS = b"proof_server"  # which ends by itself; what it forks for is named


class Program(NamedTuple):
    """A program at work."""

    name: str
    process: int
    snakemake: int | None  # the process that has started it; None where that is gone

    def words(self) -> str:
        """Return it as a message names it."""
        of = (
            "whose Snakemake is gone, or that was typed by hand"
            if self.snakemake is None
            else f"of Snakemake (process {self.snakemake})"
        )
        return f"{self.name} (process {self.process}), {of}"


def of_other_calls(folder: Path, own: int, proc: Path = PROC) -> list[Program]:
    """Return the programs at work in `folder` that the Snakemake with the process `own` has not started, by process id.

    Only of those that this user may look at, on this machine; what a program has started itself is not named.
    """
    found = {}
    for process in (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()):
        try:
            name = PROGRAM.search((proc / f"{process}/cmdline").read_bytes())
            if name is None or name[1] == PROOFS or Path(os.readlink(proc / f"{process}/cwd")) != folder:
                continue
        except OSError:  # ended meanwhile, or another user's
            continue
        found[process] = name[1].decode()
    above = {process: _ancestors(process, proc) for process in found}
    programs = [
        Program(found[process], process, snakemake_above(process, proc))
        for process in sorted(found)
        if not found.keys() & set(above[process])
    ]
    return [program for program in programs if program.snakemake != own]


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
