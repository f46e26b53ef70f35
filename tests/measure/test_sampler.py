"""What the sampler sees of process trees whose memory is known, what it costs, and what it makes of gaps and growth."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from scripts.machine import gpu
from scripts.measure import sampler
from scripts.measure.sampler import Sampler, Tree, copied, copying, growing, per_epoch, pss_of_tree

pytestmark = pytest.mark.alone
MB = 1_000_000

# A process that does what it is told, a line at a time, and answers each with a line.
MAKER = """
import mmap, os, sys

def touched(megabytes, shared=False):
    kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
    memory = mmap.mmap(-1, megabytes * 1_000_000, kind | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    touch(memory)
    return memory

def touch(memory):
    for start in range(0, len(memory), 4096):
        memory[start] = 1

workers = []
def fork(do):
    # A child that calls do(line) for each line it is sent, and answers.
    (down, told), (answer, up) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        for _, told, answer in workers:  # or they would never see the end of theirs
            told.close()
            os.close(answer)
        workers.clear()
        with os.fdopen(down) as lines:
            for line in lines:
                do(line)
                os.write(up, b".")
        end()
        os._exit(0)
    os.close(down)
    os.close(up)
    workers.append((pid, os.fdopen(told, "w", buffering=1), answer))

def tell(line="go"):
    for _, told, _ in workers:
        print(line, file=told)
    for _, _, answer in workers:
        os.read(answer, 1)

def end():
    for pid, told, answer in workers:
        told.close()
        os.close(answer)
        os.waitpid(pid, 0)
    workers.clear()

for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@contextmanager
def maker():
    """A process, and the function that tells it a line and waits until it is done."""
    command = [sys.executable, "-c", MAKER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(line):
        print(line, file=process.stdin, flush=True)
        assert process.stdout.readline() == "done\n"

    try:
        yield process.pid, tell
        tell("end()")
    finally:
        process.kill()  # what it forked ends with it
        process.communicate()


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def watch(pid, **options) -> tuple[Sampler, Clock]:
    """A sampler that reads PSS at each sample, and its clock."""
    clock = Clock()
    return Sampler(pid, clock, **{"budget": 1e9, "gpu": False, **options}), clock


def step(watcher: Sampler, clock: Clock) -> None:
    """The next sample, however expensive the last one was."""
    clock.now = max(watcher.due, clock.now) + 1e-6
    watcher.take()


def reading(when, anonymous, shared=0, pids=(1, 2)):
    names = ("pss_bytes", "main_bytes", "worker_bytes")
    common = {"time": when, "reason": None, "pids": list(pids), "shared_bytes": shared, "anonymous_bytes": anonymous}
    return {**common, **dict.fromkeys((*names, *sampler.PARTS), anonymous)}


# Memory that is known


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "private before the fork"])
def test_shared_memory_counts_once(shared):
    """200 MB in common and 20, 40 and 60 MB of the children's own are 320 MB, whatever RSS says."""
    with maker() as (pid, tell):
        for _ in range(3):
            tell("fork(lambda line: None)")
        tell("tell()")
        base = pss_of_tree(pid)
        tell("end()")
        tell(f"common = touched(200, {shared}); kept = []")
        for size in (20, 40, 60):
            tell(f"fork(lambda line: (sum(common[::4096]), kept.append(touched({size}))))")
        tell("tell()")
        whole = pss_of_tree(pid)
        watcher, clock = watch(pid)
        step(watcher, clock)
        watcher.stop()
        summary = watcher.summary(clock.now, clock.now)
    assert whole["reason"] is None
    assert len(whole["pids"]) == 4
    for name in ("pss_bytes", "anonymous_bytes"):
        assert whole[name] - base[name] == pytest.approx(320 * MB, rel=0.02)
    assert whole["main_bytes"] - base["main_bytes"] == pytest.approx(50 * MB, rel=0.05), "a quarter of what is shared"
    assert whole["worker_bytes"] - base["worker_bytes"] == pytest.approx(110 * MB, rel=0.05)
    assert summary["pss_peak_bytes"] == pytest.approx(whole["pss_bytes"], rel=0.01)
    assert summary["pss_per_worker_peak_bytes"] == pytest.approx(whole["worker_bytes"], rel=0.01)
    assert summary["rss_peak_bytes"] > 4 * 200 * MB, "once for each process"
    kind, other = ("shared", "private") if shared else ("private", "shared")
    grew = {name: whole[part] - base[part] for name, part in (("private", "heap_bytes"), ("shared", "shmem_bytes"))}
    assert grew[kind] == pytest.approx(200 * MB + (0 if shared else 120 * MB), rel=0.02)
    assert grew[other] == pytest.approx(120 * MB if shared else 0, abs=6 * MB)
    for name, part in (("private", "heap_bytes"), ("shared", "shmem_bytes"), ("file", "file_bytes")):
        assert summary[f"pss_{name}_peak_bytes"] == pytest.approx(whole[part], rel=0.01, abs=MB)
    assert summary["rss_private_peak_bytes"] > (120 if shared else 4 * 200 + 120) * MB
    assert summary["processes_peak"] == 4
    assert summary["threads_peak"] == 4
    assert summary["open_files_peak"] >= 4 * 3


TRAP = "data = [(number, str(number)) for number in range(300_000)]"
ARRAY = "import numpy; data = numpy.ones(10_000_000)"
PART = "[int(line) * len(data) // 6 : (int(line) + 1) * len(data) // 6]"


@pytest.mark.parametrize(
    ("data", "read", "trap"), [(TRAP, "for item in part: pass", True), (ARRAY, "part.sum()", False)]
)
def test_a_list_of_python_objects_grows_in_forked_workers_and_an_array_does_not(data, read, trap):
    with maker() as (pid, tell):
        tell(data)
        tell(f"exec('def do(line):\\n part = data{PART}\\n {read}')")
        for _ in range(3):
            tell("fork(do)")
        watcher, clock = watch(pid)
        ends = []
        step(watcher, clock)
        for epoch in range(6):
            tell(f"tell('{epoch}')")
            step(watcher, clock)
            ends.append(clock.now)
        watcher.stop()
    summary = watcher.summary(ends[0] - 1e-3, ends[-1], ends)
    warning = growing(summary["growth"])
    if trap:
        assert warning["code"] == "memory-grows"
        assert set(warning) == {"code", "seen", "cause", "hint"}
        assert summary["pss_copied_bytes"] > 50 * MB, "three workers copied what the main process made"
    else:
        assert warning is None
        assert summary["pss_copied_bytes"] < 15 * MB, "what Python itself copies"


# Growth, by figures


@pytest.mark.parametrize(
    ("megabytes", "grows"),
    [
        ([100, 120, 140, 160], True),
        ([100, 120, None, 140, 160], True),
        ([100, 130, 150, 165, 175, 183], True),
        ([100, 120, 140], False),  # too few
        ([100, 120, 119, 160], False),  # comes and goes
        ([100, 400, 401, 402, 403], False),  # buffers that fill in the first epochs
        ([100, 300, 398, 399, 400, 401], False),
        ([100, 101, 102, 103], False),  # too little
        ([1000, 1010, 1020, 1030], False),
        ([100 + epoch * 2 + (epoch % 3) * 5 for epoch in range(40)], True),  # a trend under what comes and goes
        ([100 + (epoch % 3) * 20 for epoch in range(40)], False),
        ([None] * 9, False),
        (None, False),
    ],
)
def test_growth_is_what_goes_on_from_epoch_to_epoch(megabytes, grows):
    readings = megabytes and [size and size * MB for size in megabytes]
    assert (growing(readings) is not None) == grows


def test_readings_belong_to_the_epoch_in_which_they_were_taken():
    readings = [reading(when, size) for when, size in [(5, 999), (11, 1), (12, 2), (13, 9), (21, 3), (41, 5), (55, 7)]]
    assert per_epoch(readings, 10, [20, 30, 40, 50]) is None, "but three epochs have one"
    assert per_epoch([*readings, reading(35, 4)], 10, [20, 30, 40, 50]) == [2, 3, 4, 6], (
        "one after the end is the last's"
    )
    assert per_epoch([*readings, reading(35, 4)], 10, [20, 30, 34, 40, 50]) == [2, 3, None, 4, 6]
    assert per_epoch(readings, 10, []) is None


def test_copies_are_told_from_buffers_and_from_memory_given_back():
    start = reading(0, 500 * MB, shared=900 * MB)
    copies, buffers = reading(1, 800 * MB, shared=600 * MB), reading(1, 800 * MB, shared=900 * MB)
    assert copied([start, copies]) == 300 * MB
    assert copied([start, buffers]) == 0
    assert copied([start, reading(1, 500 * MB, shared=600 * MB)]) == 0, "given back"
    assert copied([start, reading(1, 800 * MB, shared=600 * MB, pids=(1, 3))]) is None, "other processes"
    assert copying({"pss_copied_bytes": 300 * MB, "pss_anonymous_peak_bytes": 800 * MB})["code"] == "copy-on-write"
    assert copying({"pss_copied_bytes": 300 * MB, "pss_anonymous_peak_bytes": 8000 * MB}) is None
    assert copying({"pss_copied_bytes": None, "pss_anonymous_peak_bytes": None}) is None


# What it costs


class Work:
    """A clock and an account of CPU time that stand in for a machine of a known speed."""

    def __init__(self, monkeypatch, cheap_seconds, pss_seconds):
        self.clock, self.cpu, self.passes = Clock(), 0.0, []
        monkeypatch.setattr(Tree, "update", lambda *_: 0.0)
        monkeypatch.setattr(Tree, "take", self.take)
        monkeypatch.setattr(sampler, "_pss", self.pss)
        self.cheap_seconds, self.pss_seconds = cheap_seconds, pss_seconds

    def spend(self, seconds):
        self.cpu += seconds
        self.clock.now += seconds

    def take(self, now):
        self.spend(self.cheap_seconds)
        return sampler.Sample(now, 1000 * MB, 500 * MB, 9, 99, 9)

    def pss(self, pids, now):
        self.passes.append(now)
        self.spend(self.pss_seconds)
        return reading(now, 1000 * MB, pids=pids)

    def run(self, seconds):
        watcher = Sampler(os.getpid(), self.clock, gpu=False, cpu_clock=lambda: self.cpu)
        begin = self.clock.now
        while self.clock.now < begin + seconds:
            self.clock.now += max(1e-4, watcher.take())
        watcher.stop()
        return watcher.summary(begin, self.clock.now)


@pytest.mark.parametrize(("cheap_seconds", "pss_seconds"), [(1e-4, 7e-3), (2e-3, 0.2), (0.05, 1.5), (1e-5, 1e-5)])
def test_the_sampler_waits_until_what_it_took_is_paid_for(monkeypatch, cheap_seconds, pss_seconds):
    work = Work(monkeypatch, cheap_seconds, pss_seconds)
    summary = work.run(1000)
    assert summary["sampler_cpu_percent"] < 1
    assert summary["sampler_cpu_percent"] == pytest.approx(100 * work.cpu / 1000, rel=0.05)
    assert summary["pss_samples"] == len(work.passes)
    apart = [later - earlier for earlier, later in zip(work.passes, work.passes[1:], strict=False)]
    assert min(apart) >= pss_seconds / 0.005
    assert work.passes[0] >= 101, "the first one of 1 GB, which is assumed to take 7 ms, waits as well"
    if cheap_seconds <= 1e-4:
        assert summary["samples"] > 9900, "ten a second"
    if cheap_seconds < 1e-4:
        assert summary["missed"] == 0
    if cheap_seconds > 2e-3:
        assert summary["missed"] > summary["samples"] / 2


def test_a_gigabyte_costs_less_than_one_percent_of_a_core():
    """By its own account, with the real clocks, until the second reading is paid for."""
    with maker() as (pid, tell):
        tell("common = touched(260)")
        for _ in range(3):
            tell("fork(lambda line: sum(common[::4096]))")
        tell("tell()")
        begin = time.perf_counter()
        watcher = Sampler(pid, gpu=False)
        while len(watcher.readings) < 2:
            time.sleep(watcher.take())
        watcher.stop()
    summary = watcher.summary(begin, watcher._pss_due(0))
    assert summary["rss_peak_bytes"] > 1000 * MB
    assert 0 < summary["sampler_cpu_percent"] < 1
    json.dumps(summary, allow_nan=False)


# Trees that change, and what is not there


def test_processes_that_come_and_go_are_noticed():
    with maker() as (pid, tell):
        watcher, clock = watch(pid)
        step(watcher, clock)
        tell("fork(lambda line: fork(lambda line: None))")
        step(watcher, clock)
        tell("tell()")
        tell("import threading; wait = threading.Event(); thread = threading.Thread(target=wait.wait); thread.start()")
        step(watcher, clock)
        tell("wait.set(); thread.join(); end(); fork(lambda line: None)")
        step(watcher, clock)
        tell("end()")
        step(watcher, clock)
    step(watcher, clock)
    assert watcher.tree.processes == {}
    watcher.stop()
    assert [sample.processes for sample in watcher.samples] == [1, 2, 3, 2, 1]
    assert [sample.threads for sample in watcher.samples] == [1, 2, 4, 2, 1]
    assert all(seen["reason"] is None for seen in watcher.readings)
    summary = watcher.summary(0, clock.now)
    assert (summary["processes_peak"], summary["threads_peak"]) == (3, 4)


def test_a_new_process_is_found_where_numbers_begin_anew_or_say_nothing(monkeypatch):
    """As after the highest process number, and in sandboxes whose /proc/loadavg says 0."""
    for newest in (0, 5):
        with maker() as (pid, tell):
            tree = Tree(pid)
            tree.update(0.0)
            tell("fork(lambda line: None)")
            monkeypatch.setattr(Tree, "_newest", lambda _self, newest=newest: newest)
            tree.update(1000.0)
            assert tree.take(0.0).processes == 2
        monkeypatch.undo()


def test_a_process_that_ends_between_finding_and_reading_breaks_nothing():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watcher, clock = watch(os.getpid())
    step(watcher, clock)
    assert process.pid in watcher.tree.processes
    process.communicate(b"\n")
    assert process.pid not in sampler._pss([os.getpid(), process.pid], 0.0)["pids"]
    step(watcher, clock)
    watcher.stop()
    ended = pss_of_tree(process.pid)
    assert ended["pss_bytes"] is None and "ended" in ended["reason"]


def test_a_zombie_is_no_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    watcher, clock = watch(process.pid)
    step(watcher, clock)
    watcher.stop()
    assert watcher.samples == [] and watcher.readings == []
    process.wait()


def test_kernels_that_do_not_say_pss_give_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(sampler, "PROC", tmp_path)
    (tmp_path / "7").mkdir()
    absent = sampler._pss([7], 1.0)
    assert absent["pss_bytes"] is None and "smaps_rollup" in absent["reason"]
    rollup = "0-1 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss: 5 kB\nAnonymous: 2 kB\n"
    (tmp_path / "7" / "smaps_rollup").write_text(rollup)
    older = sampler._pss([7], 1.0)
    monkeypatch.undo()
    assert (older["pss_bytes"], older["anonymous_bytes"], older["worker_bytes"]) == (5 * 1024, None, None)

    def refuse(_path):
        raise PermissionError

    monkeypatch.setattr(sampler, "_rollup", refuse)
    watcher, clock = watch(os.getpid())
    step(watcher, clock)
    watcher.stop()
    summary = watcher.summary(clock.now, clock.now)
    assert summary["pss_peak_bytes"] is None and summary["pss_copied_bytes"] is None
    assert "not permitted" in summary["pss_reason"]
    assert summary["rss_peak_bytes"] > 0


def test_an_interval_without_samples_is_null_with_reasons():
    watcher, clock = watch(os.getpid())
    step(watcher, clock)
    watcher.stop()
    summary = watcher.summary(clock.now + 10, clock.now + 11, [clock.now + 11])
    assert summary["samples"] == summary["pss_samples"] == 0
    assert summary["missed"] == 1
    reasons = {"pss_reason", "gpu_reason"}
    counts = {"samples", "pss_samples", "gpu_samples", "missed"}
    assert {name for name, value in summary.items() if value is not None} == reasons | counts
    own = watcher.summary(clock.now + 10, clock.now + 11, readings=[reading(clock.now + 12, 5)])
    assert own["pss_peak_bytes"] == 5 and own["pss_samples"] == 1, "the child's own reading after its epochs"
    apart = watcher.summary(
        clock.now + 10, clock.now + 11, readings=[reading(clock.now + 12, 5)], pool_bytes=4, pool_owners=2
    )
    assert apart["pss_peak_bytes"] == 3, "the half of what it shares with the fork server is none of the loader's"


# The GPU


class NvmlError(Exception):
    pass


def nvml(**parts):
    """A module like pynvml, with one GPU on which this process holds 300 MB and another one 500 MB."""
    processes = [
        SimpleNamespace(pid=os.getpid(), usedGpuMemory=300 * MB),
        SimpleNamespace(pid=1, usedGpuMemory=500 * MB),
    ]
    calls = {
        "NVMLError": NvmlError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda name: name,
        "nvmlDeviceGetUtilizationRates": lambda _device: SimpleNamespace(gpu=40),
        "nvmlDeviceGetComputeRunningProcesses": lambda _device: processes,
    }
    return SimpleNamespace(**{**calls, **parts})


def fails(*_):
    raise NvmlError("Not Supported")


def seen_of_gpu(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(gpu, "uuid", lambda: "0badcafe-1234")
    watcher, clock = watch(os.getpid(), gpu=True)
    for _ in range(3):
        step(watcher, clock)
        clock.now += 60
    watcher.stop()
    summary = watcher.summary(0, clock.now)
    return [summary[f"gpu_{name}"] for name in ("utilisation_mean_percent", "memory_peak_bytes", "reason")]


def test_the_gpu_is_sampled_where_there_is_one(monkeypatch):
    assert seen_of_gpu(monkeypatch, nvml()) == [40.0, 300 * MB, None]
    assert seen_of_gpu(monkeypatch, nvml(nvmlDeviceGetComputeRunningProcesses=lambda _: [])) == [40.0, 0, None]


def test_what_nvml_does_not_say_is_null_with_the_reason(monkeypatch):
    assert seen_of_gpu(monkeypatch, None) == [None, None, "nvidia-ml-py is not installed"]
    assert seen_of_gpu(monkeypatch, nvml(nvmlInit=fails)) == [None, None, "NVML: Not Supported"]
    assert seen_of_gpu(monkeypatch, nvml(nvmlDeviceGetHandleByUUID=fails)) == [None, None, "NVML: Not Supported"]
    assert seen_of_gpu(monkeypatch, nvml(nvmlDeviceGetUtilizationRates=fails)) == [None, None, "NVML: Not Supported"]
    others = [SimpleNamespace(pid=1, usedGpuMemory=5)]
    busy, used, reason = seen_of_gpu(monkeypatch, nvml(nvmlDeviceGetComputeRunningProcesses=lambda _: others))
    assert (busy, used) == (40.0, None) and "namespace" in reason


def test_nvml_is_asked_for_the_gpu_by_its_uuid(monkeypatch):
    """Its number is another one to NVML, which counts by place on the bus, than to CUDA."""
    part = nvml(nvmlDeviceGetHandleByUUID=lambda name: name if name.startswith("MIG-") else fails())
    monkeypatch.setattr(gpu, "uuid", lambda: "0badcafe-1234")
    for module, device in ((nvml(), "GPU-0badcafe-1234"), (part, "MIG-0badcafe-1234")):
        monkeypatch.setitem(sys.modules, "pynvml", module)
        assert sampler.Gpu().device == device


class Driver:
    """CUDA's driver with one GPU, or one that fails as `says`."""

    CUresult = SimpleNamespace(CUDA_SUCCESS="CUDA_SUCCESS")

    def __init__(self, says="CUDA_SUCCESS"):
        self.status = SimpleNamespace(name=says) if says != "CUDA_SUCCESS" else says

    def cuInit(self, _flags):
        return (self.status,)

    def cuDeviceGet(self, number):
        return self.status, f"device {number}"

    def cuDeviceGetUuid(self, device):
        assert device == "device 0", "CUDA has hidden and ordered them by then"
        return self.status, SimpleNamespace(bytes=bytes(range(16)))


class Driver12(Driver):
    def cuDeviceGetUuid(self, _device):
        pytest.fail("of the whole GPU, where CUDA sees a part of it (MIG)")

    def cuDeviceGetUuid_v2(self, device):
        return Driver.cuDeviceGetUuid(self, device)


@pytest.mark.parametrize("made", [Driver, Driver12])
def test_the_uuid_is_that_of_cudas_first_device(monkeypatch, made):
    bindings = pytest.importorskip("cuda.bindings")
    driver = pytest.importorskip("cuda.bindings.driver")
    assert {name for name in dir(Driver) if name.startswith("cu")} <= {*dir(driver)}, "the bindings that are installed"
    monkeypatch.setattr(bindings, "driver", made(), raising=False)
    assert gpu.uuid() == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    monkeypatch.setattr(bindings, "driver", made("CUDA_ERROR_NO_DEVICE"))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_NO_DEVICE"):
        gpu.uuid()
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert sampler.Gpu().reason == "which GPU torch uses is not known: CUDA_ERROR_NO_DEVICE"


def test_a_utilisation_that_reaches_back_before_the_run_does_not_count(monkeypatch):
    """NVML's is that of up to a second before it is asked; the memory is that of the moment."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    monkeypatch.setattr(gpu, "uuid", lambda: "0badcafe-1234")
    watcher, clock = watch(os.getpid(), gpu=True)
    step(watcher, clock)
    watcher.stop()
    for began, busy, said in ((0.5, None, "looks 1 s back"), (1.5, 40.0, None)):
        summary = watcher.summary(clock.now - began, clock.now)
        assert (summary["gpu_utilisation_mean_percent"], summary["gpu_memory_peak_bytes"]) == (busy, 300 * MB)
        assert summary["gpu_reason"] is None if said is None else said in summary["gpu_reason"]
