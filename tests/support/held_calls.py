"""A small project whose job fetch_clips is held at its beginning, so that a second call, or a kill, meets the first."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen

from tests.support.workflow_copy import PATIENCE, ProjectCopy, folders

HOLDING_PYTHON = """#!/bin/bash
if [[ $2 = scripts.prepare.fetch_clips ]]; then
  echo $$ > {folder}/held
  while [[ ! -e {folder}/released ]]; do sleep 0.05; done
fi
exec {python} "$@"
"""
WANTED = "results/clips/demo/clips.json"


@contextmanager
def held_project() -> Iterator[tuple[ProjectCopy, Path]]:
    """Yield a project, and a folder with a python that holds fetch_clips until there is a file `released`."""
    with folders() as (disk, ram):
        python = disk / "bin" / "python"
        python.parent.mkdir()
        python.write_text(HOLDING_PYTHON.format(folder=python.parent, python=sys.executable))
        python.chmod(0o755)
        yield ProjectCopy(disk / "feedrate", ram, storage={"disk": {"path": "results/placed"}}), python.parent
        (python.parent / "released").touch()


def until(scenario: Callable[[], bool], process: Popen | None = None) -> None:
    """Wait until a scenario holds, as long as a process that is needed for it lives."""
    end = time.monotonic() + PATIENCE
    while not scenario():
        assert process is None or process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Return whether a process, of which this one is not the parent, is there."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
