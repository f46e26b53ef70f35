"""`make selftest`: proof that the instrument is right, on this machine, now. Takes some ten minutes.

Ends with a line for each property, and with an error where one does not hold. Speeds are not judged here, but for one:
that a loader which is 5 % slower on purpose is called slower needs a machine that is steady enough to say so, and the
table shows how steady it was.

    make selftest            python -m tests.bench.selftest --only same slower
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.programs import PROJECT

SAME_RUNS = 40  # of one loader, to compare with itself
SLOW_RUNS = 10  # of the slower one, as the preset `publishable` makes
COMPARISONS = 100
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT), "GOMP_SPINCOUNT": "1000"}
PYTEST = {  # properties that the tests hold as well, by the tests that hold them
    "order of phases": ["tests/measure/test_protocol.py"],
    "AU of trainings, by a planted clock": ["tests/measure/test_training.py", "-k", "utilisation"],
    "cold >= 90 %, warm <= 1 %": ["tests/machine/test_page_cache.py", "-k", "device or user"],
    "PSS within 2 %": ["tests/measure/test_sampler.py", "-k", "sharing or shared or pss"],
    "memory growth and copy-on-write": ["tests/measure/test_sampler.py", "-k", "grow or copy"],
    "limits of reads and memory": ["tests/machine/test_control_groups.py"],
}


def by_tests(arguments: list[str]) -> tuple[bool, str]:
    """Return whether some of the tests pass, and pytest's last line; tests that are not there do not."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout.strip().splitlines()[-1].strip("= ")


def sleeps() -> tuple[bool, str]:
    """Return whether known sleeps are found again within 5 %."""
    from tests.support.planted import KNOWN_SLEEPS, recovered

    found = [(name, *pair) for case in KNOWN_SLEEPS for name, pair in recovered(*case).items()]
    name, measured, known = max(found, key=lambda one: abs(one[1] / one[2] - 1))
    percent = 100 * (measured / known - 1)
    return abs(percent) <= 5, f"off by {percent:+.2f} % at most: {name}, {known:g} planted"


def bottlenecks() -> tuple[bool, str]:
    """Return whether every planted bottleneck is named."""
    from tests.support.bottleneck_cases import ALONE, PAIRS, named

    wrong = [str(case) for case in (*ALONE, *PAIRS) if named(case)[0] != case.answer]
    count = len(ALONE) + len(PAIRS)
    return not wrong, f"{count - len(wrong)} of {count} named" + "".join(f"; wrong: {case}" for case in wrong)


class Runs:
    """Real runs of a loader and of the same made 5 % slower, in random order; measured once, when first asked for."""

    def __init__(self) -> None:
        self._speeds: dict[float, list[float]] = {}

    def speeds(self) -> dict[float, list[float]]:
        """Return {percent slower: clips/s of each run}."""
        if not self._speeds:
            order = [0.0] * SAME_RUNS + [5.0] * SLOW_RUNS
            random.Random(1).shuffle(order)
            with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
                self._make(Path(folder))
                for number, slower in enumerate(order, start=1):
                    command = [
                        sys.executable,
                        "-m",
                        "tests.support.one_run",
                        "--folder",
                        folder,
                        "--slower",
                        str(slower),
                    ]
                    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
                    self._speeds.setdefault(slower, []).append(float(done.stdout))
                    print(f"\r  run {number} of {len(order)}", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
        return self._speeds

    def _make(self, folder: Path) -> None:
        from tests.support.loader_cases import write_format
        from tests.support.made_corpus import make_corpus

        corpus = make_corpus(folder / "corpus", clips=256, seconds=10, validation=0)
        write_format(corpus, "memmap", folder / "memmap", readers=1)

    def same(self) -> tuple[bool, str]:
        """Return whether one loader, compared with itself, is seldom told from itself."""
        from scripts.common.statistics import compare

        values, draw = self.speeds()[0.0], random.Random(2)
        found = []
        for count in (3, 5, 10):
            called = 0
            for _ in range(COMPARISONS):
                some = draw.sample(values, 2 * count)
                comparison = compare(some[:count], some[count:])
                called += comparison.faster or comparison.slower
            found.append((count, called))
        texts = (f"{called} of {COMPARISONS} with {count} runs" for count, called in found)
        variation = 100 * statistics.stdev(values) / statistics.mean(values)
        text = f"called different: {', '.join(texts)}; {len(values)} runs varied by {variation:.1f} %"
        return all(called <= 5 for _, called in found), text

    def slower(self) -> tuple[bool, str]:
        """Return whether a loader that is 5 % slower is called slower with the preset's number of runs."""
        from scripts.common.statistics import compare

        values = self.speeds()
        comparison = compare(values[5.0], random.Random(3).sample(values[0.0], SLOW_RUNS))
        low, high = (f"{100 * (end - 1):+.1f} %" for end in (comparison.low, comparison.high))
        return comparison.slower, f"{100 * (comparison.ratio - 1):+.1f} %, 99 % interval {low} to {high}"


def parts() -> dict[str, Callable[[], tuple[bool, str]]]:
    """Return what is proven, by name."""
    runs = Runs()
    held = {name: (lambda tests=tests: by_tests(tests)) for name, tests in PYTEST.items()}
    return {
        **held,
        "known sleeps within 5 %": sleeps,
        "bottlenecks are named": bottlenecks,
        "same: A against A": runs.same,
        "slower by 5 % is called so": runs.slower,
    }


def main() -> None:
    """Prove what is asked for, print a line for each, and fail where one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="parts whose name begins so")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    arguments = parser.parse_args()
    found = {}
    for name, prove in parts().items():
        if not arguments.only or name.startswith(tuple(arguments.only)):
            found[name] = prove()
            print(f"{'holds' if found[name][0] else 'FAILS'}  {name}: {found[name][1]}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))
    wrong = [name for name, (holds, _) in found.items() if not holds]
    if wrong or not found:
        sys.exit(f"error: {', '.join(wrong) or 'nothing by that name'}: not as it should be")


if __name__ == "__main__":
    main()
