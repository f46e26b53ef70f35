"""What a run used, by the kernel's accounts of the whole process tree: known work is found in them."""

import mmap
import os
import subprocess
import sys
import time

from measure import host

BURN = "import time\nwhile time.process_time() < 0.4: pass\n"


def moment() -> host.Moment:
    return host.look(time.perf_counter)


def test_work_of_children_counts_while_they_run_and_after_they_have_ended():
    before = moment()
    ended = subprocess.Popen([sys.executable, "-c", BURN])
    ended.wait()
    running = subprocess.Popen(
        [sys.executable, "-c", BURN + "print(1, flush=True)\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    running.stdout.readline()
    after = moment()
    running.communicate(b"\n")
    used = host.resources(before, after, clips=500)
    assert 0.7 < used["cpu_seconds"] < 1.5
    assert used["cpu_seconds_per_1000_clips"] == 2 * used["cpu_seconds"]


def test_pages_that_are_touched_are_faults():
    pages = 2000
    before = moment()
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1
        after = moment()
    used = host.resources(before, after, clips=1)
    assert pages <= used["minor_faults"] < 3 * pages
    assert used["major_faults"] < 100


def test_bytes_from_a_device_are_counted(tmp_path):
    """Of a disk alone: where the temporary folder is in RAM, none are."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(4_000_000))
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = moment()
        size = len(file.read())
        after = moment()
    again = moment()
    path.read_bytes()
    assert size == 4_000_000
    assert host.resources(before, after, 1)["read_bytes"] in range(4_000_000, 6_000_000) or in_memory(tmp_path)
    assert host.resources(again, moment(), 1)["read_bytes"] < 100_000, "from the page cache"


def in_memory(path) -> bool:
    import devices

    return devices.in_memory(path)
