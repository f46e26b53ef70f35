"""What a folder's storage gives to reads, measured by fio, to one reader and to several at once.

fio is run as a program (https://fio.readthedocs.io), one job at a time. A reader is a thread with blocking reads
(`psync`), so that as many reads are in flight as there are readers; each reads a part of the file that is its own.
Four patterns: `sequential` in blocks of 1 MiB; `random` in blocks of an item's size; where that is past the page cache,
`positioned`: the same through it, as a loader's plain pread of an item does, for which the kernel may merge and read
ahead; and `readahead`: sequential, through the page cache, by one reader. The last two may pass what O_DIRECT gets at
depth 1. (On slow storage they need a few seconds: what was read ahead when the time was up is not counted.)
`measure_reads` says in the record by which method the first two were read:

- `direct`: O_DIRECT, past the page cache, for as long as asked;
- `buffered`: where the file system refuses O_DIRECT; the file's pages are dropped first (`posix_fadvise`), and each
  block is read once at most, since a second time it would come from the page cache;
- `memory`: where files live in RAM: ordinary reads for as long as asked; there is no device to get past to.
"""

import json
import mmap
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.files import PAGE, block_of
from scripts.machine import control_groups

MEBIBYTE = 1024 * 1024
LARGEST_FILE = 512 * MEBIBYTE
FEWEST_BLOCKS = 4  # of each reader


class _Job(NamedTuple):
    """What one fio job reads, and how."""

    pattern: str  # sequential, random, positioned or readahead
    method: str  # direct, buffered or memory
    readers: int
    block_bytes: int


def measure_reads(
    folder: Path,
    item_bytes: Sequence[int],
    readers: Sequence[int],
    seconds: float,
    in_memory: bool,
    largest_file: int = LARGEST_FILE,
    inside: Sequence[str] = (),
) -> tuple[dict[str, Any] | None, str | None]:
    """Return (measurement, None), or (None, the reason why there is none).

    A file of random bytes, of `largest_file` bytes or a quarter of the free space, is laid out in `folder` and read by
    each number of `readers`, and by one, sequentially and at random in blocks of each of `item_bytes` (`block_of`);
    then, where there is a device, through the page cache; each for at most `seconds`. The file has no name, so that it
    vanishes with this process, however that ends. `inside` are the folders of control groups in which fio runs.

    The measurement: `version` of fio, `method` (see above), `file_bytes`, and `reads`, a list with for each job
    `pattern`,
    `method`, `readers`, `block_bytes`, `reads`, `seconds`, `megabytes_per_second` (of 10^6 bytes) and
    `reads_per_second` of all readers together, `mean_latency_ms`, `p99_latency_ms`. `sequential` and `random` are
    those of one reader and the largest items; `random` there also has `items_per_second`, a read being an item.
    """
    program = shutil.which("fio")
    if program is None:
        return None, "fio is not installed"
    blocks = sorted({block_of(size) for size in item_bytes})
    counts = sorted({1, *readers})
    size = min(largest_file, shutil.disk_usage(folder).free // 4) // MEBIBYTE * MEBIBYTE
    if size < FEWEST_BLOCKS * max(blocks[-1], MEBIBYTE) * counts[-1]:
        each = f" by {counts[-1]} readers" if counts[-1] > 1 else ""
        return None, f"too little room: a file of {size:,} bytes for reads of {blocks[-1]:,} bytes{each}"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            _lay_out(file.fileno(), size)
            path = f"/proc/self/fd/{file.fileno()}"
            method = "memory" if in_memory else "direct" if _allows_direct(path) else "buffered"
            patterns = [("sequential", MEBIBYTE), *(("random", block) for block in blocks)]
            jobs = [_Job(pattern, method, count, block) for count in counts for pattern, block in patterns]
            if method == "direct":
                jobs += [_Job("positioned", "buffered", count, block) for count in counts for block in blocks]
            if not in_memory:
                jobs.append(_Job("readahead", "buffered", 1, MEBIBYTE))
            reads = [_run(program, file.fileno(), job, size, seconds, inside) for job in jobs]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return None, f"fio could not measure {folder}: {error}"
    alone = {job["pattern"]: job for job in reads if job["readers"] == 1}  # of several item sizes the last, the largest
    random = {**alone["random"], "items_per_second": alone["random"]["reads_per_second"]}
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    measured = {"version": version, "method": method, "file_bytes": size}
    return {**measured, "sequential": alone["sequential"], "random": random, "reads": reads}, None


def _lay_out(handle: int, size: int) -> None:
    """Fill the file with bytes that no file system can compress or share, and bring them to the device."""
    from numpy.random import default_rng  # several times as fast as the kernel's

    chance = default_rng()
    for _ in range(size // MEBIBYTE):
        rest = memoryview(chance.bytes(MEBIBYTE))
        while rest:
            rest = rest[os.write(handle, rest) :]
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def _allows_direct(path: str) -> bool:
    """Return whether a read past the page cache works; some file systems refuse to open, some only to read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return False
    try:
        with mmap.mmap(-1, PAGE) as aligned:
            return os.preadv(handle, [aligned], 0) == PAGE
    except OSError:
        return False
    finally:
        os.close(handle)


def _run(program: str, handle: int, job: _Job, size: int, seconds: float, inside: Sequence[str]) -> dict[str, Any]:
    """Return what one fio job measured. Raises SubprocessError or ValueError with fio's own words where it failed."""
    milliseconds = max(1, round(seconds * 1000))
    part = (
        size // job.readers // job.block_bytes * job.block_bytes
    )  # each reader's own: what another has read would come from a cache
    rw = "randread" if job.pattern in ("random", "positioned") else "read"
    command = [
        *(program, "--name=reads", f"--filename=/proc/self/fd/{handle}", "--output-format=json"),
        *(f"--rw={rw}", f"--bs={job.block_bytes}", f"--size={part}", f"--offset_increment={part}", "--ioengine=psync"),
        *("--iodepth=1", f"--numjobs={job.readers}", "--group_reporting", "--thread", "--randrepeat=1"),
        *(f"--direct={int(job.method == 'direct')}", f"--runtime={milliseconds}ms"),
    ]
    if job.method == "buffered":
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        command.append("--time_based")
    if job.pattern == "positioned":
        command.append("--fadvise_hint=0")  # nothing is said to the kernel of the order, as a plain read says nothing
    line = control_groups.command_inside(inside, command)
    done = subprocess.run(line, capture_output=True, text=True, pass_fds=[handle], timeout=seconds + 120)
    start = done.stdout.find("{")
    if done.returncode != 0 or start < 0:
        raise ValueError((done.stderr.strip() or done.stdout.strip() or _ended(done.returncode))[-300:])
    found = json.loads(done.stdout[start:])["jobs"][0]
    reads = found["read"]
    if found["error"] or not reads["total_ios"]:
        raise ValueError(f"fio reports error {found['error']} after {reads['total_ios']} reads")
    return {
        **job._asdict(),
        "reads": reads["total_ios"],
        "seconds": reads["runtime"] / 1000,
        "megabytes_per_second": reads["bw_bytes"] / 1e6,
        "reads_per_second": reads["iops"],
        "mean_latency_ms": reads["clat_ns"]["mean"] / 1e6,
        "p99_latency_ms": reads["clat_ns"]["percentile"]["99.000000"] / 1e6,
    }


def _ended(status: int) -> str:
    """Return how a program ended that said nothing, and what to do."""
    how = f"it was killed ({signal.Signals(-status).name})" if status < 0 else f"it ended with status {status}"
    return f"{how} and said nothing; to try again, type the same command with --forcerun profile_tier at its end"
