"""Times `snakemake -n` for AudioSet's unbalanced train list, 2,041,789 segments, and takes its memory.

Goals: at most 10 s and 1 GB. Every job parses the Snakefile again, so parsing must read no long list; shards grow with
the set.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

from tests.support.programs import PROJECT

LISTS = {"eval": 20_371, "unbalanced_train": 2_041_789}
ROUNDS = 3


def dry_run(list_name: str) -> tuple[float, float, str]:
    """Return (seconds, peak memory in GB, output) of a dry run that plans everything for one of AudioSet's lists."""
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "rules", "--forceall", "--config"]
    command += ["dataset=audioset_eval", f"datasets={{audioset_eval: {{list: {list_name}}}}}"]
    with tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        program = subprocess.Popen(command, cwd=PROJECT, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        said.seek(0)
        output = said.read()
    assert program.returncode == 0, output
    return seconds, usage.ru_maxrss / 1e6, output


def main() -> None:
    """Print the median time of a few dry runs of each list, the most memory, and the number of jobs."""
    for name, segments in LISTS.items():
        runs = [dry_run(name) for _ in range(ROUNDS)]
        times = sorted(seconds for seconds, _, _ in runs)
        memory = max(gigabytes for _, gigabytes, _ in runs)
        jobs = re.search(r"(?m)^total +(\d+)", runs[0][2])[1]
        median = times[ROUNDS // 2]
        print(f"snakemake -n, {name} ({segments:,}): {median:.1f} s (all: {times}), {memory:.2f} GB, {jobs} jobs")
    for unit, measured, goal in (("s", median, 10), ("GB", memory, 1)):
        bench = f"snakemake -n, 2 M items, {unit}"
        print(json.dumps({"bench": bench, "ratio": measured, "goal": goal, "lower_is_better": True}))


if __name__ == "__main__":
    main()
