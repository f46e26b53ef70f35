"""`make bench`: every speed that the project promises, as ratios taken side by side in one run.

Each part is a program of its own (`python -m bench.bench_corpus --help`).
Nothing here is a test: a shared machine may
miss a goal by noise, so the table says by how much, and the exit status is 0 unless a part breaks.
"""

import json
import subprocess
import sys

PARTS = tuple(f"bench_{name}" for name in ("download", "corpus", "formats", "plan", "overhead", "loaders", "objects"))


def main() -> None:
    """Run every part, show its output as it comes, and end with one table of all ratios."""
    results = []
    for part in PARTS:
        print(f"== {part}", flush=True)
        with subprocess.Popen([sys.executable, "-m", f"bench.{part}"], stdout=subprocess.PIPE, text=True) as program:
            for line in program.stdout:
                print(line, end="", flush=True)
                if line.startswith('{"bench"'):
                    results.append(json.loads(line))
        if program.returncode:
            sys.exit(f"error: {part} ended with status {program.returncode}")
    width = max(len(result["bench"]) for result in results)
    print(f"\n{'bench':{width}}  {'measured':>10}  goal")
    for result in results:
        better = "<=" if result.get("lower_is_better") else ">="
        print(f"{result['bench']:{width}}  {result['ratio']:>10.3g}  {better} {result['goal']}")


if __name__ == "__main__":
    main()
