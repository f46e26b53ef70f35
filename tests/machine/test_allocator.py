"""The allocator of a measuring process: what the plan makes of it, what `keep` does to page faults, and the reasons."""

import ctypes.util
import json
import platform
import subprocess
import sys

import pytest
import yaml

from scripts.machine import allocator
from scripts.plan.experiment import Plan
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line

# Prints the page faults of ten blocks of 40 MB, each freed before the next, the first two not counted.
FAULTS = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes, libc.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]
def blocks(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        block = libc.malloc(40_000_000)
        libc.memset(block, 1, 40_000_000)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def faults():
    blocks(2)
    return blocks(10)
"""
CHOSEN = "import os, subprocess, sys\nfrom scripts.machine.allocator import chosen\nassert chosen('keep') is None\n"
FORKED = "\nif not os.fork():\n    print(faults(), flush=True)\n    os._exit(0)\nos.wait()"
ANEW = "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"


def plan(loaders=("numpy_memmap",), **sweep) -> Plan:
    raw = yaml.safe_load((PROJECT / "config.yaml").read_text())
    asked = {"device": ["cpu"], "workers": [0], "task": ["read", "train", "lightning"], "cache": ["warm"], **sweep}
    raw["measure"]["train_sweep"] = "all"
    return Plan({**raw, "dataset": "demo", "loaders": list(loaders), "sweep": asked})


def test_default_changes_no_name_and_another_one_is_a_run_of_its_own_in_every_task():
    usual = {result.slug for result in plan().results}
    assert usual == {f"cpu-b32-w0-gather_batch{task}" for task in ("", "-train", "-lightning")}
    assert {result.settings["allocator"] for result in plan().results} == {None}
    both = plan(allocator=["default", "keep"]).results
    assert {result.slug for result in both} == usual | {slug.replace("w0", "w0-keep") for slug in usual}
    assert {result.settings["allocator"] for result in both} == {None, "keep"}


def test_a_loader_may_say_another_one_than_the_sweep():
    results = plan([{"name": "numpy_memmap", "allocator": ["keep"]}, "resident"]).results
    assert {(result.loader, result.settings["allocator"]) for result in results} == {
        ("numpy_memmap", "keep"),
        ("resident", None),
    }


def faults(program: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", program, f"{FAULTS}print(faults())"], cwd=PROJECT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def test_kept_memory_is_faulted_in_once_in_this_process_a_fork_and_one_started_anew():
    [usual] = faults(f"{FAULTS}print(faults())")
    assert usual > 10 * 10, "each block is new: some 10,000 pages, or 20 huge ones"
    assert max(found := faults(f"{CHOSEN}{FAULTS}print(faults(), flush=True){FORKED}\n{ANEW}")) < 50, found
    assert len(found) == 3


# The same in a thread, beside a block that it holds: together they are more than a heap of a thread takes.
IN_A_THREAD = """
import threading
def beside():
    held = libc.malloc(40_000_000)
    print(faults(), flush=True)
thread = threading.Thread(target=beside)
thread.start()
thread.join()
"""


def test_memory_that_threads_free_is_kept_too():
    of_threads = FAULTS + IN_A_THREAD
    [other] = faults(f"{CHOSEN}import ctypes\nctypes.CDLL(None).mallopt(-8, 8)\n{of_threads}")
    assert other > 10 * 10, "each block is a heap of its own, given back"
    assert faults(f"{CHOSEN}{of_threads}")[0] < 50


def test_another_c_library_is_a_reason(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("musl", "1.2.5"))
    assert "another one" in allocator.chosen("keep")
    assert allocator.chosen(None) is allocator.chosen("default") is None


@pytest.mark.parametrize("name", allocator.LIBRARIES)
def test_a_library_that_is_absent_is_a_reason_that_names_its_package(monkeypatch, name):
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: None)
    assert allocator.LIBRARIES[name].package in allocator.chosen(name)
    assert allocator.environment(name) == {}


@pytest.mark.parametrize("name", allocator.LIBRARIES)
def test_a_library_is_preloaded_before_what_was_and_missed_where_it_was_not(monkeypatch, name, tmp_path):
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so.9")
    monkeypatch.setenv("LD_PRELOAD", "before.so")
    file = f"lib{allocator.LIBRARIES[name].name}.so.9"
    assert allocator.environment(name) == {"LD_PRELOAD": f"{file} before.so"}
    assert allocator.environment(None) == allocator.environment("keep") == {}
    assert "started without" in allocator.chosen(name)
    (tmp_path / "maps").write_text(f"7f00-7f01 r-xp 0 08:01 9 /usr/lib/{file}\n")
    assert allocator._not_preloaded(name, tmp_path / "maps") is None


@pytest.mark.parametrize("name", ["keep", "jemalloc"])
def test_a_record_says_under_which_one_it_was_measured(tmp_path, name):
    corpus = make_corpus(tmp_path / "corpus", items=30, seconds=0.1)
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    settings = {"batch_size": 8, "allocator": name}
    line = [*program_line("run_loader.py"), "--loader", "numpy_memmap", "--seconds", "0", "--settings"]
    line += [json.dumps(settings), "--out", tmp_path / "run.json"]
    line += ["--data", tmp_path / "memmap", "--corpus", tmp_path / "corpus"]
    subprocess.run(line, check=True)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["settings"]["allocator"] == name and record["slug"] == f"cpu-b8-w0-{name}-gather_batch"
    assert record["declared"]["lifetime"] == "lasting"
    if name == "keep" or ctypes.util.find_library(name):
        assert (record["status"], record["reason"]) == ("ok", None)
    else:
        assert record["status"] == "skipped" and "Debian's package is libjemalloc2" in record["reason"]
    assert ("mallopt" in record["declared"]["program"]) == (name == "keep")
