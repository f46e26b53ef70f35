"""Names what holds a loader back, from its speeds with parts of its work left out (measure/explain.py)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

LEAST_PERCENT = 10.0  # of the time: a part that costs less is not called the bottleneck
NAMES = {
    "storage": "storage",
    "read": "reading (from the page cache)",
    "decode": "decoding",
    "transfer": "transfer between processes",
    "host_to_device": "copy to the GPU",
    "compute": "compute",
    "python": "Python and the library itself",
    "consuming": "memory: consuming the batches",
}
WORDS = {  # the same for narrow columns; feeding: a training waits for its loader; none: no part stands out
    "storage": "storage",
    "read": "reading",
    "decode": "decoding",
    "transfer": "transfer",
    "host_to_device": "gpu copy",
    "compute": "compute",
    "python": "python",
    "consuming": "memory",
    "feeding": "feeding",
    "none": "none",
}


def costs(explained: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds a clip that each part costs, the dearest first; from speeds in clips/s.

    What is saved by leaving out that part alone. For reading, which cannot be left out alone, it is what is saved
    beyond what leaving out storage or decoding saves. `python` is what is left without any stage, less the sink.
    """
    full = 1 / explained["full"]
    times = {part: 1 / speed for part, speed in explained["without"].items()}
    consuming = 1 / explained["consuming"]
    found = {part: full - seconds for part, seconds in times.items() if part not in ("read", "everything")}
    if "read" in times:
        found["read"] = min([full, *(times[part] for part in ("storage", "decode") if part in times)]) - times["read"]
    if "everything" in times:
        found["python"] = times["everything"] - consuming
    found["consuming"] = min(consuming, full)
    return dict(sorted(((part, max(0.0, cost)) for part, cost in found.items()), key=lambda pair: -pair[1]))


def middle(explanations: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return one explanation of medians from those of several runs of a result; None of none."""
    if not explanations:
        return None
    parts = set.intersection(*(set(one["without"]) for one in explanations))
    return {
        "full": median(one["full"] for one in explanations),
        "without": {part: median(one["without"][part] for one in explanations) for part in sorted(parts)},
        "consuming": median(one["consuming"] for one in explanations),
    }


def name(explained: Mapping[str, Any]) -> tuple[str, float, str]:
    """Return (part, its share of the time in percent, the evidence in words); part is "none" where none stands out."""
    found = costs(explained)
    part, cost = next(iter(found.items()))
    percent = 100 * cost * explained["full"]
    evidence = "; ".join(_saving(part, explained, cost) for part, cost in found.items() if cost > 0)
    return (part if percent >= LEAST_PERCENT else "none"), percent, evidence


def rows(results: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of parts.csv: of each result in which it was looked for, each part with its share, dearest first.

    `clips_per_second_without` is None for what cannot be left out.
    """
    for result in results:
        explained = result["explained"]
        for part, cost in costs(explained).items() if explained else ():
            yield {
                **{key: result[key] for key in ("loader", "tier", "slug")},
                "part": part,
                "percent": 100 * cost * explained["full"],
                "clips_per_second_without": explained["without"].get(part),
            }


def _saving(part: str, explained: Mapping[str, Any], cost: float) -> str:
    percent = f"{100 * cost * explained['full']:.0f} %"
    if part in explained["without"]:
        return f"{NAMES[part]} {percent} (without: {explained['without'][part]:,.0f} clips/s)"
    return f"{NAMES[part]} {percent}"
