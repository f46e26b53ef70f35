"""What a folder's storage gives to reads, measured by fio: sequentially, and at random in reads of a clip's size.

fio is run as a program (https://fio.readthedocs.io), one job at a time, with blocking reads (`psync`) at depth 1:
what a single reader gets. `measure_reads` says in the record which way was used:

- `direct`: O_DIRECT, past the page cache, for as long as asked;
- `buffered`: where the file system refuses O_DIRECT; the file's pages are dropped first (`posix_fadvise`), and each
  block is read once at most, since a second time it would come from the page cache;
- `memory`: where files live in RAM: ordinary reads for as long as asked; there is no device to get past to.
"""

import json
import mmap
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

PAGE = 4096
MEBIBYTE = 1024 * 1024
LARGEST_FILE = 512 * MEBIBYTE
FEWEST_BLOCKS = 4


def measure_reads(
    folder: Path, clip_bytes: int, seconds: float, in_memory: bool, largest_file: int = LARGEST_FILE
) -> tuple[dict[str, Any] | None, str | None]:
    """Return (measurement, None), or (None, the reason why there is none).

    A file of random bytes, of `largest_file` bytes or a quarter of the free space, is laid out in `folder` and read
    sequentially in blocks of 1 MiB, then at random in blocks of `clip_bytes`, rounded up to whole pages of 4096 bytes;
    each for at most `seconds`. The file has no name, so that it vanishes with this process, however that ends.

    The measurement: `version` of fio, `way` (see above), `file_bytes`, and for `sequential` and `random` each
    `block_bytes`, `reads`, `seconds`, `megabytes_per_second` (of 10^6 bytes), `reads_per_second`, `mean_latency_ms`,
    `p99_latency_ms`; `random` also has `clips_per_second`, a read being a clip.
    """
    program = shutil.which("fio")
    if program is None:
        return None, "fio is not installed"
    block = -(-clip_bytes // PAGE) * PAGE
    size = min(largest_file, shutil.disk_usage(folder).free // 4) // MEBIBYTE * MEBIBYTE
    if size < FEWEST_BLOCKS * max(block, MEBIBYTE):
        return None, f"too little room: a file of {size:,} bytes for reads of {block:,} bytes"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            _lay_out(file.fileno(), size)
            path = f"/proc/self/fd/{file.fileno()}"
            way = "memory" if in_memory else "direct" if _allows_direct(path) else "buffered"
            jobs = {
                name: _run(program, file.fileno(), pattern, bytes_, size, seconds, way)
                for name, pattern, bytes_ in (("sequential", "read", MEBIBYTE), ("random", "randread", block))
            }
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return None, f"fio could not measure {folder}: {error}"
    jobs["random"]["clips_per_second"] = jobs["random"]["reads_per_second"]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"version": version, "way": way, "file_bytes": size, **jobs}, None


def _lay_out(handle: int, size: int) -> None:
    """Fill the file with bytes that no file system can compress or share, and bring them to the device."""
    for _ in range(size // MEBIBYTE):
        rest = memoryview(os.urandom(MEBIBYTE))
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


def _run(program: str, handle: int, pattern: str, block: int, size: int, seconds: float, way: str) -> dict[str, Any]:
    """Return what one fio job measured. Raises SubprocessError or ValueError with fio's own words where it failed."""
    milliseconds = max(1, round(seconds * 1000))
    command = [
        *(program, "--name=reads", f"--filename=/proc/self/fd/{handle}", "--output-format=json"),
        *(f"--rw={pattern}", f"--bs={block}", f"--size={size // block * block}", "--ioengine=psync", "--iodepth=1"),
        *(f"--direct={int(way == 'direct')}", "--randrepeat=1", "--thread", f"--runtime={milliseconds}ms"),
    ]
    if way != "buffered":
        command.append("--time_based")
    done = subprocess.run(command, capture_output=True, text=True, pass_fds=[handle], timeout=seconds + 120)
    start = done.stdout.find("{")
    if done.returncode != 0 or start < 0:
        raise ValueError((done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}")[-300:])
    job = json.loads(done.stdout[start:])["jobs"][0]
    reads = job["read"]
    if job["error"] or not reads["total_ios"]:
        raise ValueError(f"fio reports error {job['error']} after {reads['total_ios']} reads")
    return {
        "block_bytes": block,
        "reads": reads["total_ios"],
        "seconds": reads["runtime"] / 1000,
        "megabytes_per_second": reads["bw_bytes"] / 1e6,
        "reads_per_second": reads["iops"],
        "mean_latency_ms": reads["clat_ns"]["mean"] / 1e6,
        "p99_latency_ms": reads["clat_ns"]["percentile"]["99.000000"] / 1e6,
    }
