"""Names what the bottleneck is, from its speeds with parts of its work left out (measure/bottleneck_trials.py)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

from scripts.common.groups import names_of
from scripts.common.text import number_text, percent_text
from scripts.common.vocabulary import PARTS

LEAST_PERCENT = 10.0  # of the time: a part that costs less is not called the bottleneck
TWO_SIDED = 0.1  # the error of both sides together, where that of one is 5 %


def costs(trials: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds an item that each part costs, the most expensive first; from speeds in items/s.

    What is saved by leaving out only that part. For reading, which cannot be left out by itself, it is what is saved
    beyond what leaving out storage or decoding saves. `framework` is what is left without any stage, less the sink:
    with less to do a loader cannot take longer, so where it did, the shortest of its trials counts.
    """
    found = _differences(trials)
    return dict(sorted(((part, max(0.0, cost)) for part, cost in found.items()), key=lambda pair: -pair[1]))


def _differences(trials: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds an item that each part costs; below 0 where leaving it out took longer."""
    full, times = _seconds(trials)
    consumer = 1 / trials["consumer"]
    found = {part: full - seconds for part, seconds in times.items() if part not in ("read", "everything")}
    if "read" in times:
        found["read"] = min([full, *(times[part] for part in ("storage", "decode") if part in times)]) - times["read"]
    if "everything" in times:
        found["framework"] = min(times["everything"], _shortest(times)) - consumer
    found["consumer"] = min(consumer, full)
    return found


def _seconds(trials: Mapping[str, Any]) -> tuple[float, dict[str, float]]:
    """Return the seconds an item with nothing left out, and without each part."""
    return 1 / trials["full"], {part: 1 / speed for part, speed in trials["without"].items()}


def _shortest(times: Mapping[str, float]) -> float:
    """Return the shortest time without one of what `everything` leaves out, which keeps the copy to a GPU."""
    alone = (seconds for part, seconds in times.items() if part not in ("everything", "host_to_device"))
    return min(alone, default=times["everything"])


def name(trials: Mapping[str, Any]) -> tuple[str, float | None, str]:
    """Return (part, its share of the time in percent, the evidence in words).

    The part is "none" where none takes LEAST_PERCENT, "unclear" where none stands out for sure, and all is blank where
    nothing could be left out: then nothing is known.
    """
    if not trials["without"]:
        return "", None, ""
    found = costs(trials)
    part, cost = next(iter(found.items()))
    percent = 100 * cost * trials["full"]
    evidence = "; ".join(_saving(part, trials, cost) for part, cost in found.items() if cost > 0)
    if percent < LEAST_PERCENT:
        return "none", percent, evidence
    return (part if _stands_out(part, trials["rounds"]) else "unclear"), percent, evidence


def _stands_out(part: str, rounds: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a part costs more than each other one, and more than nothing left out differs by, for sure.

    By Student's one-sided 95 % interval of the differences within rounds.
    """
    found = [_differences(one) for one in rounds]
    again = [abs(1 / one["full"] - 1 / one["again"]) for one in rounds]
    cost = [one[part] for one in found]
    others = [[one[other] for one in found] for other in found[0] if other != part]
    return all(_surely_more(cost, other) for other in (*others, again))


def _surely_more(one: Sequence[float], other: Sequence[float]) -> bool:
    from scripts.decide.intervals import critical

    differences = [left - right for left, right in zip(one, other, strict=True)]
    half = critical(2, len(differences) - 1, TWO_SIDED) * stdev(differences) / sqrt(len(differences))
    return mean(differences) - half > 0


def rows(results: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of parts.csv: of each result in which it was looked for, each part with its share, most
    expensive first.

    `items_per_second_without` is None for what cannot be left out.
    """
    for result in results:
        trials = result["bottleneck_trials"]
        for part, cost in costs(trials).items() if trials else ():
            yield {
                **names_of(result),
                "part": part,
                "percent": 100 * cost * trials["full"],
                "items_per_second_without": trials["without"].get(part),
            }


def _saving(part: str, trials: Mapping[str, Any], cost: float) -> str:
    share = f"{PARTS[part].text} {percent_text(100 * cost * trials['full'])}"
    without = trials["without"].get(part)
    if without is None:
        return share
    return f"{share} ({number_text(without)} items/s without, {number_text(trials['full'])} with)"
