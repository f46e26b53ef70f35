"""Real sessions of loaders of known speeds, beside a neighbour that takes one core in bursts: what is said wrong?

    python -m bench.noise --sessions 20 --minutes 5 --json found.json

Planted are loaders that copy memory a known number of times beside each batch (memory-bound, as loaders are), and
loaders whose batches are due at known times (as from a slow disk); of each family the ratios are known. A session is as
`snakemake` makes it: the gate once, then rounds. Ends with an error where answers are wrong more often than they may.

A set of sessions can be taken in parts: those in the file of --json count, and only what is missing is taken.

With --slower there are two loaders, one so many percent slower than the other, and no neighbour: how often is it told?
`measure.resolution` is half of that then, since a session ends where the leaders is significantly equal within the
resolution.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scripts.common import facts
from scripts.common.counting import Run, counting, run_of
from scripts.common.files import read_json
from scripts.decide.choice import choose
from scripts.decide.intervals import intervals
from scripts.decide.rounds import FINAL_ERROR, Table
from tests.support.workflow_copy import ProjectCopy, folders

FACTORS = (1, 1, 1.05, 1.25, 1.5, 2, 5)
UNITS = 200  # copies of 8 MiB beside a batch by a loader of factor 1
REST = 10  # copies that what a batch costs else is worth
LATER = 2.5  # times what these copies take: between two batches of the first loader of the other family
ITEMS, SECONDS, BATCH = 480, 1, 16
SURE = "1.5 and more"  # of these, 95 of 100 pairs are to be told apart
WORDS = ("told", "open", "wrong")
CLASSES = {"equal": (1, 1.001), "1.05": (1.001, 1.06), "1.19 to 1.43": (1.06, 1.49), SURE: (1.49, np.inf)}
SESSION = "results/runs/demo/session-main.json"
PLANTED = '''"""Planted: {family}, {factor} times the time of the first."""

import time
from contextlib import contextmanager
from dataclasses import replace

import torch

from scripts.common import plugins

UNIT = 2 * 2**20  # float32: 8 MiB
FORMAT = "memmap"


@contextmanager
def open_epochs(request):
    plain = replace(request, options={{"gather": "batch", "reuse": False}})
    source, target = torch.ones(UNIT), torch.empty(UNIT)
    with plugins.load("loaders", "numpy_memmap").open_epochs(plain) as epoch:

        def planted(number):
            due = time.perf_counter()
            for batch in epoch(number):
                due = {due}
                {work}
                yield batch

        yield planted
'''
COPYING = "for _ in range({more}): target.copy_(source)"
WAITING = "time.sleep(max(0.0, due - time.perf_counter()))"
DUE = "max(due, time.perf_counter() - {seconds}) + {seconds}"
NEIGHBOUR = """
import random, time
chance = random.Random({seed})
while True:
    end = time.monotonic() + chance.uniform(0, 9)
    while time.monotonic() < end:
        pass
    time.sleep(chance.uniform(0, 9))
"""


def copying_seconds() -> float:
    """Return what the copies of a batch take on this machine, on torch's threads, at their best."""
    import torch

    source, target = torch.ones(2 * 2**20), torch.empty(2 * 2**20)
    taken = []
    for _ in range(8):
        began = time.perf_counter()
        for _ in range(UNITS):
            target.copy_(source)
        taken.append(time.perf_counter() - began)
    return min(taken)


def planted(folder: Path, factors: tuple[float, ...], waiting: tuple[float, ...]) -> dict[str, tuple[str, float]]:
    """Write the loaders to a folder; return {name: (family, factor)}. Those that copy are truly the faster ones."""
    found = {}
    first_due = LATER * copying_seconds() if waiting else 0.0
    for family, own in (("copying", factors), ("waiting", waiting)):
        for number, factor in enumerate(own):
            name = f"{family}_{number}"
            more = round(UNITS * factor)
            work = COPYING.format(more=more) if family == "copying" else WAITING
            due = DUE.format(seconds=first_due * factor)
            (folder / f"{name}.py").write_text(PLANTED.format(family=family, factor=factor, work=work, due=due))
            found[name] = family, factor
    return found


@contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """Run what takes one core for 0 to 9 s, and again after 0 to 9 s."""
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR.format(seed=seed)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Sessions:
    """A project whose loaders are planted, and sessions of it."""

    def __init__(self, disk: Path, ram: Path, loaders: Mapping[str, Any], minutes: float, resolution: float) -> None:
        self.project = ProjectCopy(
            disk / "project",
            ram,
            datasets={"demo": {"source": "synthetic", "clips": ITEMS, "seed": 3}},
            audio={"seconds": SECONDS},
            storage={"ram": {"path": str(ram)}},
            loaders=[{"name": name, "file": str(disk / f"{name}.py")} for name in loaders],
            sweep={
                "device": ["cpu"],
                "batch_size": [BATCH],
                "workers": [0],
                "task": ["read"],
                "cache": ["warm"],
                "allocator": ["keep"],
            },
            measure={"minutes": 0.01, "bottlenecks": "none", "timeline": "none", "steps": "none", "tensors": False},
        )
        self._session()
        limits = {"minutes": minutes, "resolution": resolution}
        self.project.configure(measure={**self.project.config["measure"], **limits})

    def _session(self) -> None:
        """Have Snakemake make a session, however long it takes; ends this program where it fails."""
        with self.project.start("--cores", "all", "--notemp", SESSION) as process:
            said, _ = process.communicate()
        if process.returncode:
            sys.exit(f"error: snakemake ended with status {process.returncode}:\n{said[-5000:]}")

    def measure(self) -> dict[str, Any]:
        """Take one session from nothing but the proofs; return `session`, its file, `runs`, {name: {round: run}},
        `control`, the speeds of the control run in items/s, and how many `seconds` it took.
        """
        began = time.monotonic()
        shutil.rmtree(facts.sessions_folder(self.project.root, "demo"))  # of this copy: the next one begins anew
        (self.project.root / SESSION).unlink()
        self._session()
        [made] = facts.sessions(self.project.root, "demo")
        runs: dict[str, dict[int, Run]] = {}
        for result in made.results:
            for number, path in made.rounds(result).items():
                record = made.record(result, path)
                runs.setdefault(record["loader"], {})[number] = run_of(record)
        control = [read_json(path)["items_per_second"] for path in made.folder.glob("bounds/*/*/*.json")]
        session = read_json(self.project.root / SESSION)
        return {"session": session, "runs": runs, "control": control, "seconds": time.monotonic() - began}


def judged(table: Table, loaders: Mapping[str, tuple[str, float]]) -> Counter:
    """Return how many pairs of each class of true ratios were told apart, left open, or said wrong."""
    found: Counter = Counter()
    names = sorted(table.place)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            (family, first), (another, second) = loaders[one], loaders[other]
            if family == another:
                fast, slow = (one, other) if first <= second else (other, one)
                said = table.compare(fast, slow)
                ratio = max(first, second) / min(first, second)
                wrong = said.slower or (ratio == 1 and said.faster)
                [name] = [name for name, (low, high) in CLASSES.items() if low <= ratio < high]
                found[name, "wrong" if wrong else "told" if said.faster else "open"] += 1
    return found


FEWEST_ROUNDS = 20  # to draw from: of fewer a table would have the same ones again and again


def _stayed(session: dict[str, dict[int, float]]) -> set[str]:
    """Return the results that have a run that counts in four of five rounds of a session."""
    most = max(len(speeds) for speeds in session.values())
    return {name for name, speeds in session.items() if len(speeds) >= 0.8 * most}


def simulated(sessions: list[dict[str, dict[int, float]]], tables: int, seed: int = 1) -> float:
    """Return the share of sessions with any false difference among equals, drawn from the recorded runs.

    Of the results that stayed to the end in four of five sessions: each one's own level in its session is taken away,
    so that all are equal. A drawn session has as many rounds as a recorded one, each with all its runs as they were
    made. Raises ValueError where there are too few to draw from.
    """
    counts = Counter(name for session in sessions for name in _stayed(session))
    names = sorted(name for name, count in counts.items() if count >= 0.8 * len(sessions))
    rounds, lengths = [], []
    for session in sessions:
        numbers = sorted({number for name in names for number in session[name]})
        logs = np.log([[session[name].get(number, np.nan) for number in numbers] for name in names])
        whole = logs[:, ~np.isnan(logs).any(axis=0)] if names else logs
        count = whole.shape[-1]
        if count >= 3:
            scale = np.sqrt(count / (count - 1))  # of what is left beside a mean of its own
            rounds += list(scale * (whole - whole.mean(axis=1, keepdims=True)).T)
            lengths.append(count)
    if len(names) < 2 or len(rounds) < FEWEST_ROUNDS:
        raise ValueError(f"{len(names)} results stayed, {len(rounds)} rounds have them all: too few to draw from")
    chance, wrong = np.random.default_rng(seed), 0
    for _ in range(tables):
        taken = chance.integers(len(rounds), size=int(chance.choice(lengths)))
        means, halves, _ = intervals(np.array([rounds[one] for one in taken]).T, FINAL_ERROR)
        wrong += bool((abs(means) > halves).any())
    return wrong / tables


def taken_before(path: Path | None) -> list[dict[str, Any]]:
    """Return the sessions that an earlier call has written to `path`, none where there is no such file."""
    found = json.loads(path.read_text()) if path and path.is_file() else []
    for one in found:
        one["runs"] = {
            name: {int(round_number): Run(*run) for round_number, run in runs.items()}
            for name, runs in one["runs"].items()
        }
        one.pop("speeds", None)
    return found


def _variation(speeds: Sequence[float]) -> str:
    """Return the standard deviation in percent of the mean, as noise.csv has it."""
    return f"{100 * np.std(speeds, ddof=1) / np.mean(speeds):.1f} %" if len(speeds) > 1 else "-"


def main() -> None:
    """Take the sessions, print a line of each and a table of all, and fail where too much is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each session")
    parser.add_argument("--slower", type=float, help="two loaders, one so many percent slower; no neighbour")
    parser.add_argument("--json", type=Path, help="write what was found, runs included, to this file; go on with it")
    arguments = parser.parse_args()
    factors, waiting, resolution = FACTORS, (1.0, 1.5), 0.05
    if arguments.slower is not None:
        factors, waiting = (1.0, 1 + arguments.slower / 100 * (1 + REST / UNITS)), ()  # of the whole batch
        resolution = arguments.slower / 200
    found = taken_before(arguments.json)
    total: Counter = Counter()
    chosen: Counter = Counter()
    leaders = tables_wrong = 0
    with folders() as (disk, ram):
        loaders = planted(disk, factors, waiting)
        missing = len(found) < arguments.sessions
        sessions = Sessions(disk, ram, loaders, arguments.minutes, resolution) if missing else None
        for number in range(max(len(found), arguments.sessions)):
            if number == len(found):
                with neighbour(number) if arguments.slower is None else tempfile.TemporaryDirectory():
                    found.append(sessions.measure())
                if arguments.json:
                    arguments.json.write_text(json.dumps(found))
            said, runs = found[number]["session"], found[number]["runs"]
            speeds = found[number]["speeds"] = counting(runs)
            table = Table(speeds, FINAL_ERROR)
            pairs = judged(table, loaders)
            first = max(table.place, key=lambda name: table.center(name).speed)
            right = loaders[first][0] == "copying" and loaders[first][1] <= 1.05
            choice = choose(table, table.leading(), loaders.__getitem__)
            family, factor = loaders[choice.key]
            chosen[choice.form, "right" if family == "copying" and factor <= choice.behind else "WRONG"] += 1
            left_out = sum(len(runs[name]) - len(speeds[name]) for name in runs)
            wrong = sum(count for (_, word), count in pairs.items() if word == "wrong")
            leaders, tables_wrong, total = leaders + right, tables_wrong + bool(wrong), total + pairs
            told = ", ".join(
                f"{name}: {pairs[name, 'told']} of {sum(pairs[name, word] for word in WORDS)}" for name in CLASSES
            )
            print(
                f"{number + 1:2}  {found[number]['seconds']:3.0f} s, {said['rounds']} rounds, {said['runs']} runs, "
                f"{said['made_again']} made again, "
                f"{left_out} left out; {first} leads ({'right' if right else 'WRONG'}), "
                f"{wrong} wrong; told {told}; control varied by {_variation(found[number].get('control', ()))}",
                flush=True,
            )
    pairs, sure = sum(total[SURE, word] for word in WORDS), total[SURE, "told"]
    false = simulated([one["speeds"] for one in found], 1000)
    for name in CLASSES:
        print(f"{name}: " + ", ".join(f"{total[name, word]} {word}" for word in WORDS))
    print(f"leader right in {leaders} of {len(found)}; tables with a wrong difference: {tables_wrong}")
    print("the choice: " + ", ".join(f"{form} {count} {word}" for (form, word), count in sorted(chosen.items())))
    if pairs:
        print(f"pairs that differ by {SURE}: {sure} of {pairs} told apart ({100 * sure / pairs:.1f} %)")
    print(f"simulated from these runs, all equal: {100 * false:.1f} % of 1,000 tables have a false difference")
    if arguments.slower is not None:
        return
    wrong = any(word == "WRONG" for _, word in chosen) or leaders < len(found) or tables_wrong > 0.05 * len(found)
    if wrong or sure < 0.95 * pairs or false > 0.05:
        sys.exit("error: more is wrong than docs/measuring.md says")


if __name__ == "__main__":
    main()
