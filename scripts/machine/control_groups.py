"""Control groups for a measured process tree: fewer reads a second from a disk, and less memory for the page cache.

By cgroup v2 alone (Documentation/admin-guide/cgroup-v2.rst). The parent makes a group and hands its folder down; the
child joins it, and so does all that it starts:

    with groups.group(data, read_mbps=200, read_iops=86, memory=True) as folders:
        start(command, folders)
    # in the child
    groups.join(folders)
    groups.leave_room(folders, 16_000_000)  # once it has taken the memory that it needs

Memory is charged to the group of the process that touched a page first: files that anybody has in the page cache stay
there, and cost this group nothing. They have to be put out (`machine.page_cache.evict`) before a process of the group
reads them. What processes of the group take after `leave_room` (workers, buffers) comes out of the room.

Every function that looks at the machine takes the folders that stand for `/proc` and `/sys`, as in `devices.py`.
"""

import contextlib
import errno
import os
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.machine import devices
from scripts.machine.own_group import CGROUP, own_groups, text_of, used_bytes

joined: list[str] = []  # the folder of the group that this process was put into, or none
NOT_WRITABLE = "control groups are not writable for this user (needs root or a delegated cgroup)"
TRIES = 50
PAUSE_SECONDS = 0.02  # between two tries


class NotPermitted(Exception):
    """Why this machine, user or storage lets no group be made: its text is the reason that stands in a report."""


@contextmanager
def group(
    reads_from: Path | None = None,
    read_mbps: float | None = None,
    read_iops: float | None = None,
    memory: bool = False,
    proc: Path = devices.PROC,
    sys: Path = devices.SYS,
    cgroup: Path = CGROUP,
) -> Iterator[list[str]]:
    """Yield the folder of a new group, as a list of one, and remove the group.

    `read_mbps` (10^6 bytes a second) and `read_iops` limit what the group reads from the block device under the path
    `reads_from`. `memory` makes the group one whose memory `leave_room` can limit; until then it has no limit.
    Processes that are still in the group in the end are moved to the group of this process.

    Raises NotPermitted before the block.
    """
    limits = {key: round(value) for key, value in (("bps", (read_mbps or 0) * 1e6), ("iops", read_iops or 0)) if value}
    device = device_of(reads_from, proc, sys) if limits and reads_from is not None else ""
    wanted = [*(["io"] if device else []), *(["memory"] if memory else [])]
    if not wanted or bool(limits) != bool(device):
        raise ValueError("a group limits reads of a path, or memory, or both")
    groups = own_groups(proc, cgroup)
    parent = _parent(wanted, groups, _words(cgroup / "cgroup.controllers"))
    _forget_the_dead(parent)
    folder = _make_folder(parent)
    try:
        if device:
            _limit_reads(folder, device, limits)
        _try_out([str(folder)])
        yield [str(folder)]
    finally:
        _remove(folder, groups[0])


def join(folders: Sequence[str]) -> None:
    """Put this process, with all its threads and all children that it will start, into the group."""
    for folder in folders:
        (Path(folder) / "cgroup.procs").write_text("0\n")  # the writer itself
    joined.extend(folders)


def command_inside(folders: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return a command line that joins the group and becomes `command`, a program that cannot join by itself."""
    script = 'echo 0 > "$1/cgroup.procs" || exit 1; shift; exec "$@"'
    return ["sh", "-c", script, "sh", *folders, *command] if folders else list(command)


class Peak:
    """Watches (`with`) the most memory that the group uses without pages of files; `used_bytes` says it afterwards.

    A thread looks some 50 times a second: nothing to do beside timed epochs.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folder = Path(folders[0])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.used_bytes = 0

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            self.used_bytes = max(self.used_bytes, used_bytes(self._folder))


def leave_room(folders: Sequence[str], room_bytes: int, at_least: int = 0) -> dict[str, int]:
    """Limit the group's memory to what it uses without pages of files, plus `room_bytes`; forbid swapping.

    Called by the measured process itself once it has taken what it needs: no more than about `room_bytes` of files stay
    in the page cache from then on. What it uses comes and goes with the batches under way, so that `at_least` counts
    where it uses less at this moment. Pages of tmpfs count as used, since they cannot be dropped.

    Returns `limit_bytes` (as the kernel took it), `used_bytes`, `room_bytes` and the cgroup `version`.
    """
    folder = Path(folders[0])
    if (folder / "memory.swap.max").exists():  # not every kernel accounts for swap
        (folder / "memory.swap.max").write_text("0\n")
    used = max(at_least, used_bytes(folder))
    (folder / "memory.max").write_text(f"{used + room_bytes}\n")
    taken = int((folder / "memory.max").read_text())
    return {"limit_bytes": taken, "used_bytes": used, "room_bytes": room_bytes, "version": 2}


def device_of(path: Path, proc: Path = devices.PROC, sys: Path = devices.SYS) -> str:
    """Return MAJOR:MINOR of the block device whose queue `path`'s file system reads from.

    Of a partition it is the whole disk; device mapper and md have queues of their own, and stand for themselves. Of a
    btrfs on several devices it is the one that was mounted.

    Raises NotPermitted where there is none: tmpfs, overlay, network file systems.
    """
    mount = devices.mount_of(path, proc)
    folder = devices.block_folder(mount, sys)
    if folder is None:
        raise NotPermitted(f"{path} is on {mount.filesystem}, which has no block device whose reads can be limited")
    return text_of((folder.parent if (folder / "partition").exists() else folder) / "dev")


def _parent(controllers: Sequence[str], groups: Sequence[Path], known: Collection[str]) -> Path:
    """Return the nearest of this process's `groups` that has the controllers for groups below it.

    A group that holds processes cannot give controllers to groups below it, unless it is the root ("no internal
    processes"), so that it is seldom this process's own. What is enabled stays enabled: other groups may rely on it.

    Raises NotPermitted where the machine does not have the controllers, or this user may not use them.
    """
    if not known:
        raise NotPermitted("this machine has no controllers of cgroup v2, and feedrate does not use v1")
    if absent := [name for name in controllers if name not in known]:
        raise NotPermitted(f"control groups have no controller for {' and '.join(absent)} here")
    busy = False
    for parent in groups:
        missing = set(controllers) - _words(parent / "cgroup.subtree_control")
        try:
            if missing:
                (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(missing)))
        except OSError as error:
            busy = busy or error.errno == errno.EBUSY
            continue
        if os.access(parent, os.W_OK):
            return parent
    if busy:
        raise NotPermitted(
            f"cgroup v2 gives {' and '.join(controllers)} to no group below {groups[0]}, which holds processes. "
            "Those above are not writable (needs root outside the container, or a delegated cgroup)"
        )
    raise NotPermitted(NOT_WRITABLE)


def _make_folder(parent: Path) -> Path:
    """Make an empty group. Raises NotPermitted where this user may not."""
    folder = parent / f"feedrate-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError as error:
        raise NotPermitted(f"no control group can be made in {parent} ({error.strerror})") from error
    return folder


def _limit_reads(folder: Path, device: str, limits: dict[str, int]) -> None:
    """Set the group's limits, `bps` and `iops`. Raises NotPermitted where the kernel has or takes none."""
    if not (folder / "io.max").exists():
        raise NotPermitted("this kernel cannot limit reads (io.max is missing: CONFIG_BLK_DEV_THROTTLING)")
    try:
        (folder / "io.max").write_text(" ".join([device, *(f"r{key}={value}" for key, value in limits.items())]) + "\n")
    except OSError as error:
        raise NotPermitted(f"the kernel does not limit reads of device {device} ({error.strerror})") from error


def _try_out(folders: Sequence[str]) -> None:
    """Let a process join, since that takes rights on groups above too. Raises NotPermitted where it may not."""
    done = subprocess.run(command_inside(folders, ["true"]), capture_output=True, text=True)
    if done.returncode != 0:
        raise NotPermitted(f"no process may be put into a control group ({done.stderr.strip()[-200:]})")


def _forget_the_dead(parent: Path) -> None:
    """Remove groups whose maker was killed before it could; one that holds a process stays."""
    import psutil

    for folder in parent.glob("feedrate-*"):
        maker = re.fullmatch(r"feedrate-(\d+)-[0-9a-f]{8}", folder.name)
        if maker and not psutil.pid_exists(int(maker[1])):
            with contextlib.suppress(OSError):
                _remove_folder(folder)


def _remove(folder: Path, home: Path) -> None:
    """Remove a group as soon as the processes in it have ended; after a second, move them to `home` first."""
    for left in reversed(range(2 * TRIES)):
        try:
            return _remove_folder(folder)
        except FileNotFoundError:
            return None
        except OSError:
            if not left:
                raise
        if left <= TRIES:
            for process in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    (home / "cgroup.procs").write_text(process)
        time.sleep(PAUSE_SECONDS)
    return None


def _remove_folder(folder: Path) -> None:
    folder.rmdir()  # the kernel takes the files in it away


def _words(path: Path) -> set[str]:
    """Return the words in a file; none where it is absent, as in a folder that is no group."""
    return set((text_of(path) or "").split())
