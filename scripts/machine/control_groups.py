"""Control groups for a measured process tree: fewer reads a second from a disk, and less memory for the page cache.

By cgroup v2 (Documentation/admin-guide/cgroup-v2.rst) where it has the controller, else by the hierarchy of v1
(Documentation/admin-guide/cgroup-v1/{blkio-controller,memory}.rst). The parent makes the groups and hands their folders
down; the child joins them, and so does all that it starts:

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
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scripts.machine import devices

joined: list[str] = []  # the folders of the groups that this process was put into
V1_NAMES = {"io": "blkio", "memory": "memory"}  # what v1 calls the controllers of v2
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
NOT_WRITABLE = "control groups are not writable for this user (needs root or a delegated cgroup)"
TRIES = 50
PAUSE_SECONDS = 0.02  # between two tries
_USAGE = {2: "memory.current", 1: "memory.usage_in_bytes"}  # by version
_CACHE = {2: ("file", "shmem"), 1: ("total_cache", "total_shmem")}  # the page cache, and what of it is no file's


class NotPermitted(Exception):
    """Why this machine, user or storage lets no group be made: its text is the reason that stands in a report."""


class _Place(NamedTuple):
    """Where groups for some controllers can be made."""

    version: int
    parent: Path  # the folder in which the group's own is made
    home: Path  # the group that this process is in, for whoever is left in the end
    controllers: tuple[str, ...]


@contextmanager
def group(
    reads_from: Path | None = None,
    read_mbps: float | None = None,
    read_iops: float | None = None,
    memory: bool = False,
    proc: Path = devices.PROC,
    sys: Path = devices.SYS,
) -> Iterator[list[str]]:
    """Yield the folders of a new group, one or two (v1 has a hierarchy for each controller), and remove them.

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
    places = _places(wanted, proc)
    folders = []
    with contextlib.ExitStack() as made:
        for place in places:
            _forget_the_dead(place.parent, proc)
            folder = _make_folder(place)
            made.callback(_remove, folder, place.home)
            if "io" in place.controllers:
                _limit_reads(place.version, folder, device, limits)
            folders.append(str(folder))
        _try_out(folders)
        yield folders


def join(folders: Sequence[str]) -> None:
    """Put this process, with all its threads and all children that it will start, into the groups."""
    for folder in folders:
        (Path(folder) / "cgroup.procs").write_text("0\n")  # the writer itself
    joined.extend(folders)


def command_inside(folders: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return a command line that joins the groups and becomes `command`, a program that cannot join by itself."""
    script = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
    return ["sh", "-c", script, "sh", *folders, "--", *command] if folders else list(command)


class Peak:
    """Watches (`with`) the most memory that the group uses without pages of files; `used_bytes` says it afterwards.

    A thread looks some 50 times a second: nothing to do beside timed epochs.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
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
            self.used_bytes = max(self.used_bytes, used_bytes(self._folders))


def used_bytes(folders: Sequence[str]) -> int:
    """Return the memory that the group uses, without pages of files on a device."""
    folder, version = _memory_folder(folders)
    return _number(folder / _USAGE[version]) - _files_bytes(folder, *_CACHE[version])


def leave_room(folders: Sequence[str], room_bytes: int, at_least: int = 0) -> dict[str, int]:
    """Limit the group's memory to what it uses without pages of files, plus `room_bytes`; forbid swapping.

    Called by the measured process itself once it has taken what it needs: no more than about `room_bytes` of files stay
    in the page cache from then on. What it uses comes and goes with the batches under way, so that `at_least` counts
    where it uses less at this moment. Pages of tmpfs count as used, since they cannot be dropped.

    Returns `limit_bytes` (as the kernel took it), `used_bytes`, `room_bytes` and the cgroup `version`. Raises OSError
    where the kernel does not come down to the limit.
    """
    folder, version = _memory_folder(folders)
    if version == 2:
        limit = "memory.max"
        _write_if_there(folder / "memory.swap.max", "0")
    else:
        limit = "memory.limit_in_bytes"
        _write_if_there(folder / "memory.swappiness", "0")
        _write_if_there(folder / "memory.memsw.limit_in_bytes", "-1")  # of an earlier call; never below the limit
    for left in reversed(range(TRIES)):
        used = max(at_least, used_bytes(folders))
        try:
            (folder / limit).write_text(f"{used + room_bytes}\n")
            break
        except OSError as error:  # v1: more than the limit cannot be dropped, for the moment
            if error.errno != errno.EBUSY or not left:
                raise
            time.sleep(PAUSE_SECONDS)
    taken = _number(folder / limit)
    if version == 1:
        _write_if_there(folder / "memory.memsw.limit_in_bytes", str(taken))
    return {"limit_bytes": taken, "used_bytes": used, "room_bytes": room_bytes, "version": version}


def device_of(path: Path, proc: Path = devices.PROC, sys: Path = devices.SYS) -> str:
    """Return MAJOR:MINOR of the block device whose queue `path`'s file system reads from.

    Of a partition it is the whole disk; device mapper and md have queues of their own, and stand for themselves. Of a
    btrfs on several devices it is the one that was mounted.

    Raises NotPermitted where there is none: tmpfs, overlay, network file systems.
    """
    mount = devices.mount_of(path, proc)
    folder = sys / "dev" / "block" / mount.device
    if not folder.exists() and mount.source.startswith("/dev/"):  # btrfs shows a number of its own
        with contextlib.suppress(OSError):
            source = os.stat(mount.source)
            if stat.S_ISBLK(source.st_mode):
                folder = sys / "dev" / "block" / f"{os.major(source.st_rdev)}:{os.minor(source.st_rdev)}"
    if not folder.exists():
        raise NotPermitted(f"{path} is on {mount.filesystem}, which has no block device whose reads can be limited")
    folder = folder.resolve()
    if (folder / "partition").exists():
        folder = folder.parent
    return (folder / "dev").read_text().strip()


def _places(controllers: Sequence[str], proc: Path) -> list[_Place]:
    """Return where to make the groups: one place in v2 for all controllers that it has, and one each in v1."""
    unified, hierarchies = _hierarchies(proc)
    if unified is None and not hierarchies:
        raise NotPermitted("this machine has no control groups (no cgroup file system is mounted)")
    has = _words(unified / "cgroup.controllers") if unified else set()
    own = _own_groups(proc)
    places = []
    in_v2 = tuple(name for name in controllers if name in has)
    if unified and in_v2:
        places.append(_place_v2(unified, _own_folder(unified, own.get("", "/")), in_v2))
    for name in controllers:
        if name in in_v2:
            continue
        old = V1_NAMES[name]
        if old not in hierarchies:
            raise NotPermitted(f"control groups have no controller for {name} here (v2: {name}, v1: {old})")
        home = _own_folder(hierarchies[old], own.get(old, "/"))
        places.append(_Place(1, home, home, (name,)))
    return places


def _hierarchies(proc: Path) -> tuple[Path | None, dict[str, Path]]:
    """Return where v2 is mounted, and where in v1 each controller is."""
    unified: Path | None = None
    old: dict[str, Path] = {}
    for mount in devices.mounts(proc):
        if mount.filesystem == "cgroup2":
            unified = unified or Path(mount.point)
        elif mount.filesystem == "cgroup":
            for name in set(V1_NAMES.values()) & set(mount.options.split(",")):
                old.setdefault(name, Path(mount.point))
    return unified, old


def _own_groups(proc: Path) -> dict[str, str]:
    """Return the group that this process is in, by the name of the v1 controller ("" for v2)."""
    lines = (proc / "self" / "cgroup").read_text().splitlines()
    fields = (line.split(":", 2) for line in lines)
    return {name: path for _, names, path in fields for name in names.split(",")}


def _own_folder(point: Path, group: str) -> Path:
    """Return the folder of a group; that of the mount where a container shows no other."""
    folder = Path(f"{point}{group}")
    return folder if ".." not in folder.parts and folder.is_dir() else point


def _place_v2(point: Path, own: Path, controllers: tuple[str, ...]) -> _Place:
    """Return the nearest group, from this process's own upwards, that has the controllers for groups below it.

    A group that holds processes cannot give controllers to groups below it, unless it is the root ("no internal
    processes"), so that it is seldom this process's own. What is enabled stays enabled: other groups may rely on it.
    """
    busy = False
    for parent in (own, *own.parents):
        if not parent.is_relative_to(point):
            break
        missing = set(controllers) - _words(parent / "cgroup.subtree_control")
        try:
            if missing:
                (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(missing)))
        except OSError as error:
            busy = busy or error.errno == errno.EBUSY
            continue
        if os.access(parent, os.W_OK):
            return _Place(2, parent, own, controllers)
    if busy:
        raise NotPermitted(
            f"cgroup v2 gives {' and '.join(controllers)} to no group below {own}, which holds processes itself, and "
            "those above are not writable (needs root outside of the container, or a delegated cgroup)"
        )
    raise NotPermitted(NOT_WRITABLE)


def _make_folder(place: _Place) -> Path:
    """Make an empty group. Raises NotPermitted where this user may not."""
    folder = place.parent / f"feedrate-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError as error:
        if error.errno in REFUSED:
            raise NotPermitted(NOT_WRITABLE) from error
        raise NotPermitted(f"no control group can be made in {place.parent} ({error.strerror})") from error
    return folder


def _limit_reads(version: int, folder: Path, device: str, limits: dict[str, int]) -> None:
    """Set the group's limits, `bps` and `iops`. Raises NotPermitted where the kernel has or takes none."""
    if version == 2:
        lines = [("io.max", " ".join([device, *(f"r{key}={value}" for key, value in limits.items())]))]
    else:
        lines = [(f"blkio.throttle.read_{key}_device", f"{device} {value}") for key, value in limits.items()]
    for name, line in lines:
        if not (folder / name).exists():
            raise NotPermitted(f"this kernel cannot limit reads ({name} is missing: CONFIG_BLK_DEV_THROTTLING)")
        try:
            (folder / name).write_text(line + "\n")
        except OSError as error:
            raise NotPermitted(f"the kernel does not limit reads of device {device} ({error.strerror})") from error


def _try_out(folders: Sequence[str]) -> None:
    """Let a process join, since in v2 that takes rights on groups above too. Raises NotPermitted where it may not."""
    done = subprocess.run(command_inside(folders, ["true"]), capture_output=True, text=True)
    if done.returncode != 0:
        raise NotPermitted(f"no process may be put into a control group ({done.stderr.strip()[-200:]})")


def _forget_the_dead(parent: Path, proc: Path) -> None:
    """Remove groups whose maker was killed before it could; one that holds a process stays."""
    for folder in parent.glob("feedrate-*"):
        maker = re.fullmatch(r"feedrate-(\d+)-[0-9a-f]{8}", folder.name)
        if maker and not (proc / maker[1]).exists():
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


def _memory_folder(folders: Sequence[str]) -> tuple[Path, int]:
    """Return that of the groups which limits memory, and its version."""
    for folder in map(Path, folders):
        for version, name in ((2, "memory.max"), (1, "memory.limit_in_bytes")):
            if (folder / name).exists():
                return folder, version
    raise ValueError(f"none of the groups {list(folders)} was made with memory=True")


def _files_bytes(folder: Path, cache: str, shmem: str) -> int:
    """Return how much of the page cache is of files that are on a device."""
    lines = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int(lines[cache]) - int(lines[shmem])


def _number(path: Path) -> int:
    return int(path.read_text())


def _words(path: Path) -> set[str]:
    """Return the words in a file; none where it is absent, as in a folder that is no group."""
    try:
        return set(path.read_text().split())
    except OSError:
        return set()


def _write_if_there(path: Path, value: str) -> None:
    """Write to a file that not every kernel has (memory.swap.max, memory.memsw...), or not for every group."""
    if path.exists():
        with contextlib.suppress(OSError):
            path.write_text(value + "\n")
