"""How long a session will take, told before it runs: from the times of earlier measurements, else from assumptions.

What has its record already counts as done. Only file times are read, never a record: the Snakefile asks at each start.
"""

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from scripts.common import plugins
from scripts.common.files import read_json
from scripts.common.vocabulary import SPLIT, TRAINING
from scripts.plan.experiment import Bound, Plan, Run

# Assumptions, for what has no earlier time: those of a machine with four cores and an SSD.
START_SECONDS = {"lightning": 10.0, "tensors": 20.0}  # of a fresh process, with its imports; of any other:
OTHER_START_SECONDS = 4.0
SEARCH_SECONDS = 5.0  # for the bottleneck and the minimum step time, where they are looked for
EPOCHS = 4  # the verify epoch, two timed ones, and one for what comes before and after
PASS_BYTES_PER_SECOND = {"read": 1e9, "iterate": 1e9, "train": 80e6, "lightning": 80e6}  # of float32 audio
COPY_BYTES_PER_SECOND = 100e6  # of decoding, of writing a format, of a copy on a tier
PROFILE_MEASUREMENTS = 12  # of fio on a tier, each `measure.profile_seconds` long
CLIPS = 1000  # of a data set of unknown size

LEAST_TIMES = 3  # earlier times of one kind that are worth a median
LEAST_SECONDS = 0.5  # a fresh process takes longer: files closer together were copied


@dataclass(frozen=True)
class Estimate:
    """What a session has to do, and how long it is thought to take."""

    measurements: int  # planned
    left: int  # of these, without a record
    minutes: float  # of all that is left but the download
    download_hours: float | None  # at the pace that the source allows; None where nothing is downloaded
    clips: int
    reckoned_from: str

    def words(self) -> str:
        """Return it as a line for the terminal."""
        if not self.left:
            return f"All {self.measurements:,} measurements are there."
        hours = self.download_hours
        loading = f"Download: about {in_words(60 * hours)} at the configured pace. " if hours else ""
        return (
            f"{loading}Measurements: {self.left:,} of {self.measurements:,} to go, about {in_words(self.minutes)} with "
            f"preparation, reckoned from {self.reckoned_from}."
        )

    def as_json(self) -> dict[str, Any]:
        """Return what plan.json holds of it."""
        return {**asdict(self), "minutes": round(self.minutes, 1)}


def in_words(minutes: float) -> str:
    """Return a time in the largest unit of which there are two."""
    for unit, length in (("days", 24 * 60), ("h", 60)):
        if minutes >= 2 * length:
            return f"{minutes / length:.1f} {unit}"
    return f"{max(1, round(minutes))} min"


def estimate(plan: Plan, loaders: Collection[str] = ()) -> Estimate:
    """Return how long what the plan lists, and has no record, will take; only of `loaders`, where some are given."""
    earlier = earlier_seconds(plan)
    runs = [run for run in plan.runs if run.loader in (loaders or plan.loaders)]
    items = runs if loaders else [*runs, *plan.bounds, *plan.tensors]
    left = Counter(_kind(item) for item in items if not (plan.project / item.path).exists())
    clips, counted = _clips(plan)
    clip_bytes = plan.sample.bytes
    searched = Counter(_kind(run) for run in runs if run.bottlenecks)
    seconds = 0.0
    for kind, count in left.items():
        share = searched[kind] / count if count else 0.0
        seconds += count * earlier.get(kind, _assumed_seconds(plan, kind, clips * clip_bytes, min(1.0, share)))
    copies, profiles = _to_prepare(plan, {run.format for run in runs})
    seconds += copies * clips * clip_bytes / COPY_BYTES_PER_SECOND
    seconds += (0 if loaders else profiles) * PROFILE_MEASUREMENTS * plan.config["measure"]["profile_seconds"]
    known = [kind for kind in left if kind in earlier]
    parts = [f"the times of earlier measurements of {plan.dataset}"] if known else []
    if assumed := [kind for kind in left if kind not in earlier]:
        of = f" for {', '.join(assumed)}" if known else ""
        size = f"{clips:,} clips" if counted else f"{clips:,} clips, since their number is not known yet"
        parts.append(f"assumptions{of} (no earlier times; {size}; docs/measuring.md)")
    hours = _download_hours(plan)
    return Estimate(len(items), left.total(), seconds / 60, hours, clips, " and from ".join(parts))


def earlier_seconds(plan: Plan) -> dict[str, float]:
    """Return the median seconds of one measurement by its kind, from when the records of this data set were written.

    Measurements follow one another, so the time from one record to the next is that of a whole measurement, with the
    start of its process. Pauses and what is copied in between are longer; a median passes over them.
    """
    root = plan.project / plan.folder("runs")
    written = sorted(
        (path.stat().st_mtime, _kind_of_path(path.relative_to(root).parts)) for path in root.glob("*/*/*/*.json")
    ) + sorted((path.stat().st_mtime, "tensors") for path in root.glob("tensors/*/*.json"))
    longest = 60 * plan.config["measure"]["limit_minutes"]
    times: dict[str, list[float]] = defaultdict(list)
    for (before, _), (after, kind) in itertools.pairwise(sorted(written)):
        if LEAST_SECONDS <= after - before <= longest:
            times[kind].append(after - before)
    return {kind: statistics.median(found) for kind, found in times.items() if len(found) >= LEAST_TIMES}


def _kind(item: Run | Bound) -> str:
    return item.task if isinstance(item, Run) else item.bound


def _kind_of_path(parts: tuple[str, ...]) -> str:
    """Return the kind of a record by its path: bounds/BOUND/SLUG/REPEAT.json or TIER/LOADER/SLUG/REPEAT.json."""
    if parts[0] == "bounds":
        return parts[1]
    return next((part for part in parts[2].split("-") if part in ("iterate", *TRAINING)), "read")


def _assumed_seconds(plan: Plan, kind: str, epoch_bytes: int, searched: float) -> float:
    """Return the seconds of one measurement of a kind, where a share of them, `searched`, looks for the bottleneck."""
    measure = plan.config["measure"]
    epochs = EPOCHS if measure["epochs"] == "auto" else measure["epochs"] + 1
    reading = epochs * epoch_bytes / PASS_BYTES_PER_SECOND.get(kind, PASS_BYTES_PER_SECOND["read"])
    timed = max(reading, measure["seconds"]) if kind != "tensors" else 0.0
    return START_SECONDS.get(kind, OTHER_START_SECONDS) + timed + searched * (SEARCH_SECONDS + timed)


def _to_prepare(plan: Plan, formats: Collection[str]) -> tuple[int, int]:
    """Return (copies of the data set that are to be made: corpus, formats, tiers; tiers that are to be profiled)."""
    files = [f"{plan.folder('corpus')}/corpus.json"]
    files += [f"{plan.folder('formats')}/{name}.json" for name in formats]
    files += [f"{plan.folder('placed')}/{tier}/{name}.json" for tier in plan.tiers for name in formats]
    profiles = [f"{plan.folder('placed')}/{tier}.json" for tier in plan.tiers]
    return tuple(sum(not (plan.project / file).exists() for file in kind) for kind in (files, profiles))


def _clips(plan: Plan) -> tuple[int, bool]:
    """Return (clips of an epoch, whether that is more than an assumption): of the corpus, else what the source says."""
    info = plan.project / plan.folder("corpus") / "corpus.json"
    if info.is_file():
        return read_json(info)["clips"][SPLIT], True
    expected = _of_source(plan, "expected")
    if expected is None:
        return CLIPS, False
    return round(expected * (1 - plan.config["split"]["validation"])), True


def _download_hours(plan: Plan) -> float | None:
    """Return the hours that the source still asks for clips; shards with a ledger are done."""
    hours = _of_source(plan, "hours")
    if hours is None:
        return None
    folder = plan.project / plan.folder("clips")
    missing = sum(not (folder / f"ledger-{shard}.csv").exists() for shard in plan.shard_names)
    return hours * missing / plan.shards


def _of_source(plan: Plan, name: str) -> Any:
    """Return what an optional function of the source says of its options, or None."""
    function = getattr(plugins.load("sources", plan.source), name, None)
    return function(plan.options) if function else None
