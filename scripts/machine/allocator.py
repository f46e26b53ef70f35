"""Chooses the memory allocator of a measuring process: the setting `allocator`, for every loader.

A batch of 20 MB is above the size from which glibc's malloc asks the kernel for pages and gives them back when the
batch is dropped: each batch then costs thousands of page faults, or none, as the heap happens to be. `keep` makes glibc
keep what is freed, that of all threads in one heap: heaps of other threads are given back as soon as they are empty, so
that what threads make would be new memory still. `jemalloc`, `tcmalloc` and `mimalloc` are loaded in its place where
they are installed.
"""

import ctypes
import ctypes.util
import os
import platform
from pathlib import Path
from typing import NamedTuple

DEFAULT, KEEP = "default", "keep"
VARIABLE = "LD_PRELOAD"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
MMAP_THRESHOLDS = (1 << 30, 1 << 25)  # bytes: a larger block is given back when freed; the second before glibc 2.35
TRIM_THRESHOLD = (1 << 31) - 1  # bytes that may be free at the heap's end; mallopt(3) takes an int, 4 GiB would be 0


class Library(NamedTuple):
    """An allocator that can be preloaded."""

    name: str  # as the linker knows it: lib`name`.so
    package: str  # Debian's


LIBRARIES = {
    "jemalloc": Library("jemalloc", "libjemalloc2"),
    "tcmalloc": Library("tcmalloc_minimal", "libtcmalloc-minimal4"),
    "mimalloc": Library("mimalloc", "libmimalloc2.0"),
}


def environment(allocator: str | None) -> dict[str, str]:
    """Return what a fresh process needs in its environment for `allocator`: nothing where none is to be preloaded.

    Nothing either where its library is not installed: `chosen` then says so in that process.
    """
    file = _installed(allocator) if allocator in LIBRARIES else None
    return {VARIABLE: " ".join(filter(None, [file, os.environ.get(VARIABLE)]))} if file else {}


def chosen(allocator: str | None) -> str | None:
    """Make this process use `allocator`; return a reason why it cannot, or None.

    Call it before the loader is opened. What is forked inherits it; what is started anew does by its environment.
    None and `default` leave everything as it is.
    """
    if allocator in LIBRARIES:
        return _not_preloaded(allocator)
    return _kept() if allocator == KEEP else None


def _kept() -> str | None:
    """Have glibc keep what is freed; return a reason where it cannot."""
    library, version = platform.libc_ver()
    if library != "glibc":
        return "allocator keep sets glibc's malloc, and this C library is another one"
    set_to = ctypes.CDLL(None).mallopt
    threshold = next((value for value in MMAP_THRESHOLDS if set_to(M_MMAP_THRESHOLD, value)), None)
    if threshold is None or not (set_to(M_TRIM_THRESHOLD, TRIM_THRESHOLD) and set_to(M_ARENA_MAX, 1)):
        return f"allocator keep: mallopt(3) of glibc {version} refuses its thresholds"
    os.environ |= {"MALLOC_MMAP_THRESHOLD_": str(threshold), "MALLOC_TRIM_THRESHOLD_": str(TRIM_THRESHOLD)}
    os.environ["MALLOC_ARENA_MAX"] = "1"
    return None


def _not_preloaded(allocator: str, maps: Path = Path("/proc/self/maps")) -> str | None:
    """Return why this process does not run on a preloaded `allocator`, or None."""
    library = LIBRARIES[allocator]
    if not _installed(allocator):
        return f"not installed: {allocator} (lib{library.name}.so; Debian's package is {library.package})"
    if f"/lib{library.name}.so" not in maps.read_text():
        return f"allocator {allocator} is loaded when a process starts ({VARIABLE}), and this one was started without"
    return None


def _installed(allocator: str) -> str | None:
    """Return the file name by which the linker finds an allocator's library, or None."""
    return ctypes.util.find_library(LIBRARIES[allocator].name)
