"""Room, real copies and flushes: what writing a format and placing it on a tier have in common."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import remove_leftovers

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
COPY_BYTES = 4 * 1024 * 1024
TIME_STAMP = ".snakemake_timestamp"  # in each folder that is an output


def nearest_existing(path: Path) -> Path:
    """Return `path`, with symbolic links resolved, or the closest folder above it that exists."""
    path = Path(os.path.realpath(path))
    while not path.exists():
        path = path.parent
    return path


def free_bytes(path: Path) -> int:
    """Return the bytes that this user may still write to the file system where `path` is or will be."""
    return shutil.disk_usage(nearest_existing(path)).free


@contextmanager
def room_for(path: Path, needed: int, at_most: Callable[[], int] | None = None) -> Iterator[None]:
    """Run the block, which writes about `needed` bytes at `path`, where that much is free.

    What a killed call has left of the same folder is removed first. `at_most` returns what lowers what counts as free:
    a file system in RAM may promise more than the RAM that is left.

    Raises UserError before the block where too little is free, and also where the file system (or a quota) runs full
    inside the block.
    """
    remove_leftovers(path)
    free = free_bytes(path) if at_most is None else min(at_most(), free_bytes(path))
    text = (
        f"{path}: needs {needed:,} bytes on its file system ({nearest_existing(path)}), where {{}}. "
        "Free some space, use fewer items, or set a path on a larger file system."
    )
    if free < needed:
        raise UserError(text.format(f"{free:,} are free"))
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise UserError(text.format(f"{free:,} were free, and it ran full ({error.strerror})")) from error


def copy_tree(source: Path, destination: Path) -> None:
    """Copy the files and folders below `source` into the existing folder `destination`, by plain reads and writes.

    The copy is real: no reflink or hard link that would share the source's blocks, and no holes where there are zeros,
    so that reading it reads from the destination's device. Symbolic links are followed.
    """
    for folder, _, names in os.walk(source, followlinks=True):
        target = destination / Path(folder).relative_to(source)
        target.mkdir(exist_ok=True)
        for name in sorted(names):
            _copy(Path(folder, name), target / name)


def _copy(source: Path, destination: Path) -> None:
    with open(source, "rb") as old, open(destination, "wb") as new:
        shutil.copyfileobj(old, new, COPY_BYTES)


def can_link(source: Path, destination: Path) -> bool:
    """Return whether files of the folder `source` can have a second name at `destination`, on one file system.

    See link(2).
    """
    if os.stat(source).st_dev != os.stat(nearest_existing(destination)).st_dev:
        return False
    names = (Path(folder, name) for folder, _, files in os.walk(source, followlinks=True) for name in files)
    first = next(names, None)
    if first is None:
        return True
    probe = nearest_existing(destination) / f".linked-{os.getpid()}"
    try:
        os.link(os.path.realpath(first), probe)
    except OSError:  # a mount or a file system without links
        return False
    probe.unlink()
    return True


def link_tree(source: Path, destination: Path) -> None:
    """Give each file below `source` a second name in the existing folder `destination`: nothing is written twice.

    A file with holes is copied: reading those would read from no device. Snakemake's own time stamp of the source stays
    its own: it is touched where the destination is.
    """
    for folder, _, names in os.walk(source, followlinks=True):
        target = destination / Path(folder).relative_to(source)
        target.mkdir(exist_ok=True)
        for name in (one for one in names if one != TIME_STAMP):
            file = Path(os.path.realpath(Path(folder, name)))
            found = file.stat()
            if found.st_blocks * 512 < found.st_size:
                _copy(file, target / name)
            else:
                os.link(file, target / name)


def flush_tree(path: Path) -> None:
    """Return once everything below `path` has reached its device.

    One `syncfs` for the file system: an `fsync` for each of ten thousand small files would wait for as many journal
    commits.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(handle)
