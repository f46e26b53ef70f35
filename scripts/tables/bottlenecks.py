"""Names what the bottleneck is, from its speeds with parts of its work left out (measure/bottleneck_trials.py)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from scripts.common.vocabulary import PARTS

LEAST_PERCENT = 10.0  # of the time: a part that costs less is not called the bottleneck
TARGET_AU_PERCENT = 90.0  # AU from which a training waits for its own steps alone


def costs(trials: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds a clip that each part costs, the most expensive first; from speeds in clips/s.

    What is saved by leaving out that part alone. For reading, which cannot be left out alone, it is what is saved
    beyond what leaving out storage or decoding saves. `python` is what is left without any stage, less the sink: with
    less to do a loader cannot take longer, so where it did, the shortest of its trials counts.
    """
    full, times = _seconds(trials)
    consumer = 1 / trials["consumer"]
    found = {part: full - seconds for part, seconds in times.items() if part not in ("read", "everything")}
    if "read" in times:
        found["read"] = min([full, *(times[part] for part in ("storage", "decode") if part in times)]) - times["read"]
    if "everything" in times:
        found["framework"] = min(times["everything"], _shortest(times)) - consumer
    found["consumer"] = min(consumer, full)
    return dict(sorted(((part, max(0.0, cost)) for part, cost in found.items()), key=lambda pair: -pair[1]))


def contradiction(trials: Mapping[str, Any]) -> float:
    """Return by how much the trials contradict one another, in percent of the time: something disturbed them.

    A trial cannot take longer than with nothing left out, nor with everything left out longer than with one part.
    """
    full, times = _seconds(trials)
    longer = [seconds - full for seconds in times.values()]
    if "everything" in times:
        longer.append(times["everything"] - _shortest(times))
    return 100 * max(0.0, *longer) / full if longer else 0.0


def _seconds(trials: Mapping[str, Any]) -> tuple[float, dict[str, float]]:
    """Return the seconds a clip with nothing left out, and without each part."""
    return 1 / trials["full"], {part: 1 / speed for part, speed in trials["without"].items()}


def _shortest(times: Mapping[str, float]) -> float:
    """Return the shortest time without one of what `everything` leaves out, which keeps the copy to a GPU."""
    alone = (seconds for part, seconds in times.items() if part not in ("everything", "host_to_device"))
    return min(alone, default=times["everything"])


def middle(explanations: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return one explanation of medians from those of several runs of a result; None of none."""
    if not explanations:
        return None
    parts = set.intersection(*(set(one["without"]) for one in explanations))
    return {
        "full": median(one["full"] for one in explanations),
        "without": {part: median(one["without"][part] for one in explanations) for part in sorted(parts)},
        "consumer": median(one["consumer"] for one in explanations),
    }


def name(trials: Mapping[str, Any]) -> tuple[str, float | None, str]:
    """Return (part, its share of the time in percent, the evidence in words).

    The part is "none" where none stands out, "unclear" where the trials contradict one another by more than it costs,
    and all is blank where nothing could be left out: then nothing is known.
    """
    if not trials["without"]:
        return "", None, ""
    found = costs(trials)
    part, cost = next(iter(found.items()))
    percent = 100 * cost * trials["full"]
    evidence = "; ".join(_saving(part, trials, cost) for part, cost in found.items() if cost > 0)
    against = contradiction(trials)
    if against >= LEAST_PERCENT:
        evidence += f"; its trials contradict one another by {against:.0f} % of the time: they were disturbed"
    if percent < LEAST_PERCENT:
        return "none", percent, evidence
    return (part if percent > against else "unclear"), percent, evidence


def rows(results: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of parts.csv: of each result in which it was looked for, each part with its share, most
    expensive first.

    `clips_per_second_without` is None for what cannot be left out.
    """
    for result in results:
        trials = result["bottleneck_trials"]
        for part, cost in costs(trials).items() if trials else ():
            yield {
                **{key: result[key] for key in ("loader", "tier", "slug")},
                "part": part,
                "percent": 100 * cost * trials["full"],
                "clips_per_second_without": trials["without"].get(part),
            }


def _saving(part: str, trials: Mapping[str, Any], cost: float) -> str:
    share = f"{PARTS[part].text} {100 * cost * trials['full']:.0f} %"
    without = trials["without"].get(part)
    return share if without is None else f"{share} (without: {without:,.0f} clips/s)"
