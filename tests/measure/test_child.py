"""A session of processes that is ended leaves nothing of torch's in RAM."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from scripts.measure import child

PARENT = """
import os, sys, time
if os.fork():
    os.waitpid(-1, 0)
open(f"/dev/shm/torch_{os.getpid()}_1_0", "x").close()
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def planted():
    """Two processes of a session, each with a file in RAM as torch names it; and a file of another process."""
    started = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    worker = int(started.stdout.readline())
    files = [Path(f"/dev/shm/torch_{number}_1_0") for number in (worker, os.getpid())]
    files[1].touch()
    yield started, worker, files
    started.kill()
    started.wait()
    started.stdout.close()
    for file in files:
        file.unlink(missing_ok=True)


def test_what_torch_has_left_in_ram_goes_with_its_processes(planted):
    started, worker, (left, of_another) = planted
    assert left.exists()
    child.end_session(started.pid)
    started.wait()
    assert not left.exists(), "left in RAM by a worker that was killed"
    assert of_another.exists(), "a file of a process that lives"
    assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE


def test_a_session_that_is_gone_is_no_error():
    gone = subprocess.Popen(["true"], start_new_session=True)
    gone.wait()
    child.end_session(gone.pid)
