"""`make demo` again and again, each from nothing: how long it takes, what it says, and whether that can be.

    python -m bench.demos --demos 20 --json found.json
    python -m bench.demos --demos 1 --neighbour

With --neighbour a process takes one core in bursts meanwhile, as in noise.py. Needs the environment that `make` made.
A set can be taken in parts: the demos in the file of --json count. Ends with an error where a row is above its
in-memory ceiling by more than its interval, or where two demos name different bottlenecks of one loader.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.noise import neighbour
from scripts.tables.columns import read_tables
from tests.support.programs import PROJECT
from tests.support.workflow_copy import LEFT_OUT, folders

NO_NAME = "", "none", "unclear", "waiting"  # no part of a loader's own; blank: not looked for


def demo() -> dict[str, Any]:
    """Run `make demo` in a copy of the project; return its `seconds`, what it `said` at the end, and its `tables`.

    Raises CalledProcessError where it fails.
    """
    with folders() as (disk, _):
        copy = disk / "project"
        shutil.copytree(PROJECT, copy, ignore=LEFT_OUT)
        began = time.monotonic()
        made = subprocess.run(
            ["make", "demo", f"VENV={sys.prefix}"], cwd=copy, check=True, stdout=subprocess.PIPE, text=True
        )
        seconds = time.monotonic() - began
        tables = read_tables(copy / "results" / "tables" / "demo")
        return {"seconds": seconds, "said": made.stdout, "ranking": tables["ranking"], "noise": tables["noise"]}


def above_ceiling(row: dict[str, Any]) -> bool:
    """Return whether a result is above the in-memory ceiling of its runs by more than its interval."""
    low, ceiling = row["interval_low"], row["ceiling_items_per_second"]
    return bool(low and ceiling and low > ceiling)


def highest(rows: list[dict[str, Any]]) -> float:
    """Return the largest share of the in-memory ceiling of all results, in percent."""
    return max(100 * row["items_per_second"] / row["ceiling_items_per_second"] for row in _with_ceiling(rows))


def _with_ceiling(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["items_per_second"] and row["ceiling_items_per_second"]]


def bottlenecks(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the bottlenecks that are named, by loader."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["bottleneck"] not in NO_NAME:
            found[row["loader"]].add(row["bottleneck"])
    return found


def main() -> None:
    """Take the demos, print a line of each and what holds of all, and fail where something cannot be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demos", type=int, default=5)
    parser.add_argument("--neighbour", action="store_true", help="beside what takes one core in bursts")
    parser.add_argument("--json", type=Path, help="write what was found to this file; go on with it")
    arguments = parser.parse_args()
    if not (Path(sys.prefix) / ".ready").is_file():
        parser.error(f"{sys.prefix} is no environment that `make` has finished. Type: make demo; . .venv/bin/activate")
    found = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.is_file() else []
    while len(found) < arguments.demos:
        with neighbour(len(found)) if arguments.neighbour else nullcontext():
            found.append(demo())
        if arguments.json:
            arguments.json.write_text(json.dumps(found))
    named: dict[str, set[str]] = defaultdict(set)
    too_high = []
    for number, one in enumerate(found, 1):
        rows, [noise] = one["ranking"], one["noise"]
        first = max((row for row in rows if row["items_per_second"]), key=lambda row: row["items_per_second"])
        own = bottlenecks(rows)
        for loader, names in own.items():
            named[loader] |= names
        too_high += [f"demo {number}: {row['loader']} on {row['tier']}" for row in rows if above_ceiling(row)]
        [verdict] = re.findall(r"^  (Fastest \(.*?)\n(?:    Settings:|  \S)", one["said"], re.DOTALL | re.MULTILINE)
        verdict = " ".join(verdict.split())
        parts = ", ".join(f"{loader} {'/'.join(sorted(names))}" for loader, names in sorted(own.items()))
        print(
            f"{number:2}  {one['seconds']:3.0f} s; {first['loader']} on {first['tier']} leads; {verdict}; "
            f"control varied by {noise['variation_percent']:.1f} %; "
            f"highest row {highest(rows):.0f} % of its ceiling; "
            f"bottlenecks: {parts or '-'}",
            flush=True,
        )
    several = {loader: names for loader, names in named.items() if len(names) > 1}
    print(f"longest: {max(one['seconds'] for one in found):.0f} s of {len(found)} demos")
    print(f"rows above their in-memory ceiling beyond their interval: {len(too_high)}", *too_high, sep="\n  ")
    print(f"loaders of which two different bottlenecks are named: {len(several)}", *several, sep="\n  ")
    if too_high or several:
        sys.exit("error: more is wrong than docs/measuring.md says")


if __name__ == "__main__":
    main()
