"""What object storage gives to reads: raw GETs of whole objects, by so many connections at once, for so many seconds.

In the place of fio: nothing that reads objects in Python does less than this (`scripts/machine/objects.py`).
"""

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from scripts.common.location import Location
from scripts.machine.bucket_client import client_of
from scripts.machine.objects import Getter, StoredObject, bucket_and_prefix, bucket_of

IN_FLIGHT = (1, 5, 20, 64)
OBJECTS = 32  # of each size, read in turn
METHOD = "get"
ROUNDS, LEAST_SECONDS = 3, 0.3  # turns, of which the best of each number counts: what others disturbed is no limit


def measure_gets(location: Location, sizes: Sequence[int], in_flight: Sequence[int], seconds: float) -> dict[str, Any]:
    """Return what GETs of objects of each size get, with each number in flight, each for `seconds` in three turns.

    The best turn of each is what the storage gives at most. Objects of random bytes are put below the location,
    which is served, and deleted afterwards. `method` (get), `random`: of one in flight and the largest objects;
    `reads`: a list with for each measurement `pattern` (get), `method`, `readers` (in flight), `block_bytes` (of an
    object), `reads`, `seconds`, `megabytes_per_second` (of 10^6 bytes), `reads_per_second`, `mean_latency_ms`,
    `p99_latency_ms`, `server_cpu_seconds_per_read` (None where the server is not of this process) and
    `client_cpu_seconds_per_read`. Raises UserError where the storage refuses.
    """
    bucket = bucket_of(location)
    _, prefix = bucket_and_prefix(location.uri)
    reads = []
    with client_of(bucket) as client:
        for size in sorted(set(sizes)):
            content = os.urandom(size)
            names = [f"{size}/{number:02d}" for number in range(OBJECTS)]
            try:
                objects = [
                    StoredObject(
                        name,
                        size,
                        client.put_object(Bucket=bucket.name, Key=f"{prefix}/{name}", Body=content)["ETag"].strip('"'),
                        "",
                    )
                    for name in names
                ]
                counts, turn = sorted({1, *in_flight}), max(LEAST_SECONDS, seconds / ROUNDS)
                turns = [[_measure(location, objects, count, turn) for count in counts] for _ in range(ROUNDS)]
                reads += [max(taken, key=lambda one: one["reads_per_second"]) for taken in zip(*turns, strict=True)]
            finally:
                for name in names:
                    client.delete_object(Bucket=bucket.name, Key=f"{prefix}/{name}")
    single = [read for read in reads if read["readers"] == 1][-1]
    return {"method": METHOD, "random": {**single, "items_per_second": single["reads_per_second"]}, "reads": reads}


def _measure(location: Location, objects: Sequence[StoredObject], count: int, seconds: float) -> dict[str, Any]:
    """Return what `count` connections get, each in a thread of its own. A first read of each is not counted."""
    began: dict[str, Any] = {}

    def begin() -> None:
        began.update(server=_servers_cpu(), own=time.process_time(), at=time.perf_counter())

    ready = threading.Barrier(count, begin)

    def read(number: int) -> list[float]:
        into, latencies, position = bytearray(objects[0].size), [], number
        with Getter(location) as getter:
            try:
                getter.read_into(objects[number % len(objects)], into)
            except BaseException:
                ready.abort()
                raise
            ready.wait()
            while (start := time.perf_counter()) < began["at"] + seconds:
                getter.read_into(objects[position % len(objects)], into)
                latencies.append(time.perf_counter() - start)
                position += count
        return latencies

    with ThreadPoolExecutor(count) as pool:
        reading = [pool.submit(read, number) for number in range(count)]
    problems = [problem for one in reading if (problem := one.exception())]
    if problems:  # the first of those that broke the barrier, and not of those that it was broken for
        raise min(problems, key=lambda problem: isinstance(problem, threading.BrokenBarrierError))
    took, served, used = time.perf_counter() - began["at"], _servers_cpu(), time.process_time() - began["own"]
    latencies = [one.result() for one in reading]
    found = sorted(latency for each in latencies for latency in each)
    reads = len(found)
    return {
        "pattern": METHOD,
        "method": METHOD,
        "readers": count,
        "block_bytes": objects[0].size,
        "reads": reads,
        "seconds": took,
        "megabytes_per_second": reads * objects[0].size / took / 1e6,
        "reads_per_second": reads / took,
        "mean_latency_ms": 1000 * sum(found) / reads,
        "p99_latency_ms": 1000 * found[int(0.99 * (reads - 1))],
        "server_cpu_seconds_per_read": None if served is None else (served - began["server"]) / reads,
        "client_cpu_seconds_per_read": used / reads,
    }


def _servers_cpu() -> float | None:
    """Return the CPU seconds of the servers that this process has started, None where it has none."""
    import psutil

    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(one.user + one.system for one in times) if times else None


def congestion_control() -> str | None:
    """Return how TCP reacts to loss here, which changes what loopback gives; None where the kernel does not say."""
    with suppress(OSError):
        return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    return None
