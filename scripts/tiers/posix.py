"""A folder on any mounted file system: a disk, a network share, or RAM (tmpfs).

The kind of tier for everything that has a path. What lies behind the path is read from the kernel
(`scripts/machine/devices.py`) and measured with fio (`scripts/machine/fio.py`).
"""

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.files import tree_size, whole_directory
from scripts.machine import devices, emulation
from scripts.machine.copies import copy_tree, flush_tree, nearest_existing, room_for

OPTIONS = {
    "path": {
        "type": "string",
        "minLength": 1,
        "description": "the folder on that storage; it is made where it does not exist",
    },
    "emulate": {
        "type": ["string", "object", "null"],
        "default": None,
        "description": "storage that this one is slowed down to: a preset of scripts/machine/emulation.py, or "
        "{read_mbps: ..., read_iops: ...}",
    },
}


def check(options: dict[str, Any]) -> None:
    """Return where folders can be made at the tier's path. Raises UserError where they cannot, or for no limits."""
    if not isinstance(options.get("path"), str) or not options["path"]:
        raise UserError(
            f"a posix tier with the options {options}: found no path; allowed is any folder. "
            'Write for example {path: "/mnt/nvme/feedrate"}.'
        )
    emulation.limits(options)
    path = Path(options["path"])
    parent = nearest_existing(path)
    if not parent.is_dir():
        raise _unusable(path, f"{parent}, which is not a folder")
    if "ro" in devices.mount_of(parent).options.split(","):
        raise _unusable(path, f"{parent}, which is mounted read-only")
    try:  # root may do all that the mode says, and still not write to /proc
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise _unusable(path, f"{parent}, where no file can be written ({error.strerror})") from error


def _unusable(path: Path, found: str) -> UserError:
    return UserError(
        f"path {path}: found {found}; allowed is a folder that you may write, or one that can be made. "
        "Set another path for the tier in config.yaml, or leave the tier out of `storage`."
    )


def _make_folder(path: Path) -> None:
    """Make the folder and those above it. Raises UserError where the file system refuses."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, f"that no folder can be made there ({error.strerror})") from error


def volatile(options: dict[str, Any]) -> bool:
    """Return whether files at the tier's path live in RAM, so that a copy there is to be given back."""
    return devices.in_memory(Path(options["path"]))


def place(source: Path, destination: Path) -> None:
    """Copy the folder `source` to `destination`, replacing it, and return once the bytes are on the device.

    Raises UserError where the file system has too little room or the folders above cannot be made; then `destination`
    is what it was before.
    """
    needed, _ = tree_size(source)
    _make_folder(destination.parent)
    free_ram = devices.available_ram() if devices.in_memory(destination) else None
    with room_for(destination, needed, at_most=free_ram), whole_directory(destination) as aside:
        copy_tree(source, aside)
        if free_ram is None:
            flush_tree(aside)


def profile(
    options: dict[str, Any], clip_bytes: Sequence[int], readers: Sequence[int], seconds: float
) -> dict[str, Any]:
    """Return what the tier is and gives: `devices.describe`, free and total bytes, fio's measurement, warnings.

    `emulated` is None or the limits under which fio ran (`emulation.limits`). `fio` is None, and `reason` says why,
    where there is no measurement. The path is made where it does not exist. Raises UserError where it cannot be made.
    """
    path = Path(options["path"])
    _make_folder(path)
    description = devices.describe(path)
    space = shutil.disk_usage(path)
    emulated = emulation.limits(options)
    measurement, reason = _measure(path, emulated, clip_bytes, readers, seconds)
    return {
        **description,
        "free_bytes": space.free,
        "total_bytes": space.total,
        "emulated": emulated,
        "fio": measurement,
        "reason": reason,
        "warnings": devices.hidden(description),
    }


def _measure(
    path: Path, emulated: dict[str, Any] | None, clip_bytes: Sequence[int], readers: Sequence[int], seconds: float
) -> tuple[dict[str, Any] | None, str | None]:
    """Return fio's measurement and None, or None and the reason; of an emulated tier inside its group."""
    from scripts.machine import control_groups
    from scripts.machine.fio import measure_reads

    try:
        with contextlib.ExitStack() as stack:
            inside = []
            if emulated is not None:
                limited = control_groups.group(path, emulated["read_mbps"], emulated["read_iops"])
                inside = stack.enter_context(limited)
            return measure_reads(path, clip_bytes, readers, seconds, devices.in_memory(path), inside=inside)
    except control_groups.NotPermitted as reason:
        return None, f"storage cannot be emulated: {reason}"
