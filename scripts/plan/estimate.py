"""How long a session will take, told before it runs: its minutes where they are set, and assumptions for the rest.

Only the presence of files is looked at, never a record: the Snakefile asks at each start.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from scripts.common import plugins
from scripts.common.files import read_json
from scripts.common.vocabulary import SPLIT, TRAINING
from scripts.plan.experiment import Plan, Result
from scripts.plan.results import COLD_LEADERS, COLD_RUNS

# Assumptions: those of a machine with four cores and an SSD.
PROOF_SECONDS = 3.0  # of a fresh process with its imports, beside one pass over the split
RUN_SECONDS = {"cpu": 1.0, "cuda": 2.2}  # beside its window; on a GPU each sets up CUDA
PASSES = 4  # of what is measured by whole epochs
TRAINED_BYTES_PER_SECOND = 80e6  # of float32 audio, in a training; of any other task:
OTHER_PASS_BYTES_PER_SECOND = 1e9
DECODED_BYTES_PER_SECOND = 200e6  # what a loader that decodes delivers; of any other, as of OTHER_PASS
QUEUES = 6  # times what workers and queues hold, of a run: 2 untimed and the 4 of its window (measure/window.py)
FIRST_EPOCH_SECONDS = 5.0  # a run's first epoch is untimed unless it is longer or read at less than
NOTICED_BYTES_PER_SECOND = 5e8  # (measure/window.py)
LEAST_ROUNDS = 3  # of a session, however long they take (measure/race.py); one of trainings
LEAST_SESSION_MINUTES = 0.75  # of few results, with what explains them
TENSORS_SECONDS = 20.0
COPY_BYTES_PER_SECOND = 100e6  # of decoding, of writing a format, of a copy on a tier
PROFILE_MEASUREMENTS = 18  # of fio on a tier, each `measure.profile_seconds` long
ITEMS = 1000  # of a data set of unknown size


@dataclass(frozen=True)
class Estimate:
    """What a session has to do, and how long it is thought to take."""

    results: int  # planned
    left: int  # of these, without a run
    minutes: float  # of all that is left but the download
    session_minutes: float  # of these, in sessions
    download_hours: float | None  # at the pace that the source allows; None where nothing is downloaded
    items: int
    counted: bool  # whether the number of items is known
    leaders_cold: bool  # whether what leads is measured from a cold cache besides

    def words(self) -> str:
        """Return it as a line for the terminal."""
        if not self.left:
            return f"All {self.results:,} results are there."
        hours = self.download_hours
        loading = f"Download: about {in_words(60 * hours)} at the configured pace. " if hours else ""
        size = f"{self.items:,} items" + ("" if self.counted else ", since their number is not known yet")
        cold = ", then those that lead from a cold cache" if self.leaders_cold else ""
        return (
            f"{loading}Results: {self.left:,} of {self.results:,} to measure{cold}, about {in_words(self.minutes)}, of "
            f"which {in_words(self.session_minutes)} in sessions; the rest is assumed ({size}; docs/measuring.md)."
        )


def in_words(minutes: float) -> str:
    """Return a time in the largest unit of which there are two."""
    for unit, length in (("days", 24 * 60), ("h", 60)):
        if minutes >= 2 * length:
            return f"{minutes / length:.1f} {unit}"
    return f"{max(1, round(minutes))} min"


def estimate(plan: Plan, loaders: Collection[str] = ()) -> Estimate:
    """Return how long what the plan lists, and has no run, will take; only of `loaders`, where some are given."""
    runs = [result for result in plan.results if result.loader in (loaders or plan.loaders)]
    runs, cold = [run for run in runs if not run.if_leads], [run for run in runs if run.if_leads]
    left = [result for result in runs if not plan.settled(result)]
    items, counted = items_of(plan, 1 - plan.config["split"]["validation"], SPLIT)
    epoch_bytes = items * plan.sample.bytes
    proofs = {result.proof for result in left if not (plan.project / result.proof).exists()}
    seconds = len(proofs) * (PROOF_SECONDS + epoch_bytes / OTHER_PASS_BYTES_PER_SECOND)
    session = 60.0 * sum(_session_minutes(plan, group, left, epoch_bytes) for group in plan.groups)
    tensors = [] if loaders else [one for one in plan.tensors if not (plan.project / one.path).exists()]
    copies, profiles = _to_prepare(plan, {result.format for result in runs})
    copies += sum(plan.sessions_left(result) - 1 for result in {(one.tier, one.format): one for one in left}.values())
    seconds += session + len(tensors) * TENSORS_SECONDS + copies * epoch_bytes / COPY_BYTES_PER_SECOND
    seconds += (0 if loaders else profiles) * PROFILE_MEASUREMENTS * plan.config["measure"]["profile_seconds"]
    hours = _download_hours(plan)
    return Estimate(len(runs), len(left), seconds / 60, session / 60, hours, items, counted, bool(cold))


def _session_minutes(plan: Plan, group: str, left: Collection[Result], epoch_bytes: int) -> float:
    """Return the minutes that the sessions of a group take for what is left of it, of each its least rounds in any
    case.
    """
    measure = plan.config["measure"]
    every = [result for result in plan.results if result.group == group and not result.if_leads]
    found = [result for result in left if result.group == group]
    cold = [_run_seconds(plan, one, epoch_bytes) for one in plan.results if one.group == group and one.if_leads]
    cold = sum(sorted(cold)[-COLD_LEADERS:]) if found else 0.0
    sessions = max(map(plan.sessions_left, found), default=0)
    if measure["minutes"] != "none":
        least = min(LEAST_SESSION_MINUTES, measure["minutes"]) if found else 0.0
        times = {result.id: 1 if result.task in TRAINING else LEAST_ROUNDS for result in found}
        rounds = cold + sum(times[result.id] * _run_seconds(plan, result, epoch_bytes) for result in found)
        return sessions * max(least, rounds / 60, measure["minutes"] * len(found) / len(every))
    repeats = {result.id: measure["train_repeats" if result.task in TRAINING else "repeats"] for result in found}
    warm = sum(repeats[result.id] * _run_seconds(plan, result, epoch_bytes) for result in found)
    return sessions * (warm + COLD_RUNS * cold) / 60


def _run_seconds(plan: Plan, result: Result, epoch_bytes: int) -> float:
    """Return the seconds of a run: its process, its first epoch where that is untimed, its window; or its epochs."""
    settings, measure = result.settings, plan.config["measure"]
    if result.mode != "run":
        passes = PASSES if measure["epochs"] == "auto" else measure["epochs"] + 1
        speed = TRAINED_BYTES_PER_SECOND if result.task in TRAINING else OTHER_PASS_BYTES_PER_SECOND
        return RUN_SECONDS[settings["device"]] + max(measure["seconds"], passes * epoch_bytes / speed)
    decodes = "decode" in getattr(plan.loaders[result.loader], "STAGES", ())
    rate = DECODED_BYTES_PER_SECOND if decodes else OTHER_PASS_BYTES_PER_SECOND
    held = (settings["workers"] or 0) * (settings["prefetch"] or 1) * settings["batch_size"] * plan.sample.bytes
    first = epoch_bytes / rate
    first = first if first <= FIRST_EPOCH_SECONDS and rate >= NOTICED_BYTES_PER_SECOND else 0.0
    window = max(measure["seconds"], QUEUES * held / rate)
    return RUN_SECONDS[settings["device"]] + first + window


def _to_prepare(plan: Plan, formats: Collection[str]) -> tuple[int, int]:
    """Return (copies of the data set that are to be made: corpus, formats, tiers; tiers that are to be profiled)."""
    files = [f"{plan.folder('corpus')}/corpus.json"]
    files += [f"{plan.folder('formats')}/{name}.json" for name in formats]
    files += [f"{plan.folder('placed')}/{tier}/{name}.json" for tier in plan.tiers for name in formats]
    profiles = [f"{plan.folder('placed')}/{tier}.json" for tier in plan.tiers]
    return tuple(sum(not (plan.project / file).exists() for file in kind) for kind in (files, profiles))


def items_of(plan: Plan, share: float = 1, *splits: str) -> tuple[int, bool]:
    """Return (items of the splits, whether that is no assumption): of the corpus, else a share of what the source says.

    Without `splits` those of all.
    """
    info = plan.project / plan.folder("corpus") / "corpus.json"
    if info.is_file():
        counts = read_json(info)["items"]
        return sum(counts[split] for split in splits or counts), True
    expected = _of_source(plan, "expected")
    return (ITEMS, False) if expected is None else (round(share * expected), True)


def _download_hours(plan: Plan) -> float | None:
    """Return the hours that the source still asks for items; shards with a ledger are done."""
    hours = _of_source(plan, "hours")
    if hours is None:
        return None
    folder = plan.project / plan.folder("clips")
    missing = sum(not (folder / f"ledger-{shard:04d}.csv").exists() for shard in range(plan.shards))
    return hours * missing / plan.shards


def _of_source(plan: Plan, name: str) -> Any:
    """Return what an optional function of the source says of its options, or None."""
    function = getattr(plugins.load("sources", plan.source), name, None)
    return function(plan.options) if function else None
