"""Results of the demo's settings on a small made data set in RAM, proven: for benches that run them in rounds."""

import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from math import exp, log
from pathlib import Path
from typing import Any

from scripts.common import plugins
from scripts.common.files import write_json
from scripts.common.sample import audio
from scripts.common.statistics import Comparison
from scripts.decide.rounds import Speeds, compare
from scripts.machine.folders import location_of
from scripts.measure.runner import Runner
from scripts.plan.experiment import Plan
from scripts.plan.results import Result
from tests.support.handed_out import data_of
from tests.support.made_corpus import SAMPLE_RATE, make_corpus

ITEMS, SECONDS = 128, 10
WORKERS = 2
Way = Callable[[Result], float | None]  # (run, path of its record) -> items/s, None where it failed


def demo_results(names: Iterable[str], device: str = "cpu") -> list[Result]:
    """Return a result of each loader in `names` (none: of all) with two workers, and else as the demo has it."""
    known = plugins.names("loaders")
    unknown = sorted(set(names) - set(known))
    if unknown:
        sys.exit(f"error: --only: found {', '.join(unknown)}, allowed are {', '.join(known)}")
    source = {"source": "synthetic", "clips": ITEMS, "seed": 7}
    name = "made_by_a_bench"  # no data set of a workflow: programs would name its folder
    raw = {"dataset": name, "datasets": {name: source}, "storage": {"memory": {"path": "/dev/shm"}}}
    raw |= {"loaders": list(names or known), "sweep": {"device": [device]}}
    sweep = {"workers": [WORKERS], "cache": ["warm"]}
    return Plan(raw, {"preset": "quick", "loaders": raw["loaders"], "sweep": sweep}).results


class MadeResults:
    """Proven results by the name of their loader (`runs`), and runs of them in rounds."""

    def __init__(self, folder: Path, runner: Runner, results: Iterable[Result], items: int) -> None:
        """Write the data to `folder` and prove the results; what cannot be proven is said, and left out."""
        self.folder, self.runner = folder, runner
        self.results: dict[str, Result] = {}
        self.programs: dict[str, str] = {}  # that a report hands out
        corpus = make_corpus(folder / "corpus", items=items, seconds=SECONDS, validation=0)
        for result in results:
            location = location_of(data_of(corpus, folder / "formats", result.loader).parent).as_json()
            proof = folder / "runs" / result.loader / "proof.json"
            asked = replace(
                result, corpus=str(corpus.root), location=location, proof=None, path=str(proof), mode="proof"
            )
            record = runner.make(asked)
            write_json(proof, record)
            if record["status"] == "ok":
                self.results[result.loader] = replace(asked, proof=str(proof), mode="run")
                self.programs[result.loader] = record["declared"]["program"]
            else:
                print(f"{result.loader}: left out: {record['reason']}", flush=True)

    def in_rounds(
        self, rounds: int, ways: Mapping[str, Way], file: Path | None = None
    ) -> dict[str, dict[str, dict[int, float]]]:
        """Return {loader: {way: {round: items/s}}}: in each round each result once by each way.

        Results are in random order, and so are the ways of one, which follow one another: a machine's noise is much the
        same for a second or two. After each round it is also written to `file` as JSON.
        """
        speeds: dict[str, Any] = {loader: {way: {} for way in ways} for loader in self.results}
        for round_number in range(rounds):
            order = [random.sample([(loader, way) for way in ways], len(ways)) for loader in self.results]
            for loader, way in chain.from_iterable(random.sample(order, len(order))):
                result = self.results[loader]
                speed = ways[way](replace(result, repeat=round_number, seed=result.seed + round_number))
                if speed:
                    speeds[loader][way][round_number] = speed
            print(f"round {round_number + 1} of {rounds}", file=sys.stderr, flush=True)
            if file:
                file.write_text(json.dumps(speeds, indent=1))
        return speeds


@contextmanager
def made_results(results: Iterable[Result], items: int) -> Iterator[MadeResults]:
    """Yield the results of these runs on so many items, in RAM until the end, with the servers of their runs."""
    item = audio(SECONDS * SAMPLE_RATE)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as ram, Runner(item, random.Random()) as runner:
        yield MadeResults(Path(ram), runner, results, items)


def ratio(one: Speeds, other: Speeds) -> Comparison | None:
    """Return how many times `one` is faster than `other`, by rounds; None where they share fewer than two."""
    found = compare(one, other) if one and other else None
    return found if found and found.low is not None else None


def of_all(speeds: Mapping[str, Mapping[str, Speeds]], one: str, other: str) -> Comparison | None:
    """Return how many times faster one way is than the other over all results together, by rounds that have all."""
    logs = {
        way: {
            round_number: sum(log(found[way][round_number]) for found in speeds.values())
            for round_number in set.intersection(*(set(found[one]) & set(found[other]) for found in speeds.values()))
        }
        for way in (one, other)
    }
    first, second = (
        {round_number: exp(total / len(speeds)) for round_number, total in logs[way].items()} for way in (one, other)
    )
    return ratio(first, second)


def words(found: Comparison) -> str:
    """Return a ratio and its interval."""
    return f"{found.ratio:.3f} (99 %: {found.low:.3f} to {found.high:.3f})"


def yes(whether: bool) -> str:
    """Return yes or no."""
    return "yes" if whether else "no"
