"""Small file systems to fill up, in RAM and on a disk, mounted where this user may mount; what may not be raises."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


class CannotMount(Exception):
    """This user or machine mounts no file system; the text says why."""


def call(*words: str | Path) -> None:
    """Run a program of the system. Raises CannotMount where it fails or is not there."""
    if os.geteuid() != 0:
        raise CannotMount("to mount a small file system needs root")
    if shutil.which(words[0]) is None:
        raise CannotMount(f"to mount a small file system needs {words[0]}")
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise CannotMount(f"no file system can be mounted here: {done.stderr.strip()}")


@contextmanager
def in_ram(folder: Path, size: str) -> Iterator[None]:
    """Mount a tmpfs of this size at a folder, which is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def or_skip(folder: Path, size: str) -> Iterator[None]:
    """Mount a tmpfs of this size, or skip the test."""
    import pytest

    with ExitStack() as stack:
        try:
            stack.enter_context(in_ram(folder, size))
        except CannotMount as reason:
            pytest.skip(str(reason))
        yield


@contextmanager
def on_a_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount an ext4 in a file beside the folder, through a loop device."""
    folder.mkdir(parents=True, exist_ok=True)
    image = folder.with_name(f"{folder.name}.ext4")
    with open(image, "wb") as file:
        file.truncate(megabytes * 2**20)
    try:
        call("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image)
        call("mount", "-o", "loop", image, folder)
        try:
            yield
        finally:
            subprocess.run(["umount", folder], check=True)
    finally:
        image.unlink()


def remount(folder: Path, options: str) -> None:
    """Mount a mounted file system again, such as with `ro` or `size=1g`."""
    call("mount", "-o", f"remount,{options}", folder)
