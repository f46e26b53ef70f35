"""What this machine is, and whether it was disturbed while a run was measured."""

import contextlib
import os
import platform
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from scripts.common.serving import serving_processes, serving_traffic
from scripts.machine import gpu
from scripts.machine.cores import (
    SYSTEM,
    Quota,
    cores_allowed,
    cores_of,
    cpu_quota,
    physical_cores_allowed,
    quota,
    used_by_core,
)
from scripts.machine.own_group import CGROUP, PROC, text_of, throttled_seconds
from scripts.machine.traffic import counted

KTHREADD = 2  # the process that is the parent of the kernel's threads
WARM_PERCENT = 1.0  # of the payload that a warm run may read from a device, above which it is warned of
FROM_DEVICE_PERCENT = 5.0  # above which it is no warm run,
FROM_DEVICE_BYTES = 4_000_000  # if it is so many: a library's own files, read when they are first needed
THROTTLED_PERCENT = 1.0  # of the wall time for which a CPU quota may stop the process
SWAP_BYTES = 1_000_000  # moved to or from swap, below which it is a page that the kernel tidied away
AT_WORK_SHARE = 0.005  # of the wall time, from which a thread counts as one that works
OTHERS_PERCENT = 5.0  # CPU time of others, of the cores allowed, above which a run is flagged as disturbed


def describe(distributions: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return (host, versions): the machine in facts without names or paths, and versions of `distributions`."""
    library, libc_version = platform.libc_ver()
    host = {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "cores_allowed": cores_allowed(),
        "physical_cores_allowed": physical_cores_allowed(),
        "cpu_quota": cpu_quota(),
        **hardware(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "system": platform.system(),
        "glibc": libc_version if library == "glibc" else None,
        "python": platform.python_version(),
        "gpus": gpu.names(),
        **gpu_driver(),
        "openmp_spin_count": os.environ.get("GOMP_SPINCOUNT"),
    }
    return host, {name: metadata.version(name) for name in distributions}


def hardware(system: Path = SYSTEM) -> dict[str, Any]:
    """Return what the kernel says of the machine's processors and memory; None for what it does not say.

    Caches are those of the first CPU that this process may use: their whole size, of a core (L2) or shared (L3).
    """
    cpu = system / "devices" / "system" / "cpu"
    pages = text_of(system / "kernel" / "mm" / "transparent_hugepage" / "enabled")
    caches = {}
    for folder in sorted((cpu / f"cpu{min(os.sched_getaffinity(0))}" / "cache").glob("index*")):
        size = text_of(folder / "size") or ""
        if text_of(folder / "type") != "Instruction" and size.endswith("K"):
            caches[text_of(folder / "level")] = 1024 * int(size.removesuffix("K"))
    return {
        "last_level_cache_bytes": last_level_cache_bytes(system),
        "smt": {"1": "on", "0": "off"}.get(text_of(cpu / "smt" / "active") or ""),
        "l2_cache_bytes": caches.get("2"),
        "l3_cache_bytes": caches.get("3"),
        "governor": governor(system),
        "numa_nodes": len(list((system / "devices" / "system" / "node").glob("node[0-9]*"))) or None,
        "transparent_huge_pages": pages.partition("[")[2].partition("]")[0] or None if pages else None,
    }


def last_level_cache_bytes(system: Path = SYSTEM) -> int | None:
    """Return the size of all last-level caches that the cores of this process have, each once; None: unknown."""
    found: dict[str, int] = {}  # by the cores that share it
    for core in os.sched_getaffinity(0):
        levels = []
        for folder in (system / "devices" / "system" / "cpu" / f"cpu{core}" / "cache").glob("index*"):
            level, size = text_of(folder / "level") or "", text_of(folder / "size") or ""
            if level.isdigit() and size.endswith("K"):
                shared = text_of(folder / "shared_cpu_list") or str(core)
                levels.append((int(level), 1024 * int(size.removesuffix("K")), shared))
        if levels:
            _, size, shared = max(levels)
            found[shared] = size
    return sum(found.values()) or None


def gpu_driver(proc: Path = PROC) -> dict[str, str]:
    """Return `gpu_driver`, the version of NVIDIA's kernel module such as "550.54.15"; nothing where there is none."""
    found = re.search(r"Kernel Module.*?\b(\d+\.\d[\d.]*)", text_of(proc / "driver" / "nvidia" / "version") or "")
    return {"gpu_driver": found[1]} if found else {}


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@dataclass(frozen=True)
class Moment:
    """The host at one moment: CPU time since boot, and what a process tree has used since its start."""

    cores: Mapping[int, tuple[float, float]]  # seconds of each that any process worked, that the hypervisor withheld
    allowed: frozenset[int]  # cores that the process tree may use
    quota: Quota | None
    threads: Mapping[tuple[int, int], float]  # CPU seconds of each thread of the tree, by (process, thread)
    own_seconds: float
    served_seconds: (
        float  # of what works for the tree on this machine: servers of its storage, and the kernel's threads
    )
    read_bytes: int  # that this process tree has had fetched from block devices
    minor_faults: int  # of this process tree: pages that were in memory already
    major_faults: int  # pages that had to be read
    wall_seconds: float
    load_1m: float
    cpu_mhz: float | None
    throttled_seconds: float | None = None  # for which CPU quotas stopped this process's cgroup; None: no quota visible
    traffic: tuple[int, int] | None = None  # requests, and bytes of answers, of storage that feedrate serves
    thermal_throttles: int | None = None  # how often the CPUs slowed down because of heat, since boot
    governor: str | None = None  # of the CPU frequency
    free_memory_bytes: int = 0  # that can be had without swapping
    swap_used_bytes: int = 0
    swapped_bytes: int = 0  # moved to and from swap since boot

    def as_json(self) -> dict[str, Any]:
        """Return what a run's record keeps of a moment."""
        kept = ("load_1m", "cpu_mhz", "throttled_seconds", "thermal_throttles", "governor")
        return {name: getattr(self, name) for name in (*kept, "free_memory_bytes", "swap_used_bytes")}


def look(
    clock: Any,
    proc: Path = PROC,
    system: Path = SYSTEM,
    cgroup: Path = CGROUP,
    root: int | None = None,
    kernel: bool = False,
) -> Moment:
    """Return the host at this moment. Takes a millisecond or two: never call it inside a timed epoch.

    `root`: the process whose tree is meant, by default this one. `proc`, `system`, `cgroup`: where quota, heat
    and frequency are looked up. `kernel`: its threads work for the tree, as where that reads from a device.
    """
    served = 0.0
    for number in serving_processes():
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(number).cpu_times()
            served += used.user + used.system
    own, read, faults, threads = 0.0, 0, [0, 0], {}
    top = psutil.Process(root)
    tree = [top, *top.children(recursive=True)]
    for process in tree:
        try:
            used = process.cpu_times()
            own += used.user + used.system + used.children_user + used.children_system  # of those that have ended
            read += process.io_counters().read_bytes
            faults = [sum(pair) for pair in zip(faults, _faults(process.pid), strict=True)]
            threads |= {(process.pid, one.id): one.user_time + one.system_time for one in process.threads()}
        except (psutil.Error, FileNotFoundError, ProcessLookupError):
            continue
    allowed = cores_of(process.pid for process in tree)
    served += kernel_seconds(allowed) if kernel else 0.0
    frequency, swap = psutil.cpu_freq(), psutil.swap_memory()
    mhz = round(frequency.current, 1) if frequency and frequency.current else None
    return Moment(
        cores=used_by_core(proc),
        allowed=allowed,
        quota=quota(proc, cgroup),
        threads=threads,
        own_seconds=own,
        served_seconds=served,
        read_bytes=read,
        minor_faults=faults[0],
        major_faults=faults[1],
        wall_seconds=clock(),
        load_1m=round(os.getloadavg()[0], 2),
        cpu_mhz=mhz,
        traffic=counted(serving_traffic()),
        throttled_seconds=throttled_seconds(proc, cgroup),
        thermal_throttles=thermal_throttles(system),
        governor=governor(system),
        free_memory_bytes=psutil.virtual_memory().available,
        swap_used_bytes=swap.used,
        swapped_bytes=swap.sin + swap.sout,
    )


def kernel_seconds(cores: Collection[int]) -> float:
    """Return the CPU seconds of the kernel's threads that were on one of these cores last.

    They read ahead, and free the page cache for what comes. 0.0 in a container, which does not see them.
    """
    try:
        parent = psutil.Process(KTHREADD)
        threads = parent.children() if parent.name() == "kthreadd" else []
    except psutil.Error:
        return 0.0
    seconds = 0.0
    for thread in threads:
        with contextlib.suppress(psutil.Error):
            if thread.cpu_num() in cores:
                used = thread.cpu_times()
                seconds += used.user + used.system
    return seconds


def thermal_throttles(system: Path = SYSTEM) -> int | None:
    """Return how often cores and packages slowed down because of heat; None where the CPU does not count it."""
    folders = system.glob("devices/system/cpu/cpu*/thermal_throttle")
    counts = [text_of(folder / f"{kind}_throttle_count") for folder in folders for kind in ("core", "package")]
    return sum(map(int, filter(None, counts))) if any(counts) else None


def governor(system: Path = SYSTEM) -> str | None:
    """Return the governors of the CPU frequency, such as "performance"; None where the machine shows none."""
    found = {text_of(path) for path in system.glob("devices/system/cpu/cpufreq/policy*/scaling_governor")}
    return ", ".join(sorted(filter(None, found))) or None


def _faults(pid: int) -> tuple[int, int]:
    """Return (minor, major) page faults of a process and of its children that have ended; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    minor, minor_of_children, major, major_of_children = map(int, fields[7:11])
    return minor + minor_of_children, major + major_of_children


def resources(before: Moment, after: Moment, items: int) -> dict[str, float]:
    """Return what the process tree, workers included, used between two moments in which it delivered `items`."""
    seconds = after.own_seconds - before.own_seconds
    traffic = zip(("requests", "answer_bytes"), before.traffic or (), after.traffic or (), strict=False)
    return {
        "cpu_seconds": seconds,
        "cpu_seconds_per_1000_items": 1000 * seconds / items,
        "cores": seconds / max(1e-9, after.wall_seconds - before.wall_seconds),
        "read_bytes": after.read_bytes - before.read_bytes,
        "minor_faults": after.minor_faults - before.minor_faults,
        "major_faults": after.major_faults - before.major_faults,
        "others_percent": others_percent(before, after),
        "stolen_percent": stolen_percent(before, after),
        **{name: last - first for name, first, last in traffic},
    }


def threads_at_work(before: Moment, after: Moment, beside: Collection[int]) -> int:
    """Return how many threads of the tree, of all its processes, worked between two moments, without those `beside`.

    That is, used 0.5 % of a core. What libraries start and leave waiting is not counted.
    """
    least = AT_WORK_SHARE * (after.wall_seconds - before.wall_seconds)
    used = {key: seconds - before.threads.get(key, 0.0) for key, seconds in after.threads.items()}
    return sum(seconds > least for (_, thread), seconds in used.items() if thread not in beside)


def others_percent(before: Moment, after: Moment) -> float:
    """Return how much other processes took of the cores that the tree may use, in percent, between two moments.

    Without a quota: their share of the cores that its affinity allows; what runs on other cores takes nothing. With a
    quota of fewer cores' worth: of that, what they left too few cores for, or used up of it within the same group.
    Servers of the storage that is measured are no others: they work for it.
    """
    own = after.own_seconds - before.own_seconds + after.served_seconds - before.served_seconds
    cores, capacity = _cores(before, after), _capacity(before, after)
    wall = after.wall_seconds - before.wall_seconds
    spare = wall * len(cores) - capacity  # that a quota does not let the tree use anyway
    taken = _spent(before, after, 0) - own - spare
    if before.quota and after.quota:
        taken = max(taken, after.quota.used_seconds - before.quota.used_seconds - own)
    return max(0.0, 100 * taken / capacity)


def stolen_percent(before: Moment, after: Moment) -> float:
    """Return how much of the cores that the tree may use the hypervisor withheld between two moments, in percent."""
    wall = after.wall_seconds - before.wall_seconds
    return max(0.0, 100 * _spent(before, after, 1) / max(1e-9, wall * len(_cores(before, after))))


def _cores(before: Moment, after: Moment) -> frozenset[int]:
    """Return the cores that count: those allowed; all that the kernel shows, where a container numbers them anew."""
    allowed, shown = before.allowed | after.allowed, before.cores.keys() & after.cores.keys()
    return allowed if allowed <= shown else frozenset(shown)


def _spent(before: Moment, after: Moment, which: int) -> float:
    """Return the seconds that the cores which count worked (0), or were withheld (1), between two moments."""
    return sum(after.cores[core][which] - before.cores[core][which] for core in _cores(before, after))


def _capacity(before: Moment, after: Moment) -> float:
    """Return the seconds of all cores that the tree may use between two moments, or as many as its quota allows."""
    count = float(len(_cores(before, after)))
    return max(1e-9, after.wall_seconds - before.wall_seconds) * (
        min(count, after.quota.cores) if after.quota else count
    )


def disturbance(before: Moment, after: Moment) -> list[Mapping[str, str]]:
    """Return warnings about what else used the machine between two moments, and about what slowed it down."""
    wall = after.wall_seconds - before.wall_seconds
    others, steal = others_percent(before, after), stolen_percent(before, after)
    shared = _capacity(before, after) >= 0.2  # /proc/stat counts in steps of 10 ms
    stopped, hot = _rise(before, after, "throttled_seconds"), _rise(before, after, "thermal_throttles")
    moved = after.swapped_bytes - before.swapped_bytes
    known = (
        (
            stopped > wall * THROTTLED_PERCENT / 100,
            "throttled",
            f"the CPU quota stopped the process: cores stood still for {stopped:.2f} s in {wall:.2f} s",
            "this container or job may use less CPU time than it has cores (a cgroup quota)",
            "give it whole cores, or set measure.threads and workers to what the quota allows",
        ),
        (
            hot > 0,
            "thermal",
            f"the CPU slowed down {hot:.0f} times because of heat during the timed epochs",
            "the cooling does not suffice for all cores at once",
            "let it cool down, and see that later runs are not slower than earlier ones",
        ),
        (
            moved > SWAP_BYTES,
            "swapping",
            f"{moved / 1e6:,.0f} MB were moved to or from swap during the timed epochs",
            "the memory does not suffice for the loader and what else runs",
            "use fewer workers or a smaller prefetch, or a machine with more memory",
        ),
        (
            shared and others > OTHERS_PERCENT,
            "disturbed",
            f"other processes used {others:.0f} % of the cores that the loader may use, during the timed epochs",
            "something else ran on this machine",
            "stop it, or measure again when the machine is idle",
        ),
        (
            shared and steal > OTHERS_PERCENT,
            "stolen-time",
            f"the hypervisor withheld {steal:.0f} % of the cores that the loader may use, during the timed epochs",
            "other virtual machines share this host's cores",
            "use a machine with dedicated cores, or more repeats",
        ),
    )
    return [warning(*words) for happened, *words in known if happened]


def _rise(before: Moment, after: Moment, name: str) -> float:
    """Return by how much a counter rose; 0 where it was not there at both moments."""
    first, last = getattr(before, name), getattr(after, name)
    return 0 if first is None or last is None else last - first


def not_warm(before: Moment, after: Moment, payload_bytes: int) -> list[Mapping[str, str]]:
    """Return a warning if more than WARM_PERCENT of the bytes of what was delivered came from a device, not memory.

    `payload_bytes`: as its format has them.
    """
    read = after.read_bytes - before.read_bytes
    if read <= payload_bytes * WARM_PERCENT / 100:
        return []
    seen = f"{read / 1e6:,.0f} MB were read from a device for {payload_bytes / 1e6:,.0f} MB of files"
    return [
        warning(
            "not-warm",
            seen + " in the timed epochs",
            "its files were not all in the page cache, or it reads others",
            "read it as partly the speed of the storage",
        )
    ]


def from_device(before: Moment, after: Moment, payload_bytes: int) -> str | None:
    """Return why a run was not warm, or None: more than FROM_DEVICE_PERCENT of what it delivered came from a device."""
    read = after.read_bytes - before.read_bytes
    if read <= max(FROM_DEVICE_BYTES, payload_bytes * FROM_DEVICE_PERCENT / 100):
        return None
    return f"not warm: {read / 1e6:,.0f} MB were read from a device for {payload_bytes / 1e6:,.0f} MB of files"


def warning(code: str, seen: str, cause: str, hint: str) -> dict[str, str]:
    """Return a warning as records keep it: what was seen, the likely cause, what to do."""
    return {"code": code, "seen": seen, "cause": cause, "hint": hint}
