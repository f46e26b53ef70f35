"""The lock of a call that died is taken over, and no other; by Snakemake itself, on a workflow of one job."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.machine import at_work
from tests.support.programs import PROJECT

WORKFLOW = f"""
import sys
from pathlib import Path

sys.path.insert(0, {str(PROJECT)!r})
from scripts.machine import at_work

if workflow.is_main_process:
    at_work.release_lock_of_dead(Path.cwd())

onstart:
    at_work.note_call(Path.cwd())

rule all:
    output: "made"
    shell: "echo begun > {{output}}; touch held; while [ ! -e released ]; do sleep 0.05; done; echo done > {{output}}"
"""
PATIENCE = 120


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    return tmp_path


def started(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--rerun-incomplete"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def held(folder: Path) -> subprocess.Popen:
    """A call in the midst of its job."""
    call = started(folder)
    until = time.monotonic() + PATIENCE
    while not (folder / "held").exists():
        assert call.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    (folder / "held").unlink()
    return call


def test_after_a_kill_of_all_its_processes_the_same_command_goes_on(folder):
    """Twice, and what was half made is made again."""
    for _ in range(2):
        call = held(folder)
        os.killpg(call.pid, signal.SIGKILL)
        call.communicate()
        assert list((folder / ".snakemake" / "locks").iterdir()) and (folder / "made").read_text() == "begun\n"
    (folder / "released").touch()
    call = started(folder)
    _, said = call.communicate(timeout=PATIENCE)
    assert call.returncode == 0, said
    assert (folder / "made").read_text() == "done\n"


def test_beside_a_call_that_lives_there_is_no_other(folder):
    first = held(folder)
    second = started(folder)
    _, said = second.communicate(timeout=PATIENCE)
    assert second.returncode != 0 and "LockException" in said
    (folder / "released").touch()
    first.communicate(timeout=PATIENCE)
    assert first.returncode == 0 and (folder / "made").read_text() == "done\n"


@pytest.mark.parametrize(
    ("changes", "released"),
    [
        ({}, True),
        ({"host": "another"}, False),  # whose processes nobody here can see
        ({"namespace": "pid:[1]"}, False),
        ({"boot": "earlier", "process": os.getpid()}, True),  # before the machine was started again
        ({"process": os.getpid()}, True),  # a later process has the number
        (None, False),  # of a call that noted nothing
    ],
)
def test_only_the_lock_of_a_call_that_is_known_to_be_dead_is_released(tmp_path, changes, released):
    lock = tmp_path / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("made\n")
    if changes is not None:
        at_work.note_call(tmp_path)
        note = tmp_path / at_work.NOTE
        dead = {**json.loads(note.read_text()), "process": 2**22 + 1, "started": "0"}
        note.write_text(json.dumps(dead | changes))
    assert at_work.release_lock_of_dead(tmp_path) == released
    assert lock.exists() != released


def test_a_lock_of_this_process_or_later_than_the_note_stays(tmp_path):
    lock = tmp_path / ".snakemake" / "locks" / "0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    at_work.note_call(tmp_path)
    assert not at_work.release_lock_of_dead(tmp_path)
    note = tmp_path / at_work.NOTE
    note.write_text(json.dumps({**json.loads(note.read_text()), "started": "0"}))
    os.utime(note, (1, 1))
    assert not at_work.release_lock_of_dead(tmp_path) and lock.exists()
