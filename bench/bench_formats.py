"""Writing a format against copying its result: the ratio of times, and the growth of memory with the corpus.

    python -m bench.bench_formats [--items 512] [--rounds 3] [--folder DIR]

For each format, in alternating rounds on one file system: `write_format.py` (the seconds of its record: conversion of
items of 10 s, flushed), then `cp -r` of what it wrote, flushed in the same way. Both read from the page cache. The
ratio is the median of cp's seconds over the median of the program's; converting reads half the bytes of what it
writes and works on them, so that half of cp's speed is the goal. Then the peak resident memory for 500 and for 5,000
short items; the ratio is the smaller corpus's over the larger one's, 1 where memory does not grow.

The last lines are JSON, one a goal; a ratio below its goal misses it.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from scripts.common.corpus import Corpus
from scripts.common.files import read_json
from scripts.machine.copies import flush_tree
from tests.support.format_program import command, peak_bytes
from tests.support.isolated_cases import can_be_tested
from tests.support.made_corpus import make_corpus

SPEED_GOAL = 0.5
MEMORY_GOAL = 0.8


def write_seconds(name: str, corpus: Corpus, folder: Path) -> float:
    """Write the format to `folder`/out and return the seconds of its record."""
    subprocess.run(command(name, corpus, folder), check=True, capture_output=True)
    return read_json(folder / "out.json")["seconds"]


def copy_seconds(folder: Path) -> float:
    """Return the seconds that `cp -r` of `folder`/out takes, until the copy is on the device."""
    start = time.perf_counter()
    subprocess.run(["cp", "-r", "--reflink=never", folder / "out", folder / "copy"], check=True)
    flush_tree(folder / "copy")
    return time.perf_counter() - start


def bench_speed(formats: list[str], folder: Path, items: int, rounds: int) -> list[dict]:
    """Print seconds and ratio for each format, and return the goals' lines."""
    corpus = make_corpus(folder / "corpus", items=items, seconds=10.0)
    times = {name: ([], []) for name in formats}
    for _ in range(rounds):
        for name in formats:
            written, copied = times[name]
            written.append(write_seconds(name, corpus, folder))
            copied.append(copy_seconds(folder))
            for part in ("out", "copy"):
                shutil.rmtree(folder / part)
            flush_tree(folder)
    print(f"{items} items of 10 s, medians of {rounds} rounds")
    print(f"{'format':<12} {'write s':>8} {'cp s':>8} {'items/s':>8} {'cp / write':>10}")
    goals = []
    for name, (written, copied) in times.items():
        write, copy = statistics.median(written), statistics.median(copied)
        print(f"{name:<12} {write:>8.3f} {copy:>8.3f} {items / write:>8.0f} {copy / write:>10.2f}")
        goals.append({"bench": f"write-speed-{name}", "ratio": round(copy / write, 3), "goal": SPEED_GOAL})
    return goals


def bench_memory(formats: list[str], folder: Path) -> list[dict]:
    """Print the peak memory for 500 and 5,000 items of each format, and return the goals' lines."""
    corpora = [make_corpus(folder / f"corpus-{items}", items=items, seconds=1.0) for items in (500, 5000)]
    print(f"{'format':<12} {'500 items':>12} {'5,000 items':>12}  MB at peak")
    goals = []
    for name in formats:
        small, large = (peak_bytes(name, corpus, folder) for corpus in corpora)
        print(f"{name:<12} {small / 1e6:>12.1f} {large / 1e6:>12.1f}")
        goals.append({"bench": f"write-memory-{name}", "ratio": round(small / large, 3), "goal": MEMORY_GOAL})
    return goals


def main() -> None:
    """Read the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write (default: the system's folder for such)")
    args = parser.parse_args()
    formats = can_be_tested("formats")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        goals = bench_speed(formats, Path(folder), args.items, args.rounds)
        goals += bench_memory(formats, Path(folder))
    for goal in goals:
        print(json.dumps(goal))


if __name__ == "__main__":
    main()
