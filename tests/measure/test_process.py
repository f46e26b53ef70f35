"""What a fork of the warm server begins with: pages of its own."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from bench.made_results import demo_results, made_results
from scripts.measure.process import unforkable

PROGRAM = """
import os
from types import SimpleNamespace
import numpy as np
from scripts.measure.ceiling import keep_from_workers
from scripts.measure.process import own, private_pages

def shared():
    with open("/proc/self/smaps_rollup") as lines:
        found = dict(line.split(":") for line in lines if "kB" in line)
    return 1024 * int(found["Shared_Dirty"].split()[0])

def mapped():
    with open("/proc/self/statm") as sizes:
        return os.sysconf("SC_PAGESIZE") * int(sizes.read().split()[0])

kept, pool = np.full(64 << 20, 3, np.uint8), np.full(32 << 20, 5, np.uint8)
untouched = np.empty(64 << 20, np.uint8)
written = list(private_pages(pool))
gone = (1 << 46, 4096)  # as what the server has given back since: nothing is there
sizes = {"listed": sum(size for _, size in written)}
child = os.fork()
sizes["before"] = shared()
if not child:
    own([gone, *written])
    sizes["after"] = shared()
    assert (kept == 3).all() and (pool == 5).all()
    sizes["mapped"] = mapped()
    keep_from_workers(pool)
    worker = os.fork()
    if not worker:
        print(*sizes.values(), mapped(), flush=True)
        os._exit(0)
    assert os.waitpid(worker, 0)[1] == 0 and (pool == 5).all()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (5, 14), reason="MADV_POPULATE_WRITE is of Linux 5.14"
)
def test_own_pages() -> None:
    """A child has all of its parent's memory to itself that is in use, and shares the pool alone; its workers do not
    have that.
    """
    found = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    listed, before, after, mapped, by_worker = map(int, found.stdout.split())
    assert not found.stderr
    assert 64 << 20 <= listed < 110 << 20  # neither the pool nor what was never touched
    assert before - after > 60 << 20
    assert 30 << 20 <= after < 60 << 20
    assert 30 << 20 <= mapped - by_worker <= 32 << 20


def test_a_server_that_has_begun_to_use_cuda_says_that_its_forks_could_not(monkeypatch):
    assert unforkable() is None
    monkeypatch.setattr("os.path.realpath", lambda _path: "/dev/nvidiactl")
    assert "has begun to use CUDA" in unforkable()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_runs_are_forks_too():
    with made_results(demo_results(["ring"], "cuda"), items=64) as made:
        for number in range(2):
            record = made.runner.make(replace(made.results["ring"], repeat=number))
            assert (record["status"], record["reason"], record["started_by"]) == ("ok", None, "fork")
