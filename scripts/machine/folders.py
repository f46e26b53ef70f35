"""Storage that is a folder of this machine: whether it can be written, where it is, and what reads of it get.

For every tier kind whose bytes are on a mounted file system, whatever it keeps there.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.location import Location
from scripts.machine import control_groups, devices, fio
from scripts.machine.copies import nearest_existing


def location_of(path: Path) -> Location:
    """Return the location of a folder of files, which need not exist yet."""
    return Location(
        uri=Path(os.path.realpath(path)).as_uri(),
        path=path,
        held_in=path,
        in_memory=devices.in_memory(path),
        not_evicted=devices.cached_below(path),
    )


def check_folder(path: Path) -> None:
    """Return where folders can be made at `path`. Raises UserError where they cannot."""
    parent = nearest_existing(path)
    if not parent.is_dir():
        raise _unusable(path, f"{parent}, which is not a folder")
    if "ro" in devices.mount_of(parent).options.split(","):
        raise _unusable(path, f"{parent}, which is mounted read-only")
    try:  # root may do all that the mode says, and still not write to /proc
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise _unusable(path, f"{parent}, where no file can be written ({error.strerror})") from error


def make_folder(path: Path) -> None:
    """Make the folder and those above it. Raises UserError where the file system refuses."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, f"that no folder can be made there ({error.strerror})") from error


def _unusable(path: Path, found: str) -> UserError:
    return UserError(
        f"path {path}: found {found}; allowed is a folder that you may write, or one that can be made. "
        "Set another path for the tier in config.yaml, or leave the tier out of `storage`."
    )


def profile_folder(
    path: Path, emulated: dict[str, Any] | None, item_bytes: Sequence[int], readers: Sequence[int], seconds: float
) -> dict[str, Any]:
    """Return what the storage of a folder is and gives: `devices.describe`, free and total bytes, fio's measurement.

    `emulated` is None or the limits under which fio runs (`emulation.limits`). `fio` is None, and `reason` says why,
    where there is no measurement. The folder is made where it does not exist. Raises UserError where it cannot be made.
    """
    make_folder(path)
    description, space = devices.describe(path), shutil.disk_usage(path)
    group = nullcontext([])
    if emulated is not None:
        group = control_groups.group(path, emulated["read_mbps"], emulated["read_iops"])
    try:
        with group as inside:
            measurement, reason = fio.measure_reads(
                path, item_bytes, readers, seconds, devices.in_memory(path), inside=inside
            )
    except control_groups.NotPermitted as refused:
        measurement, reason = None, f"storage cannot be emulated: {refused}"
    return {
        **description,
        "free_bytes": space.free,
        "total_bytes": space.total,
        "emulated": emulated,
        "fio": measurement,
        "reason": reason,
        "warnings": devices.hidden(description),
    }
