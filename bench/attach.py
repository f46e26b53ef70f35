"""Trainings of known truth under attach: verdict right, AU within 3 points, headspace within 3 %, the line named?

    python -m bench.attach                   # the 26 planted trainings
    python -m bench.attach --helps 10        # also: a gain of 1.3 and none, so many times each
    python -m bench.attach --overhead 5      # what the watch costs a batch, in pairs of runs
    python -m bench.attach --only thread     # one of them

Each training runs once without attach, where the script itself takes the times of its batches, and once with it. Ends
with status 1 where more is wrong than may be.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.files import PROJECT

ATTACH = PROJECT / "scripts/attach/feedrate_attach.py"
PLANTED = PROJECT / "tests/attach/trainings/planted.py"
POINTS, PERCENT = 3.0, 3.0  # of AU, of headspace


class Case(NamedTuple):
    """A planted training: what it is given, which part is at fault, and in how many ranks it runs."""

    given: dict[str, Any]
    fault: str | None = None
    ranks: int = 1


CASES = {
    **{f"item {factor}": Case({"item": (factor - 1) * 10 / 8}, "item") for factor in (1.1, 1.3, 2, 5, 10)},
    **{f"2 workers {factor}": Case({"item": factor * 20 / 8, "workers": 2}, "item") for factor in (1.15, 1.5, 3, 10)},
    "no load": Case({"item": 0.0}),
    "half the step, 1 worker": Case({"item": 5 / 8, "workers": 1}),
    "nearly the step, 2 workers": Case({"item": 18 / 8, "workers": 2}),
    "collate": Case({"collate": 10.0}, "collate"),
    "collate, 2 workers": Case({"collate": 40.0, "workers": 2}, "collate"),
    "copies": Case({"copies": 4}, "copies"),
    "copies in the step": Case({"step_copies": 60, "step": 0.0}),
    "copies in both, 1 worker": Case({"copies": 12, "step_copies": 40, "step": 0.0, "workers": 1}, "copies"),
    "short epochs": Case({"items": 96, "workers": 1, "worker_start": 100.0}),
    "short epochs, persistent": Case({"items": 96, "workers": 1, "worker_start": 100.0, "persistent": True}),
    "epochs of 60 batches": Case({"items": 480, "workers": 2, "worker_start": 300.0}),
    "slowest batches": Case({"slow_every": 160, "slow": 150.0}, "slow"),
    "slowest batches, 2 workers": Case({"slow_every": 160, "slow": 400.0, "workers": 2}, "slow"),
    "slow rank": Case({"rank_1_item": 2.0}, None, 2),
    "two ranks, bound by the step": Case({"item": 0.05, "step": 20.0}, None, 2),
    "pin_memory": Case({"pin": 10.0}),
    "transform built": Case({"build": 1.5}, "build"),
    "thread": Case({"item": 2.5, "thread": 10}, "item"),
}
GAIN = {"item": 13 / 8, "workers": 1}  # a second worker: 1.3 times
NOTHING = {"item": 5 / 8, "workers": 1}  # a second worker: nothing


def python(arguments: list[str], ranks: int, folder: Path) -> subprocess.CompletedProcess:
    """Run a script, in some ranks, in a folder."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    return subprocess.run(
        [sys.executable, *launcher, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def attached(given: dict[str, Any], ranks: int, budget: float) -> dict[str, Any]:
    """Return attach.json of a planted training."""
    with tempfile.TemporaryDirectory() as folder:
        done = python([str(ATTACH), "--budget", str(budget), str(PLANTED), json.dumps(given)], ranks, Path(folder))
        file = Path(folder) / "attach.json"
        if done.returncode or not file.is_file():
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads(file.read_text())


def truth(given: dict[str, Any], ranks: int) -> dict[str, float]:
    """Return the times that the script itself takes, without attach: ms a batch, and ms a step."""
    period = given.get("item", 0) * 8 / max(1, given.get("workers", 0)) + given.get("step", 10.0)  # ms, roughly
    batches = 24 * 12 if given.get("items", 1e6) <= 960 else round(max(80, 6400 / max(period, 20.0)))
    with tempfile.TemporaryDirectory() as folder:
        done = python([str(PLANTED), json.dumps({**given, "truth": batches})], ranks, Path(folder))
        if done.returncode:
            raise RuntimeError(done.stderr)
        return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def wrong(case: Case, true: dict[str, float], found: dict[str, Any]) -> list[str]:
    """Return the mistakes of an answer."""
    au = 100 * true["step_ms"] / true["period_ms"]
    verdicts = {"INPUT-BOUND"} if au < 87 else {"NOT-BOUND"} if au > 98 else {"INPUT-BOUND", "CLOSE", "NOT-BOUND"}
    problems = []
    if found["verdict"] not in verdicts:
        problems.append(f"verdict {found['verdict']}")
    if abs(found["au"]["percent"] - au) > POINTS:
        problems.append(f"AU {found['au']['percent']:.1f}")
    if abs(found["step_ms"] / true["step_ms"] - 1) > PERCENT / 100:
        problems.append(f"headspace {found['step_ms']:.2f} ms")
    if case.fault and f"fault: {case.fault}" not in found["lines"]["lines"][0]["code"]:
        problems.append(f"line {found['lines']['lines'][0]['code']}")
    if case.fault == "build" and not any(row["builds"] == ["Built"] for row in found["lines"]["lines"]):
        problems.append("what is built is not named")
    return problems


def planted(only: str | None, budget: float) -> int:
    """Print a row of each planted training; return how many are wrong."""
    bad, chosen = 0, {name: case for name, case in CASES.items() if only is None or only in name}
    for name, case in chosen.items():
        true, found = truth(case.given, case.ranks), attached(case.given, case.ranks, budget)
        problems = wrong(case, true, found)
        bad += bool(problems)
        true_au, au = 100 * true["step_ms"] / true["period_ms"], found["au"]
        said = f"AU {true_au:5.1f} found {au['percent']:5.1f} ({au['low'] or 0:.0f} to {au['high'] or 0:.0f})"
        steps = f"step {true['step_ms']:6.2f} found {found['step_ms']:6.2f}"
        print(f"{name:<30} {said}  {steps}  {found['verdict']:<12} {'; '.join(problems) or 'right'}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} planted trainings right")
    return bad


def helps(times: int) -> int:
    """Print how often a gain of 1.3 and none are told; return 1 where either is told in less than 9 of 10."""
    told = {"gain": 0, "nothing": 0}
    for _ in range(times):
        for name, given in (("gain", GAIN), ("nothing", NOTHING)):
            found = attached(given, 1, 25.0)
            row = next(row for row in found["tried"] if row["name"] == "workers 2")
            right = row["low"] > 1 if name == "gain" else row["low"] <= 1 <= row["high"]
            told[name] += right
            answer = "right" if right else "wrong"
            print(f"{name:<8} {row['times']:.3f} ({row['low']:.3f} to {row['high']:.3f})  {answer}", flush=True)
    print(f"a gain of 1.3 is told in {told['gain']} of {times}, nothing in {told['nothing']} of {times}")
    return int(min(told.values()) < 0.9 * times)


def overhead(pairs: int) -> int:
    """Print what the watch costs a batch; return 1 where that is more than 0.5 % of a step of 5 ms."""
    costs = []
    for _ in range(pairs):
        took = []
        for before in ([], [str(ATTACH), "--passive"]):
            with tempfile.TemporaryDirectory() as folder:
                done = python([*before, str(PLANTED.with_name("overhead.py"))], 1, Path(folder))
            took.append(float(next(line for line in done.stdout.splitlines() if line.startswith("micro")).split()[1]))
        costs.append(took[1] - took[0])
        print(f"a batch takes {took[0]:.1f} us, watched {took[1]:.1f} us", flush=True)
    middle = sorted(costs)[len(costs) // 2]
    print(f"the watch costs {middle:.1f} us a batch, {100 * middle / 5000:.2f} % of 5 ms")
    return int(middle > 25)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", help="part of a case's name")
    options.add_argument("--budget", type=float, default=20.0, help="seconds of each (default: 20)")
    options.add_argument("--overhead", type=int, default=0, metavar="PAIRS", help="pairs of runs")
    options.add_argument("--helps", type=int, default=0, metavar="TIMES", help="how often gains are planted")
    return options


def main() -> None:
    """Run the planted trainings."""
    given = parser().parse_args()
    if given.overhead:
        sys.exit(overhead(given.overhead))
    sys.exit(bool(helps(given.helps) if given.helps else planted(given.only, given.budget)))


if __name__ == "__main__":
    main()
