"""`make selftest`: proof that the instrument is right, on this machine, now. Takes some thirty-five minutes.

Ends with a line for each property, and with an error where one does not hold. Speeds are not judged here, but for one:
that a loader which is 5 % slower on purpose is called slower needs a machine that is steady enough to say so, and the
table shows how steady it was.

    make selftest            python -m bench.selftest --only same slower
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.noise import Sessions, planted
from scripts.common.counting import counting
from scripts.common.statistics import Comparison
from scripts.decide.rounds import FINAL_ERROR, Table
from tests.support.programs import PROJECT
from tests.support.workflow_copy import folders

MINUTES = 3.0  # of the session
RESOLUTION = 0.025  # the leaders is to be told apart by more than that, before it ends early
ATTEMPTS = 3  # at a planted bottleneck that is called unclear; a wrong name is wrong at once
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


def by_bench(module: str) -> tuple[bool, str]:
    """Return whether a benchmark finds all right, and the last line of its table."""
    command = [sys.executable, "-m", module]
    done = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    return done.returncode == 0, done.stdout.strip().splitlines()[-1]


def sleeps() -> tuple[bool, str]:
    """Return whether known sleeps are found again within 5 %."""
    from tests.support.planted import KNOWN_SLEEPS, recovered

    found = [(name, *pair) for case in KNOWN_SLEEPS for name, pair in recovered(*case).items()]
    name, measured, known = max(found, key=lambda one: abs(one[1] / one[2] - 1))
    percent = 100 * (measured / known - 1)
    return abs(percent) <= 5, f"off by {percent:+.2f} % at most: {name}, {known:g} planted"


def bottlenecks() -> tuple[bool, str]:
    """Return whether every planted bottleneck is named; what a noisy moment leaves unclear is tried again, and said."""
    from tests.support.bottleneck_cases import ALONE, PAIRS, named

    found, unclear = {}, []
    for case in (*ALONE, *PAIRS):
        for _ in range(ATTEMPTS):
            found[case] = named(case)[0]
            if found[case] != "unclear":
                break
            unclear.append(case)
    others = "".join(f"; {case}: {part}" for case, part in found.items() if part != case.answer)
    tried = f", {len(unclear)} unclear and tried again" if unclear else ""
    right = sum(case.answer == part for case, part in found.items())
    return not others, f"{right} of {len(found)} named{tried}{others}"


class Session:
    """One session of three planted loaders, two of them equal, the third 5 % slower; measured when first asked for."""

    def __init__(self) -> None:
        self._table: Table | None = None

    def table(self) -> Table:
        """Return what the session says, all pairs at once."""
        if self._table is None:
            with folders() as (disk, ram):
                loaders = planted(disk, (1.0, 1.0, 1.05), ())
                runs = Sessions(disk, ram, loaders, MINUTES, RESOLUTION).measure()["runs"]
            self._table = Table(counting(runs), FINAL_ERROR)
        return self._table

    def same(self) -> tuple[bool, str]:
        """Return whether equal loaders are not told apart."""
        found = self.table().compare("copying_1", "copying_0")
        return not (found.faster or found.slower), _words(found)

    def slower(self) -> tuple[bool, str]:
        """Return whether a loader that is 5 % slower is called slower."""
        found = self.table().compare("copying_2", "copying_0")
        return found.slower, _words(found)


def _words(found: Comparison) -> str:
    low, high = (f"{100 * (end - 1):+.1f} %" for end in (found.low, found.high))
    return f"{100 * (found.ratio - 1):+.1f} %, interval {low} to {high}"


def parts() -> dict[str, Callable[[], tuple[bool, str]]]:
    """Return what is proven, by name."""
    session = Session()
    held = {name: (lambda tests=tests: by_tests(tests)) for name, tests in PYTEST.items()}
    return {
        **held,
        "what is said is wrong in at most 5 % of sessions": lambda: by_bench("bench.verdicts"),
        "attach is right about planted trainings": lambda: by_bench("bench.attach"),
        "known sleeps within 5 %": sleeps,
        "bottlenecks are named": bottlenecks,
        "same: A against A": session.same,
        "slower by 5 % is called so": session.slower,
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
