"""What names a result, and which of its runs count: those from which others did not take too much of the machine."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

DISTURBED_PERCENT = 15.0  # of all cores: a run from which others took more does not count


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
    """What a run gave: items/s, None where it failed, and what share of all cores others had meanwhile."""

    speed: float | None
    disturbed_percent: float = 0.0


def run_of(record: Mapping[str, Any]) -> Run:
    """Return what the record of a run says of its speed and of what disturbed it; 0 where that was not measured."""
    used = record.get("resources") or {}
    return Run(record["items_per_second"], used.get("others_percent", 0.0) + used.get("stolen_percent", 0.0))


def counting(results: Mapping[Hashable, Mapping[int, Run]]) -> dict[Hashable, dict[int, float]]:
    """Return the speeds of those runs that count, {result: {round: items/s}}, of the results of one scenario.

    A run counts that lost at most 15 % of all cores to others. Where even the least disturbed run of some result
    lost more (others are always at work), that is added to the limit, for all results: they compare under the same
    conditions or not at all.
    """
    made = {
        key: {round_number: one for round_number, one in runs.items() if one.speed} for key, runs in results.items()
    }
    least = [min(one.disturbed_percent for one in runs.values()) for runs in made.values() if runs]
    always = max(least, default=0.0)
    limit = DISTURBED_PERCENT + (always if always > DISTURBED_PERCENT else 0.0)
    return {
        key: {round_number: one.speed for round_number, one in runs.items() if one.disturbed_percent <= limit}
        for key, runs in made.items()
    }
