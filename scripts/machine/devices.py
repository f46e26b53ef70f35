"""What is behind a path: its mount, file system, disk and kind of storage, from /proc/self/mountinfo and /sys.

Formats of both are the kernel's: Documentation/filesystems/proc.rst (3.5) and Documentation/ABI/stable/sysfs-block.
Every function takes the folder that stands for `/proc` or `/sys`, so that a test can plant another machine.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.vocabulary import RAM
from scripts.machine.copies import nearest_existing
from scripts.machine.own_group import CGROUP, PROC, memory_left, text_of

SYS = Path("/sys")

KINDS = ("ram", "nvme", "ssd", "hdd", "virtual", "network", "overlay", "unknown")
FILESYSTEMS = (  # those that decide the kind by themselves
    (RAM, "ram"),
    (r"overlay|aufs|unionfs|fuse\.fuse-overlayfs", "overlay"),
    (r"9p|virtiofs|vboxsf|fuse\.vmhgfs-fuse|drvfs", "virtual"),
    (r"nfs4?|cifs|smb\w+|ncpfs|afs|ocfs2|gfs2|gpfs|lustre|beegfs|wekafs|pvfs2", "network"),
    (r"(fuse\.)?(ceph|glusterfs)", "network"),
    (r"fuse\.(sshfs|s3fs|gcsfuse|rclone|juicefs|mountpoint-s3|blobfuse2|goofys)", "network"),
)
DISK_NAMES = (  # the names under which drivers register disks
    (r"zram\d+|ram\d+", "ram"),
    (r"nvme\d+.*", "nvme"),
    (r"vd[a-z]+|xvd[a-z]+|ubd[a-z]+|loop\d+", "virtual"),
    (r"nbd\d+|rbd\d+|drbd\d+", "network"),
    (r"mmcblk\d+", "ssd"),
)
VIRTUAL_VENDORS = ("QEMU", "VMware", "Msft", "Google", "VBOX", "Virtual", "PersistentDisk", "Xen")
NETWORK_MODELS = ("Amazon Elastic Block Store",)


class Mount(NamedTuple):
    """One line of mountinfo."""

    point: str
    device: str  # MAJOR:MINOR
    filesystem: str
    source: str
    options: str  # of the mount and of the file system, comma-separated


class Disk(NamedTuple):
    """A whole block device: never a partition, and never one that maps onto others."""

    name: str
    kind: str
    model: str | None
    rotational: bool | None
    scheduler: str | None


def mounts(proc: Path = PROC) -> Iterator[Mount]:
    """Yield the mounts that this process sees, in the order in which they were made."""
    for line in (proc / "self" / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        filesystem, source, options = [*after.split(" "), "", ""][:3]
        together = list(dict.fromkeys([*fields[5].split(","), *options.split(",")]))
        yield Mount(_unescape(fields[4]), fields[2], filesystem, _unescape(source), ",".join(filter(None, together)))


def _unescape(text: str) -> str:
    """Return `text` with the kernel's octal escapes (blank, tab, newline, backslash) decoded."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_of(path: Path, proc: Path = PROC) -> Mount:
    """Return the mount on which `path` is, or will be once it exists.

    The longest mount point that holds the path wins, and among mounts on one point the last, which hides the others.
    """
    resolved = nearest_existing(path)
    found = None
    for mount in mounts(proc):
        if resolved.is_relative_to(mount.point) and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    if found is None:
        raise LookupError(f"no mount in {proc}/self/mountinfo holds {resolved}")
    return found


def disks_of(mount: Mount, sys: Path = SYS) -> list[Disk]:
    """Return the disks under a mounted file system; none where no block device can be found."""
    folder = block_folder(mount, sys)
    return list({disk.name: disk for disk in _underlying(folder)}.values()) if folder else []


def block_folder(mount: Mount, sys: Path = SYS) -> Path | None:
    """Return the folder of /sys of a mounted file system's block device, None where it has none.

    btrfs and others show a device number of their own, and the block device as source.
    """
    folder = sys / "dev" / "block" / mount.device
    if folder.exists():
        return folder.resolve()
    name, blocks = Path(mount.source).name, sorted((sys / "class" / "block").glob("*"))
    if not mount.source.startswith("/dev/"):
        return None
    return next((block.resolve() for block in blocks if name in (block.name, text_of(block / "dm" / "name"))), None)


def _underlying(folder: Path) -> Iterator[Disk]:
    """Yield the disks below a block device: a partition's own, a mapper's or RAID's slaves', else the device itself."""
    if (folder / "partition").exists():
        folder = folder.parent
    slaves = sorted((folder / "slaves").glob("*"))
    if slaves:
        for slave in slaves:
            yield from _underlying(slave.resolve())
        return
    rotational = text_of(folder / "queue" / "rotational")
    chosen = re.search(r"\[(.+?)\]", text_of(folder / "queue" / "scheduler") or "")
    yield Disk(
        name=folder.name,
        kind=_disk_kind(folder, rotational),
        model=text_of(folder / "device" / "model"),
        rotational=None if rotational is None else rotational == "1",
        scheduler=chosen[1] if chosen else None,
    )


def _disk_kind(folder: Path, rotational: str | None) -> str:
    model = text_of(folder / "device" / "model") or ""
    vendor = text_of(folder / "device" / "vendor") or ""
    transport = text_of(folder / "device" / "transport")
    if model.startswith(NETWORK_MODELS) or transport in ("tcp", "rdma", "fc"):
        return "network"
    for pattern, kind in DISK_NAMES:
        if re.fullmatch(pattern, folder.name):
            return kind
    if any(word in f"{vendor} {model}" for word in VIRTUAL_VENDORS):
        return "virtual"
    return {"1": "hdd", "0": "ssd"}.get(rotational or "", "unknown")


def kind_of(mount: Mount, disks: list[Disk]) -> str:
    """Return one of KINDS: by the file system where it decides, else by the disks, if they agree."""
    for pattern, kind in FILESYSTEMS:
        if re.fullmatch(pattern, mount.filesystem):
            return kind
    kinds = {disk.kind for disk in disks}
    return kinds.pop() if len(kinds) == 1 else "unknown"


def in_memory(path: Path, proc: Path = PROC) -> bool:
    """Return whether files at `path`, which need not exist yet, live in RAM: the file system is tmpfs or alike."""
    return re.fullmatch(RAM, mount_of(path, proc).filesystem) is not None


def cached_below(path: Path, proc: Path = PROC, sys: Path = SYS) -> str:
    """Return why a read from the block device of `path` may still come from RAM, or an empty text.

    A loop device without direct I/O reads its file through the page cache; what was evicted above stays below.
    """
    for disk in disks_of(mount_of(path, proc), sys):
        if disk.name.startswith("loop") and text_of(sys / "class" / "block" / disk.name / "loop" / "dio") == "0":
            return f"{disk.name} keeps its own file in the page cache: losetup --direct-io=on /dev/{disk.name}"
    return ""


def available_ram(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Return the bytes of RAM that can still be taken without swapping, by the machine and by this process's limits."""
    import psutil

    available, left = psutil.virtual_memory().available, memory_left(proc, cgroup)
    return available if left is None else min(available, left)


def describe(path: Path, proc: Path = PROC, sys: Path = SYS) -> dict[str, Any]:
    """Return file system, kind, device and mount of `path`, as a tier's record holds them; None for what is not known.

    Where the file system is on several disks their names and models are joined with ", ".
    """
    mount = mount_of(path, proc)
    disks = disks_of(mount, sys)
    rotations = {disk.rotational for disk in disks}
    return {
        "path": str(path),
        "filesystem": mount.filesystem,
        "kind": kind_of(mount, disks),
        "device": ", ".join(disk.name for disk in disks) or mount.source or None,
        "model": ", ".join(sorted({disk.model for disk in disks if disk.model})) or None,
        "rotational": rotations.pop() if len(rotations) == 1 else None,
        "scheduler": ", ".join(sorted({disk.scheduler for disk in disks if disk.scheduler})) or None,
        "mount_point": mount.point,
        "mount_options": mount.options,
    }


CLAIMS = (  # what a tier's name says, and the kinds for which it is true
    (r"(?<![a-z])ram(?![a-z])|ramdisk|tmpfs|(?<![a-z])shm(?![a-z])", ("ram",)),
    (r"nvme", ("nvme",)),
    (r"ssd", ("ssd", "nvme")),
    (r"hdd", ("hdd",)),
    (r"network|(?<![a-z])nfs(?![a-z])", ("network",)),
    (r"(?<!ram)disk", ("nvme", "ssd", "hdd", "virtual", "overlay", "unknown")),
)


def misnamed(tier: str, kind: str) -> list[dict[str, str]]:
    """Return a warning where the tier's name claims another kind of storage than the one found, else an empty list."""
    for pattern, true_for in CLAIMS:
        claim = re.search(pattern, tier.lower())
        if claim and kind not in true_for:
            return [
                {
                    "code": "tier-misnamed",
                    "seen": f"tier {tier!r} is named {claim[0]!r}, and its path is on storage of kind {kind!r}",
                    "cause": "the path is on another file system than its name says, or the kernel does not show what "
                    "the storage is",
                    "hint": "point the tier's path elsewhere, or rename the tier; results under this name mislead",
                }
            ]
    return []


def hidden(description: dict[str, Any]) -> list[dict[str, str]]:
    """Return a warning where what is behind the file system cannot be seen from here, else an empty list."""
    if description["kind"] not in ("virtual", "overlay"):
        return []
    return [
        {
            "code": "storage-hidden",
            "seen": f"{description['path']} is on {description['filesystem']} ({description['device']})",
            "cause": f"storage of kind {description['kind']!r}: what is behind cannot be seen from this machine",
            "hint": "say with the results what the host or the cloud provider has behind it",
        }
    ]
