"""Times `snakemake -n` for a data set as large as AudioSet's unbalanced train list: 2,041,789 clips.

Goal: at most 10 s. Every job parses the Snakefile again, so parsing must read no long list; shards grow with the set.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CLIPS = 2_041_789
ROUNDS = 3


def dry_run(clips: int) -> tuple[float, str]:
    """Return (seconds, output) of a dry run that plans everything for a generated set of `clips`."""
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "rules", "--forceall", "--config", "dataset=demo"]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, f"datasets={{demo: {{clips: {clips}}}}}"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - began, done.stdout + done.stderr


def main() -> None:
    """Print the median time of a few dry runs, beside that of a small set, and the number of jobs."""
    times = {clips: sorted(dry_run(clips)[0] for _ in range(ROUNDS)) for clips in (512, CLIPS)}
    jobs = next(line.split()[1] for line in dry_run(CLIPS)[1].splitlines() if line.startswith("total"))
    for clips, seconds in times.items():
        print(f"snakemake -n for {clips:,} clips: {seconds[ROUNDS // 2]:.1f} s (all: {seconds})")
    print(f"jobs for {CLIPS:,} clips: {jobs}")
    median = times[CLIPS][ROUNDS // 2]
    print(json.dumps({"bench": "snakemake -n, 2 M clips, s", "ratio": median, "goal": 10, "lower_is_better": True}))


if __name__ == "__main__":
    main()
