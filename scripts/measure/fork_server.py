"""A process that has imported torch once and forks for each visit: fresh in all that a loader can see, in 0.2 s.

It has one thread, nothing of CUDA (`unforkable` would say so) and no file of a loader open, so that a fork of it is a
process as a new interpreter would be after its imports. It takes a JSON object a line on stdin and answers with the
child's number, and then with how it ended. What cannot be forked starts an interpreter instead (`visits.py`), and its
record says which.

All children would inherit one heap, and with it one of the modes that glibc's allocator falls into (docs/measuring.md):
each child begins with random allocations. Its memory would still be the server's, a page at a time its own where it is
written to, which a fresh interpreter has behind it: each child begins with pages of its own.
"""

import ctypes
import errno
import json
import mmap
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.common import sample
from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.measure import child, forking
from scripts.plan.runs import Bound, Run

SHAKEN = 200  # allocations at most, of up to SHAKEN_BYTES each, half of which are freed again
SHAKEN_BYTES = 1 << 18
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, madvise(2), since Linux 5.14
OF_A_FILE, IN_MEMORY = 1 << 61, 1 << 63  # bits of a page in /proc/PID/pagemap, proc_pid_pagemap(5)
PAGES_AT_ONCE = 1 << 12  # looked at: what is freed after a large read would leave its mark on the allocator
Place = tuple[int, int]  # (address, bytes) of memory


def main() -> None:
    """Serve visits until stdin ends."""
    if not child.is_child():
        sys.exit("error: the fork server is started by run_session only")
    visits: list[int] = []  # under way: one at most
    end_with_parent(visits)
    first = json.loads(sys.stdin.readline())
    pool = preloaded(first["clips"], sample.from_json(first["sample"]))
    if wrong := unforkable():
        sys.exit(f"error: {wrong}")
    written = list(private_pages(pool))
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a loader prints is no answer
    print(json.dumps({"ready": True}), file=said)
    for line in sys.stdin:
        job = json.loads(line)
        number = os.fork()
        if number == 0:
            serve(job, pool, written)
        visits.append(number)
        print(json.dumps({"pid": number}), file=said)
        os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
        child.end_session(number)  # what it started ends with it; until it is waited for, its number is nobody else's
        visits.clear()
        _, status = os.waitpid(number, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), file=said)


def end_with_parent(visits: list[int]) -> None:
    """End this process when its parent ends, after the `visits` (process groups), whose workers may wait for ever."""

    def end(*_: object) -> None:
        for number in visits:
            child.end_session(number)
        os._exit(1)

    parent = os.getppid()
    signal.signal(signal.SIGTERM, end)
    ctypes.CDLL(None, use_errno=True).prctl(child.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the call above
        sys.exit(1)


def preloaded(clips: int, item: sample.Sample) -> Any:
    """Import what every visit needs, and return the batches that the in-memory ceiling streams."""
    from scripts.measure import ceiling, control_run  # noqa: F401

    forking.import_all()
    return ceiling.pool_of(clips, item)


def unforkable() -> str | None:
    """Return why a fork of this process could not use a GPU, which is a mistake of the project's own; else None.

    To ask for the driver's devices is enough (cuInit), which torch does not call initialized: it holds them open.
    """
    opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    if any(path.startswith("/dev/nvidia") for path in opened):
        return "the fork server has begun to use CUDA, and what is forked after that cannot: see its imports"
    return None


def private_pages(pool: Any) -> Iterator[Place]:
    """Yield where this process has memory that is its own, but for the batches of the pool, which are only read."""
    import numpy as np

    page, first = mmap.PAGESIZE, pool.ctypes.data
    with open("/proc/self/maps", encoding="utf-8") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for line in maps.readlines():
            addresses, permissions, *_ = line.split()
            if permissions != "rw-p":
                continue
            low, high = (int(address, 16) for address in addresses.split("-"))
            for start in range(low, high, page * PAGES_AT_ONCE):
                count = min(PAGES_AT_ONCE, (high - start) // page)
                pages = np.frombuffer(os.pread(pagemap.fileno(), 8 * count, 8 * (start // page)), np.uint64)
                private = (pages & np.uint64(IN_MEMORY) != 0) & (pages & np.uint64(OF_A_FILE) == 0)
                at = start + page * np.arange(count)
                private &= (at + page <= first) | (at >= first + pool.nbytes)
                edges = np.flatnonzero(np.diff(private, prepend=False, append=False)).reshape(-1, 2)
                yield from ((start + page * begin, page * (stop - begin)) for begin, stop in edges.tolist())


def own(written: list[Place]) -> None:
    """Have pages of this process's own where it has those of its parent: one that is written to later costs a copy.

    A kernel before Linux 5.14 cannot: visits of loaders with worker processes are some 3 % slower there.
    """
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    for address, size in written:
        if madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), POPULATE_WRITE):
            reason = ctypes.get_errno()
            if reason == errno.ENOMEM:  # the server has given a part of it back since
                continue
            print(f"pages stay the server's until they are written to: madvise: {os.strerror(reason)}", file=sys.stderr)
            return


def serve(job: dict[str, Any], pool: Any, written: list[Place]) -> None:
    """Be a visit: measure, write the record aside, end the process."""

    def work() -> None:
        own(written)
        kept = shaken(random.Random(job["heap_seed"]))
        write_json(Path(job["out"]), measured(job, pool))
        del kept

    forking.as_child(job["server"], work)


def measured(job: dict[str, Any], pool: Any) -> dict[str, Any]:
    """Return the record of a visit, or of a control run."""
    from scripts.measure import control_run, one_run

    if "bound" in job:
        return control_run.measure(Bound(**job["bound"]), pool)
    asked = Run(**job["run"])
    return {**one_run.measure(one_run.loader_of(asked), asked, pool), "started_by": "fork"}


def shaken(chance: random.Random) -> list[bytearray]:
    """Return allocations of random sizes between which others were freed: a heap that is another one each time."""
    made = [bytearray(chance.randrange(1, SHAKEN_BYTES)) for _ in range(chance.randrange(SHAKEN))]
    return made[::2]


if __name__ == "__main__":
    run_main(main)
