"""The control group that this process is in, and those above it: what they have used, and what they leave.

Of cgroup v2 alone (Documentation/admin-guide/cgroup-v2.rst). Limits by v1 are unknown here, as if there were none.
"""

from pathlib import Path

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")


def own_groups(proc: Path = PROC, cgroup: Path = CGROUP) -> list[Path]:
    """Return the folders of this process's group and of those above it, the closest first; see cgroups(7).

    In a container the path may be that of the host, and only its own root is there to be seen.
    """
    lines = (text_of(proc / "self" / "cgroup") or "").splitlines()
    own = Path(next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), ""))
    return [folder for place in (own, *own.parents) if (folder := cgroup / place).is_dir()]


def throttled_seconds(proc: Path = PROC, cgroup: Path = CGROUP) -> float | None:
    """Return for how long CPU quotas have stopped this process's group and those above it, as far as visible.

    The kernel adds up the cores that stood still: on several cores it can be more than the time that has passed. None
    where no group has a quota.
    """
    counts = [numbers_of(folder / "cpu.stat") for folder in own_groups(proc, cgroup)]
    stopped = [fields["throttled_usec"] / 1e6 for fields in counts if "throttled_usec" in fields]
    return sum(stopped) if stopped else None


def used_bytes(group: Path) -> int:
    """Return the memory that a group uses, without pages of files on a device, which can be dropped."""
    fields = numbers_of(group / "memory.stat")
    return int((group / "memory.current").read_text()) - fields["file"] + fields["shmem"]


def memory_left(proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """Return the bytes that the limits of this process's group and those above it leave; None where none has one."""
    limits = {folder: text_of(folder / "memory.max") for folder in own_groups(proc, cgroup)}
    left = [int(limit) - used_bytes(group) for group, limit in limits.items() if limit not in (None, "max")]
    return max(0, min(left)) if left else None


def memory_limit(proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """Return the bytes that this process's group and those above it may have; None where none has a limit."""
    limits = [text_of(folder / "memory.max") for folder in own_groups(proc, cgroup)]
    return min((int(limit) for limit in limits if limit not in (None, "max")), default=None)


def text_of(path: Path) -> str | None:
    """Return what a file of the kernel says; None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def numbers_of(path: Path) -> dict[str, int]:
    """Return the numbers of a file of the kernel with a name and a number a line; empty where there is none."""
    return {name: int(number) for name, number in (line.split() for line in (text_of(path) or "").splitlines())}
