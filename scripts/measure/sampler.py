"""Watches a process tree from another process while it is measured: memory, threads, open files, and the GPU.

The parent of a measurement is idle, so it samples there. Its clock is CLOCK_MONOTONIC, which all processes share: the
child says later which interval was that of the timed epochs, and `Sampler.summary` looks at that interval alone.

What it may cost is bounded: each kind of sample waits, after one that took d seconds of CPU, for d divided by its share
of one core. PSS is the expensive one. Its figures are in smaps_rollup (Documentation/ABI/testing/procfs-smaps_rollup in
the kernel's sources), for which the kernel walks the page tables: about 7 ms per GB.

psutil finds the processes and says what memory they have. /proc is read here for the rest: psutil has PSS as a whole,
without its parts, and takes 38 us of CPU for a sample of one process with its threads and open files, where the sizes
of two folders make it 14 us. Ten processes would else be past CHEAP_SHARE.
"""

import os
import statistics
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from scripts.machine import gpu
from scripts.machine.host import warning

PROC = Path("/proc")
PERIOD = 0.1  # seconds between samples of what is cheap to ask
CHEAP_SHARE = 0.0018  # of one core, at most, for that
CREDIT_SECONDS = 1.0  # for which its share may be saved up: one expensive sample among cheap ones delays none
GPU_SHARE = 0.002  # of the budget that is otherwise PSS's alone
GPU_SECONDS = 1.0  # NVML's utilisation is that of so long before at most: nvmlDeviceGetUtilizationRates
LIST_SHARE = 0.0002  # for looking through all processes of the machine, where that is needed at all
PSS_SECONDS_PER_BYTE = 7e-12  # assumed of memory that has come since the last reading, which was timed
NEARBY = 300  # new process numbers that are looked at one by one
GROWTH_READINGS = 4
GROWTH_BLOCKS = 5
GROWTH_BYTES = 16_000_000
GROWTH_PERCENT = 5
COPIED_BYTES = 100_000_000
COPIED_PERCENT = 25

PARTS = {"heap_bytes": "Pss_Anon", "shmem_bytes": "Pss_Shmem", "file_bytes": "Pss_File"}  # of PSS, in smaps_rollup
GONE = (psutil.Error, FileNotFoundError, ProcessLookupError, PermissionError)  # or it is somebody else's


class Sample(NamedTuple):
    """What was cheap to ask, summed over the tree."""

    time: float
    rss_bytes: int
    private_bytes: int  # of it, memory of no file that is not shared; what is in common since a fork is in each process
    threads: int
    open_files: int
    processes: int


def pss_of_tree(pid: int) -> dict[str, Any]:
    """Return a reading of the memory of `pid` and its descendants, each shared page counted once.

    `pss_bytes` and what it consists of, which is None before Linux 5.4: `heap_bytes` (private memory of no file),
    `shmem_bytes` (shared memory, tmpfs included) and `file_bytes` (mapped pages of files); `anonymous_bytes` (the first
    two), `main_bytes` (of `pid` itself), `worker_bytes` (the largest descendant's), `shared_bytes` (private memory that
    processes have still in common since a fork), `pids`, `time`, and `reason`: why there are no figures, else None.

    Never call it inside timed epochs: it takes about 7 ms per GB.
    """
    return _pss([pid, *_descendants(pid)], time.perf_counter())


def _pss(pids: Sequence[int], now: float) -> dict[str, Any]:
    """Return the reading of these processes, of which the first is the main one."""
    reading: dict[str, Any] = {"time": now, "reason": None, "pids": []}
    reading |= dict.fromkeys(("pss_bytes", "anonymous_bytes", "main_bytes", "worker_bytes", "shared_bytes"))
    reading |= dict.fromkeys(PARTS)
    rollups = {}
    for pid in pids:
        try:
            rollups[pid] = _rollup(PROC / str(pid) / "smaps_rollup")
        except ProcessLookupError:
            continue
        except FileNotFoundError:
            if (PROC / str(pid)).is_dir():
                return {**reading, "reason": "this kernel has no smaps_rollup (Linux 4.14)"}
        except PermissionError:
            return {**reading, "reason": "not permitted to read smaps_rollup of the measured processes"}
    if not rollups:
        return {**reading, "reason": "the measured process had ended"}
    reading["pids"] = list(rollups)
    reading["pss_bytes"] = sum(rollup["Pss"] for rollup in rollups.values())
    reading["main_bytes"] = rollups[pids[0]]["Pss"] if pids[0] in rollups else None
    reading["worker_bytes"] = max((rollups[pid]["Pss"] for pid in rollups if pid != pids[0]), default=None)
    if all("Pss_Anon" in rollup for rollup in rollups.values()):
        for name, field in PARTS.items():
            reading[name] = sum(rollup[field] for rollup in rollups.values())
        reading["anonymous_bytes"] = reading["heap_bytes"] + reading["shmem_bytes"]
        reading["shared_bytes"] = sum(rollup["Anonymous"] for rollup in rollups.values()) - reading["heap_bytes"]
    return reading


def _rollup(path: Path) -> dict[str, int]:
    """Return the fields of a smaps_rollup file in bytes."""
    lines = path.read_text().splitlines()[1:]  # the first is a range of addresses
    return {line.partition(":")[0]: 1024 * int(line.split()[1]) for line in lines}


def _descendants(pid: int) -> list[int]:
    try:
        return [process.pid for process in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


class Tree:
    """The processes of a tree, found without looking through all of /proc again and again.

    /proc/loadavg names the newest process number. Only the numbers since the last time are looked at, each of them
    twice: the kernel gives a number away a moment before the process can be seen. All processes are looked through at
    the beginning, and where too many are new or the count began again. (/proc/PID/task/*/children would say it too,
    where the kernel has it, and costs a read for each thread.)
    """

    def __init__(self, pid: int, cpu_clock: Callable[[], float] = time.thread_time) -> None:
        self.cpu_clock = cpu_clock
        self.root = pid
        self.processes: dict[int, psutil.Process] = {}
        self.newest = self.seen = self._newest()
        self.incomplete = True
        self.list_after = 0.0
        self._add(pid)

    def _newest(self) -> int:
        return int((PROC / "loadavg").read_text().rsplit(None, 1)[1])

    def _add(self, pid: int) -> None:
        if pid not in self.processes:
            with suppress(psutil.NoSuchProcess):
                self.processes[pid] = psutil.Process(pid)

    def update(self, now: float) -> float:
        """Find processes that were started since the last call; return the CPU seconds of looking through all."""
        newest = self._newest()
        if newest < self.newest or newest - self.seen > NEARBY or newest == 0:
            self.incomplete = True
        else:
            for pid in range(self.seen + 1, newest + 1):
                if _parent(pid) in self.processes:
                    self._add(pid)
        self.seen, self.newest = self.newest if newest >= self.newest else newest, newest
        if not self.incomplete or now < self.list_after:
            return 0.0
        began = self.cpu_clock()
        for pid in _descendants(self.root):
            self._add(pid)
        self.incomplete = False
        seconds = self.cpu_clock() - began
        self.list_after = now + seconds / LIST_SHARE
        return seconds

    def take(self, now: float) -> Sample | None:
        """Return a sample of the whole tree; None where it has ended."""
        rss, private, threads, open_files, processes = 0, 0, 0, 0, 0
        for pid, process in list(self.processes.items()):
            try:
                memory = process.memory_info()
                if not memory.vms:  # a zombie
                    continue
                threads += os.stat(f"/proc/{pid}/task").st_nlink - 2
                open_files += _open_files(pid)
                rss += memory.rss
                private += memory.rss - memory.shared
                processes += 1
            except GONE:
                del self.processes[pid]
        return Sample(now, rss, private, threads, open_files, processes) if processes else None


def _parent(pid: int) -> int | None:
    """Return the parent of a process; None for one that has ended and for a number that is a thread's."""
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None


def _open_files(pid: int) -> int:
    """Return the number of open files: since Linux 6.2 the size of the folder `fd`, before that what it lists."""
    return os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))


class Gpu:
    """The GPU that torch calls cuda:0, as NVML sees it; `reason` says why something of it is not known."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.nvml: Any = None
        try:
            import pynvml  # of the distribution nvidia-ml-py
        except ImportError:
            self.reason = "nvidia-ml-py is not installed"
            return
        self.nvml = pynvml
        try:
            pynvml.nvmlInit()
            self.device = self._of_torch()
        except pynvml.NVMLError as error:
            self.reason = f"NVML: {error}"
        except (ImportError, RuntimeError) as error:
            self.reason = f"which GPU torch uses is not known: {error}"
        if self.reason:
            self.close()

    def _of_torch(self) -> Any:
        """Return NVML's handle of the GPU, or of the part of one (MIG), that CUDA counts as the first."""
        digits = gpu.uuid()
        try:
            return self.nvml.nvmlDeviceGetHandleByUUID(f"GPU-{digits}")
        except self.nvml.NVMLError:
            return self.nvml.nvmlDeviceGetHandleByUUID(f"MIG-{digits}")

    def take(self, pids: Collection[int]) -> tuple[float | None, int | None]:
        """Return (percent of the time in which a kernel ran, bytes that these processes hold); None: not known."""
        if self.nvml is None:
            return None, None
        busy, used = None, None
        try:
            busy = float(self.nvml.nvmlDeviceGetUtilizationRates(self.device).gpu)
            processes = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.device)
        except self.nvml.NVMLError as error:
            self.reason = f"NVML: {error}"
            return busy, None
        sizes = [process.usedGpuMemory for process in processes if process.pid in pids]
        if not processes:
            used = 0
        elif sizes and None not in sizes:
            used = sum(sizes)
        else:
            self.reason = "NVML does not say what these processes hold: another PID namespace, or it is hidden"
        return busy, used

    def close(self) -> None:
        """Let go of NVML."""
        if self.nvml is not None:
            with suppress(self.nvml.NVMLError):
                self.nvml.nvmlShutdown()
            self.nvml = None


class Sampler:
    """Samples a process tree when `take` is called, and sums up an interval.

    `budget`: the share of one core for PSS (and the GPU), which leaves the whole below 0.8 % wherever every reading has
    had its time to be paid for. One that falls into epochs shorter than cost / budget weighs more there: what the
    sampler took in the interval is in the summary.
    """

    def __init__(
        self,
        pid: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        budget: float = 0.005,
        gpu: bool = True,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.clock, self.cpu_clock = clock, cpu_clock
        self.gpu: Gpu | None = Gpu() if gpu else None
        self.pss_share = budget - GPU_SHARE if self.gpu and self.gpu.nvml else budget
        self.samples: list[Sample] = []
        self.readings: list[dict[str, Any]] = []
        self.gpu_samples: list[tuple[float, float | None, int | None]] = []
        self.tree: Tree | None = None
        if pid is not None:
            self.start(pid)

    def start(self, pid: int) -> None:
        """Watch this process and its descendants from now on."""
        now = self.clock()
        self.tree = Tree(pid, self.cpu_clock)
        self.due = self.paid = self.gpu_due = now
        self.pss_end, self.pss_seconds, self.pss_rss = now, 0.0, 0
        self.account = [(now, self.cpu_clock())]  # (time, CPU seconds of this thread until then)

    def take(self) -> float:
        """Take a sample if one is due; return the seconds until the next one is."""
        now = self.clock()
        if now >= self.due:
            began = self.cpu_clock()
            listing = self.tree.update(now)
            sample = self.tree.take(now)
            if sample:
                self.samples.append(sample)
            grid = self.due + PERIOD
            cost = self.cpu_clock() - began - listing
            self.paid = max(self.paid, now - CREDIT_SECONDS) + cost / CHEAP_SHARE
            self.due = max(grid if grid > now else now + PERIOD, self.paid)
            if sample and now >= self._pss_due(sample.rss_bytes):
                self._take_pss(now, sample.rss_bytes)
            if sample and self.gpu and now >= self.gpu_due:
                began = self.cpu_clock()
                self.gpu_samples.append((now, *self.gpu.take(self.tree.processes)))
                self.gpu_due = now + (self.cpu_clock() - began) / GPU_SHARE
            self.account.append((self.clock(), self.cpu_clock()))
        return max(0.0, self.due - self.clock())

    def _pss_due(self, rss_bytes: int) -> float:
        """Return when the next reading of so much memory will have been paid for."""
        more = max(0, rss_bytes - self.pss_rss)
        return self.pss_end + (self.pss_seconds + PSS_SECONDS_PER_BYTE * more) / self.pss_share

    def _take_pss(self, now: float, rss_bytes: int) -> None:
        began = self.cpu_clock()
        self.readings.append(_pss([self.tree.root, *(set(self.tree.processes) - {self.tree.root})], now))
        self.pss_seconds = self.cpu_clock() - began
        self.pss_rss = rss_bytes
        self.pss_end = self.clock()

    def end_left(self) -> None:
        """Kill what is still there of the tree, in whatever session: its root has ended."""
        for process in self.tree.processes.values() if self.tree else ():
            with suppress(psutil.Error):
                process.kill()

    def stop(self) -> None:
        """Let go of the GPU; what it has seen stays."""
        if self.gpu:
            self.gpu.close()

    def summary(
        self,
        begin: float,
        end: float,
        epoch_ends: Sequence[float] = (),
        readings: Iterable[Mapping[str, Any]] = (),
        pool_bytes: int = 0,
        pool_owners: int = 1,
    ) -> dict[str, Any]:
        """Return the peaks between two times of the clock as JSON; None for what was not seen, with the reason.

        `pool_bytes`: of private memory in the main process that is the measurement's and not the loader's, as that of
        so many processes: it is in no peak (measure/ceiling.py).
        `readings`: those that the child took itself, by `pss_of_tree`, right after its epochs. `growth`: private memory
        at each epoch (bytes; None where no reading fell into it), for `growing`; None where that says nothing.
        """
        readings = list(readings)
        samples = [sample for sample in self.samples if begin <= sample.time <= end]
        taken = [reading for reading in self.readings if begin <= reading["time"] <= end] + readings
        known = [reading for reading in taken if reading["pss_bytes"] is not None]
        reason = taken[-1]["reason"] if taken else "no reading fell into the interval"
        until = [reading for reading in self.readings if reading["time"] <= end] + readings
        apart = pool_bytes // pool_owners
        return {
            "pss_peak_bytes": _peak(known, "pss_bytes", apart),
            "pss_anonymous_peak_bytes": _peak(known, "anonymous_bytes", apart),
            "pss_private_peak_bytes": _peak(known, "heap_bytes", apart),
            "pss_shared_peak_bytes": _peak(known, "shmem_bytes"),
            "pss_file_peak_bytes": _peak(known, "file_bytes"),
            "pss_main_peak_bytes": _peak(known, "main_bytes", apart),
            "pss_per_worker_peak_bytes": _peak(known, "worker_bytes"),
            "pss_reason": None if known else reason,
            "pss_copied_bytes": copied(until),
            "rss_peak_bytes": max((sample.rss_bytes - pool_bytes for sample in samples), default=None),
            "rss_private_peak_bytes": max((sample.private_bytes - pool_bytes for sample in samples), default=None),
            "threads_peak": max((sample.threads for sample in samples), default=None),
            "open_files_peak": max((sample.open_files for sample in samples), default=None),
            "processes_peak": max((sample.processes for sample in samples), default=None),
            "samples": len(samples),
            "pss_samples": len(known),
            "missed": self._missed(begin, end),
            "sampler_cpu_percent": self._cpu_percent(begin, end) if samples else None,
            "growth": per_epoch(known, begin, epoch_ends),
            **self._gpu_summary(begin, end),
        }

    def _missed(self, begin: float, end: float) -> int:
        """Return how often no sample came for longer than two periods."""
        times = [begin, *(sample.time for sample in self.samples if begin <= sample.time <= end), end]
        return sum(later - earlier > 2 * PERIOD for earlier, later in pairwise(times))

    def _cpu_percent(self, begin: float, end: float) -> float:
        """Return the CPU time of this thread in the interval, in percent of one core."""
        first, last = (max(0, bisect_right(self.account, (at, float("inf"))) - 1) for at in (begin, end))
        return 100 * (self.account[last][1] - self.account[first][1]) / max(1e-9, end - begin)

    def _gpu_summary(self, begin: float, end: float) -> dict[str, Any]:
        inside = [sample for sample in self.gpu_samples if begin <= sample[0] <= end]
        busy = [percent for at, percent, _ in inside if percent is not None and at - GPU_SECONDS >= begin]
        used = [size for _, _, size in inside if size is not None]
        reason = self.gpu.reason if self.gpu else "not asked for"
        if inside and not busy and not reason:
            reason = f"NVML looks {GPU_SECONDS:g} s back, and no such second was within the interval"
        return {
            "gpu_utilisation_mean_percent": statistics.fmean(busy) if busy else None,
            "gpu_memory_peak_bytes": max(used, default=None),
            "gpu_samples": len(inside),
            "gpu_reason": None if busy and used else reason or "no sample fell into the interval",
        }


def _peak(readings: Iterable[Mapping[str, Any]], name: str, apart: int = 0) -> int | None:
    return max((reading[name] - apart for reading in readings if reading[name] is not None), default=None)


def copied(readings: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many bytes that processes had in common since a fork they have copied since; None if never seen.

    A page that is written after a fork is copied: what the tree has in common shrinks by as much as its PSS grows, and
    no process's resident memory changes. Buffers that fill leave alone what is in common, and memory that is given back
    does not raise PSS. Only readings of the same processes are compared.
    """
    first: dict[tuple[int, ...], Mapping[str, Any]] = {}
    most = None
    for reading in readings:
        if reading["shared_bytes"] is None or len(reading["pids"]) < 2:
            continue
        start = first.setdefault(tuple(sorted(reading["pids"])), reading)
        if start is not reading:
            more = reading["anonymous_bytes"] - start["anonymous_bytes"]
            most = max(most or 0, min(more, start["shared_bytes"] - reading["shared_bytes"]))
    return most


def per_epoch(
    readings: Iterable[Mapping[str, Any]], begin: float, epoch_ends: Sequence[float]
) -> list[int | None] | None:
    """Return private memory (bytes) of each epoch, None where there was no reading; None where too few have one.

    The median of the readings between two ends of epochs, since batches under way come and go. A reading after the last
    end belongs to the last epoch: the loader was still open.
    """
    found: list[list[int]] = [[] for _ in epoch_ends]
    for reading in readings:
        if found and reading["time"] >= begin and reading["anonymous_bytes"] is not None:
            number = sum(end < reading["time"] for end in epoch_ends)
            found[min(number, len(found) - 1)].append(reading["anonymous_bytes"])
    medians = [int(statistics.median(sizes)) if sizes else None for sizes in found]
    return medians if len(medians) - medians.count(None) >= GROWTH_READINGS else None


def growing(readings: Sequence[int | None] | None) -> dict[str, str] | None:
    """Return a warning where private memory grows from epoch to epoch, given its bytes at each epoch; else None.

    At least four epochs with a reading: three that come and go by chance are in rising order one time in six, four one
    time in 24. Many are made five (medians of consecutive ones), so that what batches under way add and take hides no
    trend. Each must be above the one before, the whole above 5 % and 16 MB (a batch or two), and a quarter of it must
    come in the later half: a loader that fills its buffers in its first epochs stops growing, one that leaks or copies
    goes on.
    """
    known = [reading for reading in readings or () if reading is not None]
    if len(known) < GROWTH_READINGS:
        return None
    blocks = min(GROWTH_BLOCKS, len(known))
    edges = [len(known) * number // blocks for number in range(blocks + 1)]
    levels = [statistics.median(known[start:stop]) for start, stop in pairwise(edges)]
    total = levels[-1] - levels[0]
    if any(later <= earlier for earlier, later in pairwise(levels)):
        return None
    if total < max(GROWTH_BYTES, levels[0] * GROWTH_PERCENT / 100) or levels[-1] - levels[blocks // 2] < total / 4:
        return None
    return warning(
        "memory-grows",
        f"private memory grew from {levels[0] / 1e6:,.0f} to {levels[-1] / 1e6:,.0f} MB over {len(readings)} epochs",
        "each epoch keeps what it should give back, or forked workers touch Python objects and copy their pages",
        "keep the data set's lists in numpy arrays or tensors, and look for what an epoch adds to",
    )


def copying(summary: Mapping[str, Any]) -> dict[str, str] | None:
    """Return a warning where workers copied much of what they shared at the fork; else None.

    That is mostly over after the first epoch in random order, before any is timed, so that `growing` cannot see it. The
    limit leaves room for what every forked Python copies of its modules.
    """
    size, whole = summary["pss_copied_bytes"], summary["pss_anonymous_peak_bytes"]
    if not size or not whole or size < max(COPIED_BYTES, whole * COPIED_PERCENT / 100):
        return None
    return warning(
        "copy-on-write",
        f"{size / 1e6:,.0f} MB that the workers shared with the main process were copied",
        "forked workers touch Python objects: counting a reference writes to the page that holds it",
        "keep the data set's lists in numpy arrays or tensors",
    )
