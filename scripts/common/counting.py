"""What names a result, and which of its runs count: those from which others did not take too much of the machine."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

DISTURBED_PERCENT = 15.0  # of the cores that it may use: a run from which others took more does not count


class Name(NamedTuple):
    """What names a result within one scenario."""

    loader: str
    tier: str
    slug: str

    @property
    def settings(self) -> tuple[str, str]:
        """The loader with its settings, on whatever tier."""
        return self.loader, self.slug


class Round(NamedTuple):
    """A round of one of several sessions."""

    session: str
    number: int


class Run(NamedTuple):
    """What a run gave: items/s, None where it failed, and what share of the cores that it may use others had."""

    speed: float | None
    disturbed_percent: float = 0.0


def run_of(record: Mapping[str, Any]) -> Run:
    """Return what the record of a run says of its speed and of what disturbed it; 0 where that was not measured."""
    used = record.get("resources") or {}
    return Run(record["items_per_second"], used.get("others_percent", 0.0) + used.get("stolen_percent", 0.0))


def counting(results: Mapping[Hashable, Mapping[int, Run]]) -> dict[Hashable, dict[int, float]]:
    """Return the speeds of those runs that count, {result: {round: items/s}}, of the results of one scenario.

    A run counts that lost at most 15 % of the cores that it may use to others. Where even the least disturbed run of
    some result lost more (others are always at work), that is added to the limit, for all results: they compare under
    the same conditions or not at all. What a result has done by processes that are not below its own (`works_outside`)
    is added to its limit alone.
    """
    made, outside = _with_speed(results), works_outside(results)
    least = {key: min(one.disturbed_percent for one in runs.values()) for key, runs in made.items() if runs}
    shared = _limit(max((lost for key, lost in least.items() if key not in outside), default=0.0))
    limits = {key: _limit(least[key]) if key in outside else shared for key in made}
    return {
        key: {round_number: one.speed for round_number, one in runs.items() if one.disturbed_percent <= limits[key]}
        for key, runs in made.items()
    }


def works_outside(results: Mapping[Hashable, Mapping[int, Run]]) -> set[Hashable]:
    """Return the results of one scenario beside which others were at work in every run, and not beside most others.

    Something that is no process of theirs works for them: a service, a container. At least two runs show it, where at
    least two other results have runs in the same rounds.
    """
    made, found = _with_speed(results), set()
    for key, runs in made.items():
        if len(runs) > 1 and min(one.disturbed_percent for one in runs.values()) > DISTURBED_PERCENT:
            others = made.keys() - {key}
            same = [[one.disturbed_percent for at, one in made[other].items() if at in runs] for other in others]
            quiet = [min(lost) <= DISTURBED_PERCENT for lost in same if lost]
            if len(quiet) > 1 and 2 * sum(quiet) > len(quiet):
                found.add(key)
    return found


def _with_speed(results: Mapping[Hashable, Mapping[int, Run]]) -> dict[Hashable, dict[int, Run]]:
    return {key: {at: one for at, one in runs.items() if one.speed} for key, runs in results.items()}


def _limit(least: float) -> float:
    """Return what a run may lose where the least disturbed one lost so much, in percent."""
    return DISTURBED_PERCENT + (least if least > DISTURBED_PERCENT else 0.0)
