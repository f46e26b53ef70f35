"""Own loaders with a planted fault in a real session: what is said of each?

    python -m bench.planted

Planted are contiguous windows from a moving start, a loader 25 times slower whose runs scatter, one whose work is done
by a process outside its tree, and one with eight threads and `workers: 1`, beside numpy_memmap. It ends with an error
where one passes as what it is not.
"""

import argparse
import sys
from typing import Any

from bench.sessions import tables_of_copy

HEAD = '''"""Planted."""

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from scripts.common import plugins
from scripts.loaders import numpy_memmap
from scripts.loaders._plain import labels

FORMAT = "memmap"
SETTINGS = ("workers",)


def dataset_of(request):
    labels.COLUMNS = ("target", "labels", "item")
    return numpy_memmap.make_loader(request.data, "audio", "batch", None, batch_size=request.batch_size, seed=0).dataset


def plain(request):
    return replace(request, workers=0, options={"gather": "batch", "reuse": False})


@contextmanager
def open_epochs(request):
'''
BODIES = {
    "windows": """
    dataset, count, size = dataset_of(request), request.items, request.batch_size

    def epoch(number):
        first = 11 + 37 * number
        for start in range(0, count, size):
            rows = range(start, min(start + size, count))
            yield dataset.__getitems__([(first + row) % count for row in rows])

    yield epoch
""",
    "erratic": """
    more = 0.03 * random.lognormvariate(0, 0.8)
    with plugins.load("loaders", "numpy_memmap").open_epochs(plain(request)) as epoch:

        def slow(number):
            for batch in epoch(number):
                time.sleep(more)
                yield batch

        yield slow
""",
    "helped": """
    read, write = os.pipe()
    until_closed = "threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()"
    work = f"import os, sys, threading\\n{until_closed}\\nwhile True: pass"
    os.set_inheritable(read, True)
    subprocess.run(["setsid", "--fork", sys.executable, "-c", work], stdin=read, check=True)
    os.close(read)
    try:
        with plugins.load("loaders", "numpy_memmap").open_epochs(plain(request)) as epoch:
            yield epoch
    finally:
        os.close(write)
""",
    "threads": """
    dataset, count, size = dataset_of(request), request.items, request.batch_size
    with ThreadPoolExecutor(8) as pool:

        def epoch(number):
            order = list(range(count))
            random.Random(number).shuffle(order)
            batches = [order[start : start + size] for start in range(0, count, size)]
            yield from pool.map(dataset.__getitems__, batches)

        yield epoch
""",
}


def measured(minutes: float) -> dict[str, Any]:
    """Return the tables of a session of these loaders, and print its last screen; raises CalledProcessError."""
    own = [{"name": name, "file": f"{name}.py", "workers": [1 if name == "threads" else 0]} for name in BODIES]
    given = {
        "dataset": "demo",
        "storage": {"ram": None},
        "loaders": [{"name": "numpy_memmap", "workers": [0]}, *own],
        "sweep": {"task": ["read"], "cache": ["warm"], "device": ["cpu"], "allocator": ["keep"]},
        "measure": {"minutes": minutes, "bottlenecks": "none", "timeline": "none", "profile_seconds": 0.3},
        "report": {"now": "numpy_memmap"},
    }
    return tables_of_copy(given, {f"{name}.py": HEAD + body.lstrip("\n") for name, body in BODIES.items()})


def main() -> None:
    """Print what is said of each loader, and fail where a planted fault is not seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="of the session")
    tables = measured(parser.parse_args().minutes)
    rows = {row["loader"]: row for row in tables["ranking"]}
    for name, row in rows.items():
        shown = ("status", "items_per_second", "interval_low", "interval_high", "order_measured", "loader_threads")
        print(name, {one: row[one] for one in (*shown, "cpu_seconds_per_1000_items")})
    if lost := [name for name, row in rows.items() if row["status"] != "ok"]:
        sys.exit(f"error: no speed of {', '.join(lost)}")
    cpu = {name: row["cpu_seconds_per_1000_items"] for name, row in rows.items()}
    missed = {
        "windows": rows["windows"]["order_measured"] == "random",
        "helped": cpu["helped"] < 2 * cpu["numpy_memmap"],
        "threads": rows["threads"]["loader_threads"] < 8,
        "erratic": rows["numpy_memmap"]["interval_high"] > 1.5 * rows["numpy_memmap"]["items_per_second"],
    }
    if any(missed.values()):
        sys.exit(f"error: not seen: {', '.join(name for name, one in missed.items() if one)}")


if __name__ == "__main__":
    main()
