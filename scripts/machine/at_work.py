"""Which programs of feedrate are at work in a folder for another call of Snakemake, and the lock of one that died."""

import contextlib
import os
import platform
import re
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from scripts.common.files import read_json, write_json

PROC = Path("/proc")
NOTE = Path(".snakemake", "feedrate_call.json")  # which process holds Snakemake's lock on a folder, or did last
PROGRAM = re.compile(r"(?:^|\0)-m\0scripts\.(?:prepare|measure)\.(\w+)")  # that make or measure something
PROCESS = "process"  # of a job, or a warm server, which ends by itself; what has asked for it is named


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


def of_other_calls(folder: Path, own: int) -> list[Program]:
    """Return the programs at work in `folder` that the Snakemake with the process `own` has not started, by process id.

    Only of those that this user may look at, on this machine; what a program has started itself is not named.
    """
    found = {}
    for process in psutil.process_iter(["cmdline", "cwd"]):
        name = PROGRAM.search("\0".join(process.info["cmdline"] or ()))
        if name and name[1] != PROCESS and process.info["cwd"] == str(folder):
            found[process.pid] = name[1]
    programs = [
        Program(found[process], process, snakemake_above(process))
        for process in sorted(found)
        if found.keys().isdisjoint(above.pid for above in _ancestors(process))
    ]
    return [program for program in programs if program.snakemake != own]


def note_call(folder: Path) -> None:
    """Note that this process, a call of Snakemake, holds the lock of `folder`; once it does (onstart)."""
    write_json(folder / NOTE, {**_machine(), "process": os.getpid(), "started": _started(os.getpid())})


def release_lock_of_dead(folder: Path) -> bool:
    """Remove Snakemake's lock of `folder` where the call that holds it has died; return whether it did.

    Snakemake itself leaves the lock of a killed call there until somebody types --unlock. A lock stays that was taken
    after the note was written, and one of another machine, or container, whose processes cannot be seen from here.
    """
    locks, note = list((folder / ".snakemake" / "locks").glob("*.lock")), folder / NOTE
    try:
        held, noted = read_json(note), note.stat().st_mtime_ns
        if not locks or max(lock.stat().st_mtime_ns for lock in locks) > noted or not _is_dead(held):
            return False
        for lock in locks:
            lock.unlink()
    except FileNotFoundError:  # no note, or another call has just released the lock
        return False
    return True


def _is_dead(held: dict[str, Any]) -> bool:
    """Return whether the process of a note is known to have ended."""
    here = _machine()
    if held["host"] != here["host"]:
        return False
    if held["boot"] != here["boot"]:
        return True
    return held["namespace"] == here["namespace"] and _started(held["process"]) != held["started"]


def _machine() -> dict[str, str]:
    """Return what tells whether a process id of a note means anything here: the machine, since when, and which ids."""
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return {"host": platform.node(), "boot": boot, "namespace": os.readlink(PROC / "self/ns/pid")}


def _started(process: int) -> str | None:
    """Return when a process began, in ticks since the machine did, or None where it has ended; see proc_pid_stat(5)."""
    try:
        fields = (PROC / f"{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def snakemake_above(process: int) -> int | None:
    """Return the process of the Snakemake that runs this one; None where there is none, or it is gone."""
    for above in _ancestors(process):
        with contextlib.suppress(psutil.Error):
            if any(Path(word).name == "snakemake" for word in above.cmdline()[:3]):  # after an interpreter and -m
                return above.pid
    return None


def _ancestors(process: int) -> list[psutil.Process]:
    """Return the processes above this one, the closest first; none where it has ended."""
    try:
        return psutil.Process(process).parents()
    except psutil.NoSuchProcess:
        return []
