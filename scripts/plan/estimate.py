"""How long a session will take, told before it runs: its minutes where they are set, and assumptions for the rest.

Only the presence of files is looked at, never a record: the Snakefile asks at each start.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil
from operator import itemgetter
from types import ModuleType
from typing import Any

from scripts.common.vocabulary import COLD, PART, SPLIT, TRAINING, WHOLE
from scripts.plan.experiment import MAIN, Plan, Result
from scripts.plan.results import COLD_RUNS, MOST_LEADERS
from scripts.plan.room import rooms
from scripts.plan.sizes import items_of, of_source

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
LONGEST_COLD_SECONDS = 10.0  # of an epoch from a cold cache, of which a part is timed
LEAST_ROUNDS = 3  # of a session, however long they take (measure/race.py); one of trainings
RACE, OF_LEADERS, STEPS, EXPLAINED = "race", "of leaders", "steps", "explained"
# What a session's time is for, in this order: a part that is not asked for leaves its share to the others, and time
# that one does not need is for those after it. `of leaders`: a cold cache and trainings, where they alone have these.
SHARES = {RACE: 0.55, OF_LEADERS: 0.1, STEPS: 0.2, EXPLAINED: 0.15}
OF_PART = 0.35  # of the minutes, for the session of a part of the items, where there is one
SHOWN = 4  # dropped results that are named
LEAST_SESSION_MINUTES = 0.75  # of few results, with what explains them
TENSORS_SECONDS = 20.0
WRITTEN_BYTES_PER_SECOND = 150e6  # of decoding, of writing a format, of a copy on a tier
PROFILE_MEASUREMENTS = 18  # of fio on a tier, each `measure.profile_seconds` long


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
    part: int | None  # items of the part that is measured first
    dropped: Mapping[str, float]  # {id: seconds of its least rounds} of results for which the sessions have no time
    minutes_for_all: float  # that `measure.minutes` would have to be for none to be dropped

    def words(self) -> str:
        """Return it as a line for the terminal."""
        if not self.left:
            return f"All {self.results:,} results are there."
        hours = self.download_hours
        loading = f"Download: about {in_words(60 * hours)} at the configured pace. " if hours else ""
        size = f"{self.items:,} items" + ("" if self.counted else ", since their number is not known yet")
        part = f" with {self.part:,} items, then the fastest of them with all items" if self.part else ""
        cold = ", then those that lead from a cold cache" if self.leaders_cold else ""
        return (
            f"{loading}Results: {self.left:,} of {self.results:,} to measure{part}{cold}, about "
            f"{in_words(self.minutes)}, of which {in_words(self.session_minutes)} in sessions; the rest is assumed "
            f"({size}; docs/measuring.md)." + (self._dropped_words() if self.dropped else "")
        )

    def _dropped_words(self) -> str:
        slowest = sorted(self.dropped.items(), key=itemgetter(1), reverse=True)
        named = ", ".join(f"{one} ({seconds:.0f} s)" for one, seconds in slowest[:SHOWN])
        more = f" and {len(slowest) - SHOWN} more" if len(slowest) > SHOWN else ""
        return (
            f" The time set has room for {self.left - len(slowest):,} of them. Further settings of slow loaders are "
            f"dropped first, and would take: {named}{more}. For all of them type measure='{{minutes: "
            f"{ceil(self.minutes_for_all)}}}' behind --config."
        )


def in_words(minutes: float) -> str:
    """Return a time in the largest unit of which there are two."""
    for unit, length in (("days", 24 * 60), ("h", 60)):
        if minutes >= 2 * length:
            return f"{minutes / length:.1f} {unit}"
    return f"{max(1, round(minutes))} min"


def estimate(plan: Plan, loaders: Collection[str] = ()) -> Estimate:
    """Return how long what the plan lists, and has no run, will take; only of `loaders`, where some are given.

    What depends on which results lead is assumed: MOST_LEADERS loaders of each kind.
    """
    runs = [result for result in plan.results if result.loader in (loaders or plan.loaders)]
    if plan.part and loaders:
        runs = [run for run in runs if run.size == WHOLE]
    chosen = plan.chosen or ()
    first = [run for run in runs if not run.if_leads or loaders or (run.id in chosen and run.cache == "warm")]
    depending = [run for run in runs if run not in first]
    by_name = bool(loaders)
    left = [result for result in first if not plan.settled(result, by_name)]
    share = 1 - plan.config["split"]["validation"]
    items, counted = items_of(plan, share, SPLIT)
    seconds = _proof_seconds(plan, left, share)
    followed = [run for run in depending if run.size == WHOLE and plan.part and not plan.settled(run)] if left else []
    seconds += _proof_seconds(plan, followed, share, MOST_LEADERS)
    sessions = [_session_minutes(plan, group, runs, first, left, items, by_name) for group in plan.groups]
    tensors = [] if loaders else [one for one in plan.tensors if not (plan.project / one.path).exists()]
    profiles = [] if loaders else [one for one in plan.tiers if not _there(plan, "placed", f"{one}.json")]
    written = sum(room.needed for room in rooms(plan, loaders))
    seconds += 60 * sum(sessions) + len(tensors) * TENSORS_SECONDS + written / WRITTEN_BYTES_PER_SECOND
    seconds += len(profiles) * PROFILE_MEASUREMENTS * plan.config["measure"]["profile_seconds"]
    return Estimate(
        results=len(first),
        left=len(left),
        minutes=seconds / 60,
        session_minutes=sum(sessions),
        download_hours=_download_hours(plan),
        items=items,
        counted=counted,
        leaders_cold=any(run.cache in COLD and run.size == first[0].size for run in depending) if first else False,
        part=plan.part if not loaders else None,
        **_dropped(plan, left, items),
    )


def _proof_seconds(plan: Plan, results: Collection[Result], share: float, at_most: int | None = None) -> float:
    """Return the seconds that proofs take which are not there, each a pass over the data."""
    sizes = {one.proof: one.size for one in results if not (plan.project / one.proof).exists()}
    items = {WHOLE: items_of(plan, share, SPLIT)[0], PART: round(share * (plan.part or 0))}
    each = [PROOF_SECONDS + items[size] * plan.sample.bytes / OTHER_PASS_BYTES_PER_SECOND for size in sizes.values()]
    return sum(each[:at_most])


def shares_of(measure: Mapping[str, Any], group: str, of_leaders: bool) -> dict[str, float]:
    """Return the share of its time that each part of a session of this group has, of the parts that it has.

    A part of the items only says what is measured with all, and is not explained.
    """
    whole = group != PART
    explains = measure["bottlenecks"] != "none" or measure["timeline"] != "none"
    asked = {RACE: True, OF_LEADERS: of_leaders, STEPS: whole and measure["steps"] != "none"}
    found = {part: SHARES[part] for part, has in {**asked, EXPLAINED: whole and explains}.items() if has}
    return {part: share / sum(found.values()) for part, share in found.items()}


def session_share(part: Any, group: str, name: str = "") -> float:
    """Return a session's share of `measure.minutes`: that of a part of the items comes first."""
    return {PART: OF_PART, MAIN: 1 - OF_PART}.get(group, 1.0) if part and name in ("", group) else 1.0


def _session_minutes(
    plan: Plan,
    group: str,
    runs: Collection[Result],
    first: Collection[Result],
    left: Collection[Result],
    items: int,
    by_name: bool,
) -> float:
    """Return the minutes that the sessions of a group take for what is left of it: those set, or the rounds asked for.

    The least rounds of each loader's quickest result are made in any case.
    """
    measure = plan.config["measure"]
    found = [result for result in left if result.group == group]
    if plan.part and group == MAIN and not found and left:  # what a part of the items chooses
        return measure["minutes"] * session_share(plan.part, group) if measure["minutes"] != "none" else 0.0
    every = [result for result in plan.results if result.group == group and result in first] or found
    count = plan.part if group == PART else items
    sessions = max((plan.sessions_left(one, by_name) for one in found), default=0)
    if measure["minutes"] != "none":
        quickest: dict[str, float] = {}
        for result in found:
            seconds = (1 if result.task in TRAINING else LEAST_ROUNDS) * _run_seconds(plan, result, count)
            quickest[result.loader] = min(seconds, quickest.get(result.loader, seconds))
        least = max(min(LEAST_SESSION_MINUTES, measure["minutes"]), sum(quickest.values()) / 60)
        asked = measure["minutes"] * session_share(plan.part, group) * len(found) / max(1, len(every))
        return sessions * max(least if found else 0.0, asked)
    repeats = {result.id: measure["train_repeats" if result.task in TRAINING else "repeats"] for result in found}
    warm = sum(repeats[result.id] * _run_seconds(plan, result, count) for result in found)
    of_leaders = [_run_seconds(plan, one, count) for one in runs if one.group == group and one not in first]
    return sessions * (warm + COLD_RUNS * sum(sorted(of_leaders)[-MOST_LEADERS:]) * bool(found)) / 60


def _dropped(plan: Plan, left: Collection[Result], items: int) -> dict[str, Any]:
    """Return `dropped` and `minutes_for_all` of the estimate: each loader's quickest result is measured in any case."""
    minutes = plan.config["measure"]["minutes"]
    if minutes == "none":
        return {"dropped": {}, "minutes_for_all": 0.0}
    dropped: dict[str, float] = {}
    for_all = float(minutes)
    for group in plan.groups:
        found = [result for result in left if result.group == group]
        of_leaders = any(one.if_leads and one.group == group for one in plan.results)
        share = shares_of(plan.config["measure"], group, of_leaders)[RACE]
        time = 60 * minutes * session_share(plan.part, group) * share
        count = plan.part if group == PART else items
        each = {one.id: LEAST_ROUNDS * _run_seconds(plan, one, count) for one in found}
        for_all = max(for_all, minutes * sum(each.values()) / time)
        slowest_first = sorted(found, key=lambda one: each[one.id], reverse=True)
        quickest = {one.loader: one.id for one in slowest_first}
        for one in slowest_first:
            if sum(each.values()) > time and one.id != quickest[one.loader]:
                dropped[one.id] = each.pop(one.id)
    return {"dropped": dropped, "minutes_for_all": for_all}


def _there(plan: Plan, stage: str, name: str) -> bool:
    return (plan.project / plan.folder(stage) / name).exists()


def run_seconds(result: Result, decodes: bool, measure: Mapping[str, Any], item_bytes: int, items: int) -> float:
    """Return the seconds of a run: its process, its first epoch where that is untimed, its window; or its epochs."""
    settings, epoch_bytes = result.settings, items * item_bytes
    if result.mode != "run":
        passes = PASSES if measure["epochs"] == "auto" else measure["epochs"] + 1
        speed = TRAINED_BYTES_PER_SECOND if result.task in TRAINING else OTHER_PASS_BYTES_PER_SECOND
        return RUN_SECONDS[settings["device"]] + max(measure["seconds"], passes * epoch_bytes / speed)
    rate = DECODED_BYTES_PER_SECOND if decodes else OTHER_PASS_BYTES_PER_SECOND
    if result.cache == "cold":
        epoch = min(epoch_bytes / rate, LONGEST_COLD_SECONDS)
        return RUN_SECONDS[settings["device"]] + max(measure["seconds"], epoch)
    held = (settings["workers"] or 0) * (settings["prefetch"] or 1) * settings["batch_size"] * item_bytes
    first = epoch_bytes / rate
    first = first if first <= FIRST_EPOCH_SECONDS and rate >= NOTICED_BYTES_PER_SECOND else 0.0
    window = max(measure["seconds"], QUEUES * held / rate)
    return RUN_SECONDS[settings["device"]] + first + window


def _run_seconds(plan: Plan, result: Result, items: int) -> float:
    return run_seconds(result, decodes(plan.loaders[result.loader]), plan.config["measure"], plan.sample.bytes, items)


def decodes(loader: ModuleType) -> bool:
    """Return whether a loader decodes what it reads."""
    return "decode" in getattr(loader, "STAGES", ())


def _download_hours(plan: Plan) -> float | None:
    """Return the hours that the source still asks for items; shards with a ledger are done."""
    hours = of_source(plan, "hours")
    if hours is None:
        return None
    folder = plan.project / plan.folder("clips")
    missing = sum(not (folder / f"ledger-{shard:04d}.csv").exists() for shard in range(plan.shards))
    return hours * missing / plan.shards
