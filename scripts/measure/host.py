"""What this machine is, and whether it was disturbed while a run was measured."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

WARM_PERCENT = 1.0  # of the payload that a warm run may read from a device
OTHERS_PERCENT = 5.0  # CPU time of others, of all cores, above which a run is flagged as disturbed


def cores_allowed() -> int:
    """Return the number of cores this process may use: its affinity, and a cgroup CPU quota, rounded up."""
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, -int(-quota // 1)))


def cpu_quota(cgroup: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the cgroup's CPU quota in cores (v2, else v1), or None where there is no limit."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def describe(distributions: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return (host, versions): the machine in facts without names or paths, and versions of `distributions`."""
    host = {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "cores_allowed": cores_allowed(),
        "cpu_quota": cpu_quota(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "system": platform.system(),
        "python": platform.python_version(),
        "gpus": _gpus(),
        "openmp_spin_count": os.environ.get("GOMP_SPINCOUNT"),
    }
    return host, {name: metadata.version(name) for name in distributions}


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _gpus() -> list[str]:
    import torch

    if not torch.cuda.is_available():
        return []
    try:
        return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    except RuntimeError as error:  # a GPU that is there and cannot be used must not stop a run on the CPU
        return [f"not usable: {str(error).splitlines()[0]}"]


@dataclass(frozen=True)
class Moment:
    """The host at one moment: CPU time since boot, and what this process tree has used since its start."""

    busy_seconds: float
    steal_seconds: float
    own_seconds: float
    read_bytes: int  # that this process tree has had fetched from block devices
    minor_faults: int  # of this process tree: pages that were in memory already
    major_faults: int  # pages that had to be read
    wall_seconds: float
    load_1m: float
    cpu_mhz: float | None

    def as_json(self) -> dict[str, float | None]:
        """Return what a run's record keeps of a moment."""
        return {"load_1m": self.load_1m, "cpu_mhz": self.cpu_mhz}


def look(clock: Any) -> Moment:
    """Return the host at this moment. Takes a millisecond or two: never call it inside a timed epoch."""
    times = psutil.cpu_times()
    own, read, faults = 0.0, 0, [0, 0]
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            used = process.cpu_times()
            own += used.user + used.system + used.children_user + used.children_system  # of those that have ended
            read += process.io_counters().read_bytes
            faults = [sum(pair) for pair in zip(faults, _faults(process.pid), strict=True)]
        except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError, ProcessLookupError):
            continue
    frequency = psutil.cpu_freq()
    busy = times.user + times.nice + times.system + times.irq + times.softirq
    mhz = round(frequency.current, 1) if frequency and frequency.current else None
    return Moment(busy, times.steal, own, read, *faults, clock(), round(os.getloadavg()[0], 2), mhz)


def _faults(pid: int) -> tuple[int, int]:
    """Return (minor, major) page faults of a process and of its children that have ended; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    minor, minor_of_children, major, major_of_children = map(int, fields[7:11])
    return minor + minor_of_children, major + major_of_children


def resources(before: Moment, after: Moment, clips: int) -> dict[str, float]:
    """Return what the process tree, workers included, used between two moments in which it delivered `clips`."""
    seconds = after.own_seconds - before.own_seconds
    return {
        "cpu_seconds": seconds,
        "cpu_seconds_per_1000_clips": 1000 * seconds / clips,
        "read_bytes": after.read_bytes - before.read_bytes,
        "minor_faults": after.minor_faults - before.minor_faults,
        "major_faults": after.major_faults - before.major_faults,
    }


def disturbance(before: Moment, after: Moment) -> list[Mapping[str, str]]:
    """Return warnings about what else used the machine between two moments."""
    capacity = max(1e-9, after.wall_seconds - before.wall_seconds) * (os.cpu_count() or 1)
    own = after.own_seconds - before.own_seconds
    others = 100 * (after.busy_seconds - before.busy_seconds - own) / capacity
    steal = 100 * (after.steal_seconds - before.steal_seconds) / capacity
    warnings = []
    if capacity < 0.2:  # /proc/stat counts in steps of 10 ms
        return warnings
    if others > OTHERS_PERCENT:
        warnings.append(
            warning(
                "disturbed",
                f"other processes used {others:.0f} % of all cores during the timed epochs",
                "something else ran on this machine",
                "stop it, or measure again when the machine is idle",
            )
        )
    if steal > OTHERS_PERCENT:
        warnings.append(
            warning(
                "stolen-time",
                f"the hypervisor withheld {steal:.0f} % of all cores during the timed epochs",
                "other virtual machines share this host's cores",
                "use a machine with dedicated cores, or more repeats",
            )
        )
    return warnings


def not_warm(before: Moment, after: Moment, payload_bytes: int) -> list[Mapping[str, str]]:
    """Return a warning if more than WARM_PERCENT of what was delivered came from a device and not from memory."""
    read = after.read_bytes - before.read_bytes
    if read <= payload_bytes * WARM_PERCENT / 100:
        return []
    seen = f"{read / 1e6:,.0f} MB were read from a device for {payload_bytes / 1e6:,.0f} MB delivered"
    return [
        warning(
            "not-warm",
            seen + " in the timed epochs",
            "the data does not fit into the page cache beside what else is in memory",
            "read it as the speed of the storage, or measure with fewer clips or more memory",
        )
    ]


def warning(code: str, seen: str, cause: str, hint: str) -> dict[str, str]:
    """Return a warning as records keep it: what was seen, the likely cause, what to do."""
    return {"code": code, "seen": seen, "cause": cause, "hint": hint}
