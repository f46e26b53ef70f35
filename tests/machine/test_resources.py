"""What a run used, by the kernel's accounts of the whole process tree: known work is found in them."""

import dataclasses
import mmap
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from scripts.common import serving
from scripts.machine import cores, devices, host, own_group
from tests.support.programs import PROJECT

pytestmark = pytest.mark.alone
BURN = "import time\nwhile time.process_time() < 0.4: pass\nprint(time.process_time(), flush=True)\n"


def moment() -> host.Moment:
    return host.look(time.perf_counter)


def test_work_of_children_counts_while_they_run_and_after_they_have_ended():
    before, began = moment(), time.process_time()
    ended = subprocess.run([sys.executable, "-c", BURN], capture_output=True, check=True)
    running = subprocess.Popen([sys.executable, "-c", BURN + "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    burned = float(ended.stdout) + float(running.stdout.readline())
    after, own = moment(), time.process_time() - began
    running.communicate(b"\n")
    used = host.resources(before, after, items=500)
    assert burned >= 0.8
    assert burned - 0.1 <= used["cpu_seconds"] <= burned + own + 0.3, "by their own accounts; an end costs some more"
    assert used["cpu_seconds_per_1000_items"] == pytest.approx(2 * used["cpu_seconds"])
    assert used["cores"] == pytest.approx(used["cpu_seconds"] / (after.wall_seconds - before.wall_seconds))


HELPER = """
import os, psutil, time
from scripts.machine import host, server_process
server_process.keep_orphans()
before = host.look(time.perf_counter)
told, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        while time.process_time() < 0.4: pass
        os.write(done, b".")
        time.sleep(600)
    os._exit(0)
os.wait()
os.read(told, 1)
used = host.resources(before, host.look(time.perf_counter), items=1)
print(used["cpu_seconds"], flush=True)
psutil.Process().children()[0].kill()
"""


def test_the_work_of_a_helper_counts_that_has_left_its_session_and_lost_its_parent():
    told = subprocess.run([sys.executable, "-c", HELPER], capture_output=True, check=True, cwd=PROJECT)
    tick = 1 / os.sysconf("SC_CLK_TCK")  # of what the kernel says of each process, rounded down
    assert float(told.stdout) >= 0.4 - 2 * tick


def test_pages_that_are_touched_are_faults():
    pages = 2000
    before = moment()
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1
        after = moment()
    used = host.resources(before, after, items=1)
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
    assert host.resources(before, after, 1)["read_bytes"] in range(4_000_000, 6_000_000) or devices.in_memory(tmp_path)
    assert host.resources(again, moment(), 1)["read_bytes"] < 100_000, "from the page cache"


# What slowed the machine down: other machines are planted as folders.


def plant(folder, **files):
    """Write files below a folder; in a name, two underscores stand for a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


V2 = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1500000\n"
V2_ROOT = "usage_usec 5\nuser_usec 5\n"


@pytest.mark.parametrize(
    ("own", "files", "seconds"),
    [
        ("0::/job/step\n", {"job__cpu.stat": V2, "cpu.stat": V2_ROOT}, 1.5),
        ("0::/job/step\n", {"job__step__cpu.stat": V2, "job__cpu.stat": V2}, 3.0),
        ("0::/\n", {"cpu.stat": V2}, 1.5),
        ("0::/on/the/host\n", {"cpu.stat": V2}, 1.5),
        ("0::/\n", {"cpu.stat": V2_ROOT}, None),
        ("", {}, None),
    ],
)
def test_the_time_for_which_a_quota_stopped_the_process(tmp_path, own, files, seconds):
    proc = plant(tmp_path / "proc", self__cgroup=own)
    assert own_group.throttled_seconds(proc, plant(tmp_path / "cgroup", **files)) == seconds


@pytest.mark.parametrize(
    ("own", "limits", "left"),
    [
        ("", {"": "max"}, 10_000),
        ("", {"": "1000"}, 350),  # in a container, whose own root is seen alone
        ("job/step", {"job/step": "max", "job": "1000"}, 350),
        ("job/step", {"job/step": "700", "job": "1000"}, 50),
        ("job", {"job": "600"}, 0),
        ("on/the/host", {}, 10_000),
        ("job", {"job": "20000"}, 10_000),
    ],
)
def test_ram_is_what_the_machine_and_the_limits_of_this_process_leave(tmp_path, monkeypatch, own, limits, left):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10_000))
    proc = plant(tmp_path / "proc", self__cgroup=f"4:memory:/of/v1\n0::/{own}\n")
    for group, limit in limits.items():
        files = {"max": limit, "current": "900", "stat": "anon 500\nfile 400\nshmem 150"}
        plant(tmp_path / "cgroup" / group, **{f"memory.{name}": f"{text}\n" for name, text in files.items()})
    assert devices.available_ram(proc, tmp_path / "cgroup") == left


def test_what_a_machine_does_not_tell_is_null(tmp_path):
    plant(tmp_path, stat="cpu0 1 2 3 4 5 6 7 8 9 10\n")
    seen = host.look(time.perf_counter, tmp_path, tmp_path, tmp_path).as_json()
    assert {name for name, value in seen.items() if value is None} == {
        *("throttled_seconds", "thermal_throttles", "governor")
    }


CPU = "devices__system__cpu__"


def look_at(monkeypatch, folder, cpu_stat, heat, swapped, wall):
    monkeypatch.setattr(psutil, "swap_memory", lambda: SimpleNamespace(used=3072, sin=swapped, sout=swapped))
    proc = plant(
        folder / "proc",
        self__cgroup="0::/job\n",
        stat="cpu0 1 2 3 4 5 6 7 8 9 10\n",
    )
    counts = [f"cpu{cpu}__thermal_throttle__{kind}" for cpu in (0, 1) for kind in ("core", "package")]
    files = {f"{CPU}{count}_throttle_count": heat for count in counts}
    policies = {f"{CPU}cpufreq__policy{number}__scaling_governor": "powersave\n" for number in (0, 1)}
    system = plant(folder / "sys", **files, **policies)
    cgroup = plant(folder / "cgroup", **{"job__cpu.stat": cpu_stat})
    return host.look(lambda: wall, proc, system, cgroup)


def test_quota_heat_and_swap_are_warnings_and_what_does_not_rise_is_none(tmp_path, monkeypatch):
    quiet = look_at(monkeypatch, tmp_path / "quiet", V2, "7\n", 4_000_000, 100.0)
    assert (
        quiet.as_json().items()
        >= {
            "throttled_seconds": 1.5,
            "thermal_throttles": 28,
            "governor": "powersave",
            "swap_used_bytes": 3072,
        }.items()
    )
    later = dataclasses.replace(quiet, wall_seconds=110.0)
    codes = lambda after: {seen["code"] for seen in host.disturbance(quiet, after)}  # noqa: E731
    assert codes(later) == set()
    assert codes(dataclasses.replace(later, throttled_seconds=1.59)) == set(), "0.9 % of the time"
    assert codes(dataclasses.replace(later, throttled_seconds=1.61)) == {"throttled"}
    assert codes(dataclasses.replace(later, thermal_throttles=29)) == {"thermal"}
    assert codes(dataclasses.replace(later, thermal_throttles=None, throttled_seconds=None)) == set()
    worse = look_at(monkeypatch, tmp_path / "worse", V2.replace("15", "25"), "8\n", 8_000_000, 110.0)
    worse = dataclasses.replace(worse, own_seconds=quiet.own_seconds)
    assert codes(worse) == {"throttled", "thermal", "swapping"}
    assert all(set(seen) == {"code", "seen", "cause", "hint"} for seen in host.disturbance(quiet, worse))


def cache_files(cpu: int, index: int, level: int, kind: str, size: str) -> dict[str, str]:
    folder = f"{CPU}cpu{cpu}__cache__index{index}__"
    return {f"{folder}level": f"{level}\n", f"{folder}type": f"{kind}\n", f"{folder}size": size}


def test_the_hardware_is_what_the_kernel_says(tmp_path, monkeypatch):
    """Two sockets of two cores with two threads each, of which the process may use three threads on two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2, 5})
    siblings = {f"{CPU}cpu{cpu}__topology__thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}\n" for cpu in range(8)}
    system = plant(
        tmp_path / "sys",
        **siblings,
        **cache_files(1, 0, 1, "Data", "48K\n"),
        **cache_files(1, 1, 2, "Instruction", "64K\n"),
        **cache_files(1, 2, 2, "Unified", "2048K\n"),
        **{name: text for cpu in range(8) for name, text in cache_files(cpu, 3, 3, "Unified", "32768K\n").items()},
        **{f"{CPU}cpu{cpu}__cache__index3__shared_cpu_list": f"{cpu % 4},{cpu % 4 + 4}\n" for cpu in range(8)},
        **{f"{CPU}smt__active": "1\n", f"{CPU}cpufreq__policy0__scaling_governor": "performance\n"},
        **{f"devices__system__node__node{node}__cpulist": "0-3\n" for node in (0, 1)},
        kernel__mm__transparent_hugepage__enabled="always [madvise] never\n",
    )
    assert host.hardware(system) == {
        "last_level_cache_bytes": 64 << 20,  # two of the four that the machine has
        "smt": "on",
        "l2_cache_bytes": 2 << 20,
        "l3_cache_bytes": 32 << 20,
        "governor": "performance",
        "numa_nodes": 2,
        "transparent_huge_pages": "madvise",
    }
    assert cores.physical_cores_allowed(system, tmp_path) == 2
    for quota, count in (("150000 100000", 2), ("50000 100000", 1), ("max 100000", 2), ("800000 100000", 2)):
        cgroup = plant(tmp_path / "cgroup", **{"cpu.max": quota})
        assert cores.physical_cores_allowed(system, cgroup) == count


def test_hardware_of_which_the_kernel_says_nothing_is_null(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3})
    assert set(host.hardware(tmp_path).values()) == {None}
    assert cores.physical_cores_allowed(tmp_path, tmp_path) == 2, "each is a core as far as is known"


def test_the_driver_of_the_gpu_is_that_of_its_kernel_module(tmp_path):
    assert host.gpu_driver(tmp_path) == {}
    (tmp_path / "driver" / "nvidia").mkdir(parents=True)
    for text in (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12.2.0",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)\n",
    ):
        (tmp_path / "driver" / "nvidia" / "version").write_text(text)
        assert host.gpu_driver(tmp_path) == {"gpu_driver": "550.54.15"}


def test_a_record_says_all_of_it():
    said, _ = host.describe(())
    facts = {*host.hardware(), "physical_cores_allowed", "glibc"}
    assert said.keys() > facts and 1 <= said["physical_cores_allowed"] <= said["cores_allowed"]
    assert said["glibc"] is None or said["glibc"][0].isdigit()


def test_the_kernels_threads_work_for_what_reads_from_a_device():
    every = range(os.cpu_count())
    seconds = host.kernel_seconds(every)
    if not any(process.name() == "kthreadd" for process in psutil.process_iter() if process.pid == host.KTHREADD):
        pytest.skip("a container, which does not see the kernel's threads")
    assert seconds > 0 and host.kernel_seconds([]) == 0
    found = host.look(time.perf_counter, kernel=True)
    assert seconds <= found.served_seconds < seconds + 60 and host.look(time.perf_counter).served_seconds == 0


def test_the_server_of_what_is_measured_is_no_disturbance(monkeypatch):
    program = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(60)"
    server = subprocess.Popen([sys.executable, "-c", program])
    try:
        while sum(psutil.Process(server.pid).cpu_times()[:2]) < 0.25:
            time.sleep(0.01)
        monkeypatch.setitem(serving.served, "a tier", {"endpoint": "", "processes": [server.pid]})
        assert host.look(time.perf_counter).served_seconds >= 0.25
    finally:
        server.kill()
        server.wait()
    assert host.look(time.perf_counter).served_seconds == 0, "it has ended"
