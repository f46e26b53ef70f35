"""How far the workflow's size goes: the plan of 5,000 results, and tables, figures and page of 100,000 planted runs.

Goals: the plan in 20 s; bounded memory for the rest.

By hand: python -m bench.bench_scale [--results N] [--runs N]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.made_runs import Made, make_results
from tests.support.programs import PROJECT

GOAL_SECONDS = 20.0
LOADERS = (
    "torchaudio",
    "soundfile",
    "npy",
    "dali_npy",
    "numpy_memmap",
    "lazy_memmap",
    "webdataset",
    "hdf5",
    "arrow",
    "lmdb",
)
WORKERS, PREFETCH = (1, 2, 3, 4, 5), (1, 2, 3, 4)


def batch_sizes(results: int) -> list[int]:
    """Return the batch sizes with which there are about so many results."""
    each = len(LOADERS) * len(WORKERS) * len(PREFETCH)
    return [8 * number for number in range(1, max(2, round(results / each) + 1))]


def program(*command: str) -> tuple[float, float, str]:
    """Run a program of the project; return (seconds, peak memory in GB, what it said). It must end well."""
    with tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        started = subprocess.Popen([sys.executable, "-m", *command], cwd=PROJECT, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        said.seek(0)
        output = said.read()
    if started.returncode:
        sys.exit(f"error: {' '.join(command)[:200]} ended with status {started.returncode}:\n{output[-3000:]}")
    return seconds, usage.ru_maxrss / 1e6, output


def plan(results: int) -> None:
    """Time a dry run of as many results."""
    sweep = {
        "workers": list(WORKERS),
        "prefetch": list(PREFETCH),
        "batch_size": batch_sizes(results),
        "task": ["read"],
        "cache": ["warm"],
    }
    options = ["dataset=demo", f"loaders={json.dumps(LOADERS)}", f"sweep={json.dumps(sweep)}", "storage={ram: null}"]
    seconds, gigabytes, output = program("snakemake", "-n", "--quiet", "rules", "--config", *options)
    [line] = [line for line in output.splitlines() if line.startswith("Results: ")]
    print(
        f"{line}\n  planned in {seconds:.1f} s (goal: {GOAL_SECONDS:g} s), {gigabytes:.2f} GB at the peak", flush=True
    )


def tables(results: int, runs: int) -> None:
    """Time what is made of as many planted runs."""
    repeats = max(2, runs // results)
    with tempfile.TemporaryDirectory(prefix="feedrate-scale-") as name:
        root = Path(name)
        made = [
            Made(loader, "disk", [1000.0 * (1 + number) * (1 + 0.01 * (turn % 5)) for turn in range(repeats)],
                 workers=workers, batch_size=size, options={"chunk": prefetch})
            for number, loader in enumerate(LOADERS)
            for workers in WORKERS
            for prefetch in PREFETCH
            for size in batch_sizes(results)
        ]  # fmt: skip
        written = make_results(root, made)
        print(f"{len(made):,} results with {repeats} runs each: {len(made) * repeats:,} records", flush=True)
        folder, figures = str(root / "tables"), str(root / "figures")
        steps = {
            "tables": ("scripts.tables.make_tables", "--plan", str(written), "--root", name, "--out", folder),
            "figures": ("scripts.report.draw_figures", "--tables", folder, "--out", figures),
            "page": (
                "scripts.report.render_report",
                "--tables",
                folder,
                "--figures",
                figures,
                "--out",
                f"{name}/a.html",
            ),
        }
        for step, command in steps.items():
            seconds, gigabytes, _ = program(*command)
            print(f"  {step}: {seconds:.1f} s, {gigabytes:.2f} GB at the peak", flush=True)
        print(f"  the page has {(root / 'a.html').stat().st_size / 1e6:.1f} MB")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=100_000)
    arguments = parser.parse_args()
    plan(arguments.results)
    tables(arguments.results, arguments.results)


if __name__ == "__main__":
    main()
