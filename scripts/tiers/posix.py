"""A folder on any mounted file system: a disk, a network share, or RAM (tmpfs).

The kind of tier for everything that has a path. What is behind the path is read from the kernel
(`scripts/machine/devices.py`) and measured with fio (`scripts/machine/fio.py`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.files import tree_size, whole_directory
from scripts.common.location import Location
from scripts.machine import devices, emulation, folders
from scripts.machine.copies import can_link, copy_tree, flush_tree, link_tree, room_for

VERSION = 1
OPTIONS = {
    "path": {
        "type": "string",
        "format": "path",
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
    folders.check_folder(Path(options["path"]))


def location(options: dict[str, Any], copy: str) -> Location:
    """Return where the copy of this name is on the tier: a folder below the tier's own, in RAM where that is."""
    return folders.location_of(Path(options["path"], copy))


def place(options: dict[str, Any], source: Path, location: Location) -> None:
    """Have the files of the folder `source` at the location, replacing it; return once the bytes are on the device.

    On the file system of `source` they are second names of the same files (link(2)), on any other copies. Raises
    UserError where the file system has too little room or the folders above cannot be made; then the location is what
    it was before.
    """
    folders.make_folder(location.path.parent)
    if can_link(source, location.path.parent):
        with whole_directory(location.path) as aside:
            link_tree(source, aside)
            flush_tree(aside)
    else:
        place_anew(options, source, location)


def place_anew(options: dict[str, Any], source: Path, location: Location) -> None:  # noqa: ARG001
    """Have them there as copies, with blocks and pages of their own. Raises UserError as `place` does."""
    needed, _ = tree_size(source)
    folders.make_folder(location.path.parent)
    free_ram = devices.available_ram if location.in_memory else None
    with room_for(location.path, needed, at_most=free_ram), whole_directory(location.path) as aside:
        copy_tree(source, aside)
        if free_ram is None:
            flush_tree(aside)


def profile(
    options: dict[str, Any], item_bytes: Sequence[int], readers: Sequence[int], seconds: float
) -> dict[str, Any]:
    """Return what the tier's folder is and gives (`folders.profile_folder`), read under its limits where it has some.

    Raises UserError where the folder cannot be made.
    """
    emulated = emulation.limits(options)
    return folders.profile_folder(Path(options["path"]), emulated, item_bytes, readers, seconds)
