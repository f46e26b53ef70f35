"""Rows of ladder.csv: the ladder's steps, what each gained over the one below."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scripts.common.groups import key_of
from scripts.common.vocabulary import NOT_TRIED, REASONS
from scripts.decide.rounds import compare

_OF_RESULT = ("runs", "items_per_second", "interval_low", "interval_high", "status")


def rows(plan: Mapping[str, Any], ranked: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each step of the plan's ladder, from the lowest; `ranked` are the results with their
    `speeds`.

    `times_faster` is over the step below, or, where that has no speed, over the last one that has, as
    `reason` then says. Times are mean ratios within rounds with the 99 % interval of `compare`: where it holds 1,
    the two are not distinguishable.
    """
    results = {key_of(row): row for row in ranked}
    first: Mapping[str, Any] | None = None  # the lowest step
    below: tuple[int, Mapping[str, Any]] | None = None  # the last step that has a speed
    for step, entry in enumerate(plan["ladder"], start=1):
        row = {"step": step, **{key: entry[key] for key in ("change", "loader", "tier")}}
        if entry["reason"]:
            yield {**row, "runs": 0, "status": "skipped", "reason": entry["reason"]}
            continue
        result = results.get(key_of(entry))
        if result is None:  # of a broken file, whose one failure is another result's
            yield {**row, "slug": entry["slug"], "runs": 0, "status": "skipped", "reason": REASONS[NOT_TRIED].text}
            continue
        first = result if step == 1 else first
        row |= {"slug": entry["slug"], **{key: result[key] for key in _OF_RESULT}}
        if result["status"] != "ok":
            yield {**row, "reason": result["reason"]}
            continue
        gain = _gain(result, below and below[1])
        over_first = _gain(result, first)["times_faster"]
        reasons = filter(None, (result["reason"], _compared_with(step, below)))
        yield {**row, **gain, "times_faster_than_first": over_first, "reason": "; ".join(reasons)}
        below = (step, result)


def _gain(result: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, float | None]:
    """Return how many times faster a result is than another, with its interval; None where that has no speed."""
    if other is None or not other["speeds"]:
        return dict.fromkeys(("times_faster", "faster_low", "faster_high"))
    comparison = compare(result["speeds"], other["speeds"])
    return {"times_faster": comparison.ratio, "faster_low": comparison.low, "faster_high": comparison.high}


def _compared_with(step: int, below: tuple[int, Any] | None) -> str:
    """Return in words which step the gain is over, where it is not the one below."""
    if step == 1 or (below and below[0] == step - 1):
        return ""
    return f"the gain is over step {below[0]}, the last below with a speed" if below else "no step below has a speed"
