"""Measures build_corpus.py: against one ffmpeg process per item, and its memory as the number of items grows.

    python -m bench.bench_corpus [--items 128] [--rows 1024] [--jobs 2]

The items are 10 s of 44.1 kHz stereo AAC. The ways run in turns, since a machine's speed drifts; a ratio is the median
over the rounds. build_corpus.py is timed on a shard of as many rows as real shards have, which goes round the items:
as a user meets it, with the time in which Python and its libraries start, and less a build of one row. Memory is the
largest proportional set size of the whole process tree: pages that forked processes share count once, and those of
libraries are also shared with strangers that use them, which is why it wavers on a busy machine. The last lines are
JSON, one per goal.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil

from scripts.common.ledger import LedgerRow, write_ledger
from tests.support.programs import program_line

SPEED_GOAL = 6.0
MEMORY_GOAL = 1.1  # of ten times the items, over the memory for one time
MEMORY_ITEMS = (500, 5000)


def make_items(folder: Path, count: int, seconds: float) -> list[Path]:
    """Return `count` AAC files of 44.1 kHz stereo noise under a slow swell."""
    import torch
    from torchcodec.encoders import AudioEncoder

    rng = np.random.default_rng(0)
    swell = 0.1 + 0.1 * np.sin(np.arange(round(seconds * 44_100)) / 9000)
    paths = [folder / f"{number:04d}.m4a" for number in range(count)]
    for path in paths:
        audio = (swell * rng.standard_normal((2, len(swell)))).astype(np.float32)
        AudioEncoder(torch.from_numpy(audio), sample_rate=44_100).to_file(path)
    return paths


def write_rows(path: Path, items: list[Path], count: int) -> None:
    """Write a ledger of `count` rows that goes round `items`."""
    rows = (LedgerRow(f"item {n}", "fetched", path=str(items[n % len(items)]), labels=["x"]) for n in range(count))
    write_ledger(path, rows)


def corpus_command(ledger: Path, out: Path, jobs: int) -> list[str]:
    """Return the command that builds a shard."""
    names = {"--ledger": ledger, "--store": ledger.parent, "--jobs": jobs, "--out": out}
    return [*program_line("build_corpus"), *(str(word) for pair in names.items() for word in pair)]


def build_seconds(ledger: Path, out: Path, jobs: int) -> float:
    """Return the wall-clock seconds of one build."""
    start = time.perf_counter()
    subprocess.run(corpus_command(ledger, out, jobs), check=True, capture_output=True)
    return time.perf_counter() - start


def ffmpeg_seconds(items: list[Path], out: Path, jobs: int) -> float:
    """Return the wall-clock seconds of one ffmpeg process per item, `jobs` at a time."""
    out.mkdir(exist_ok=True)

    def convert(item: Path) -> None:
        command = ["ffmpeg", "-nostdin", "-y", "-v", "error", "-i", item, "-ac", "1", "-ar", "16000"]
        subprocess.run([*command, out / f"{item.stem}.wav"], check=True)

    start = time.perf_counter()
    with ThreadPoolExecutor(jobs) as threads:
        list(threads.map(convert, items))
    return time.perf_counter() - start


def compare_speed(folder: Path, count: int, rows: int, jobs: int, rounds: int) -> tuple[float, float]:
    """Print the items per second of both ways; return how many times faster build_corpus.py is, with and less start."""
    items = make_items(folder, count, 10.0)
    write_rows(folder / "ledger.csv", items, rows)
    write_rows(folder / "one.csv", items, 1)
    whole, steady = [], []
    for number in range(rounds):
        start = build_seconds(folder / "one.csv", folder / "0000", jobs)
        ours = build_seconds(folder / "ledger.csv", folder / "0000", jobs)
        theirs = count / ffmpeg_seconds(items, folder / "ffmpeg", jobs)
        whole.append(rows / ours / theirs)
        steady.append((rows - 1) / (ours - start) / theirs)
        print(
            f"round {number}: build_corpus {rows / ours:.1f} items/s, {(rows - 1) / (ours - start):.1f} less the "
            f"{start:.1f} s of its start; ffmpeg {theirs:.1f} items/s",
            flush=True,
        )
    return statistics.median(whole), statistics.median(steady)


def peak_bytes(command: list[str]) -> int:
    """Run `command` and return the largest proportional set size of its process tree, looked at every 20 ms."""
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    tree = psutil.Process(program.pid)
    ended = threading.Event()
    threading.Thread(target=lambda: (program.wait(), ended.set())).start()
    while not ended.wait(0.02):
        total = 0
        try:
            for process in [tree, *tree.children(recursive=True)]:
                total += process.memory_full_info().pss
        except psutil.Error:  # one ended while we looked: the sum would be too small
            continue
        peak = max(peak, total)
    if program.returncode:
        raise RuntimeError(f"{command} ended with status {program.returncode}")
    return peak


def compare_memory(folder: Path, jobs: int, rounds: int) -> float:
    """Print the peak memory for both numbers of items and return the larger number's over the smaller's."""
    items = make_items(folder, 8, 2.0)
    peaks: dict[int, list[int]] = {count: [] for count in MEMORY_ITEMS}
    for number in range(rounds):
        for count in MEMORY_ITEMS:
            write_rows(folder / "ledger.csv", items, count)
            peaks[count].append(peak_bytes(corpus_command(folder / "ledger.csv", folder / "0000", jobs)))
            print(f"round {number}: {count} items: at most {peaks[count][-1] / 2**20:.0f} MiB", flush=True)
    few, many = (statistics.median(peaks[count]) for count in MEMORY_ITEMS)
    return many / few


def main() -> None:
    """Run both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=128)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as speed, tempfile.TemporaryDirectory() as memory:
        whole, steady = compare_speed(Path(speed), arguments.items, arguments.rows, arguments.jobs, arguments.rounds)
        growth = compare_memory(Path(memory), arguments.jobs, arguments.rounds)
    print(json.dumps({"bench": "corpus_over_ffmpeg_per_item", "ratio": round(whole, 2), "goal": SPEED_GOAL}))
    print(json.dumps({"bench": "corpus_less_start_over_ffmpeg", "ratio": round(steady, 2), "goal": SPEED_GOAL}))
    memory = {"bench": "corpus_memory_10x_items", "ratio": round(growth, 3), "goal": MEMORY_GOAL}
    print(json.dumps({**memory, "lower_is_better": True}))


if __name__ == "__main__":
    main()
