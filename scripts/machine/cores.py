"""How many cores this process may use: affinity and a cgroup's CPU quota count. Light, for the plan."""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from scripts.machine.own_group import CGROUP, PROC, numbers_of, own_groups, text_of

SYSTEM = Path("/sys")


def cores_allowed() -> int:
    """Return the number of cores this process may use: its affinity, and a cgroup CPU quota, rounded up."""
    return _within(cpu_quota(), len(os.sched_getaffinity(0)))


def physical_cores_allowed(system: Path = SYSTEM, cgroup: Path = CGROUP) -> int:
    """Return the number of cores this process may use, as `cores_allowed`, where two threads of a core count once."""
    return _within(cpu_quota(cgroup), len({_first_thread(cpu, system) for cpu in os.sched_getaffinity(0)}))


def _within(quota: float | None, cores: int) -> int:
    return cores if quota is None else max(1, min(cores, -int(-quota // 1)))


def cpu_quota(cgroup: Path = CGROUP) -> float | None:
    """Return the smallest CPU quota of this process's control groups (v2) in cores, or None where there is no limit."""
    found = quota(cgroup=cgroup)
    return found and found.cores


class Quota(NamedTuple):
    """The smallest CPU quota of this process's control groups (v2)."""

    cores: float
    used_seconds: float  # by every process of the group, since it was made


def quota(proc: Path = PROC, cgroup: Path = CGROUP) -> Quota | None:
    """Return the smallest quota that holds for this process; None where there is no limit."""
    found = []
    for group in own_groups(proc, cgroup):
        limit, *period = (text_of(group / "cpu.max") or "max").split()
        if limit != "max":
            used = numbers_of(group / "cpu.stat").get("usage_usec", 0) / 1e6
            found.append(Quota(int(limit) / int(period[0]), used))
    return min(found, default=None)


def used_by_core(proc: Path = PROC) -> dict[int, tuple[float, float]]:
    """Return {core: (seconds at work, seconds that the hypervisor withheld)} since boot; see proc_stat(5)."""
    tick, found = os.sysconf("SC_CLK_TCK"), {}
    for number, times in re.findall(r"(?m)^cpu(\d+) (.+)$", (proc / "stat").read_text()):
        user, nice, system, _idle, _disk, irq, softirq, stolen, *_guests = map(int, times.split())
        found[int(number)] = ((user + nice + system + irq + softirq) / tick, stolen / tick)
    return found


def cores_of(processes: Iterable[int]) -> frozenset[int]:
    """Return the cores that any thread of these processes may use: a library may pin the threads that it starts."""
    found: set[int] = set()
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            for thread in os.listdir(f"/proc/{process}/task"):
                with contextlib.suppress(OSError):
                    found |= os.sched_getaffinity(int(thread))
    return frozenset(found)


def cores_of_ranks(world: int, system: Path = SYSTEM, cgroup: Path = CGROUP) -> list[list[int]]:
    """Return the CPUs of each of `world` ranks: as many for each, of one NUMA node, the threads of a core together.

    A cgroup's CPU quota is shared too. Where there are fewer CPUs than ranks each has one, and some share one.
    """
    nodes: dict[int, list[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0), key=lambda cpu: (_first_thread(cpu, system), cpu)):
        nodes.setdefault(_node(cpu, system), []).append(cpu)
    places = [place for _, place in sorted(nodes.items())]
    of_node = [rank * len(places) // world for rank in range(world)]
    quota = _within(cpu_quota(cgroup), sum(map(len, places))) // world
    each = max(1, min(quota, *(len(places[node]) // of_node.count(node) for node in set(of_node))))
    found = []
    for rank, node in enumerate(of_node):
        first = each * (rank - of_node.index(node))
        found.append([places[node][at % len(places[node])] for at in range(first, first + each)])
    return found


def _first_thread(cpu: int, system: Path) -> int:
    siblings = text_of(system / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
    return int(siblings.replace("-", ",").partition(",")[0])


def _node(cpu: int, system: Path) -> int:
    """Return the NUMA node of a CPU, 0 where the kernel does not say."""
    found = next((system / f"devices/system/cpu/cpu{cpu}").glob("node[0-9]*"), None)
    return int(found.name.removeprefix("node")) if found else 0
