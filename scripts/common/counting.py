"""What names a result, and which of its visits count: those from which others did not take too much of the machine."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

DISTURBED_PERCENT = 15.0  # of all cores: a visit from which others took more does not count


class Name(NamedTuple):
    """What names a result within one condition."""

    loader: str
    tier: str
    slug: str

    @property
    def settings(self) -> tuple[str, str]:
        """The loader with its settings, on whatever tier."""
        return self.loader, self.slug


class Visit(NamedTuple):
    """What a visit gave: clips/s, None where it failed, and what share of all cores others had meanwhile."""

    speed: float | None
    disturbed_percent: float = 0.0


def visit_of(record: Mapping[str, Any]) -> Visit:
    """Return what the record of a visit says of its speed and of what disturbed it; 0 where that was not measured."""
    used = record.get("resources") or {}
    return Visit(record["clips_per_second"], used.get("others_percent", 0.0) + used.get("stolen_percent", 0.0))


def counting(results: Mapping[Hashable, Mapping[int, Visit]]) -> dict[Hashable, dict[int, float]]:
    """Return the speeds of those visits that count, {result: {block: clips/s}}, of the results of one condition.

    A visit counts that lost at most 15 % of all cores to others. Where even the least disturbed visit of some result
    lost more (others are always at work), that is added to the limit, for all results: they compare under the same
    conditions or not at all.
    """
    made = {key: {block: one for block, one in visits.items() if one.speed} for key, visits in results.items()}
    least = [min(one.disturbed_percent for one in visits.values()) for visits in made.values() if visits]
    always = max(least, default=0.0)
    limit = DISTURBED_PERCENT + (always if always > DISTURBED_PERCENT else 0.0)
    return {
        key: {block: one.speed for block, one in visits.items() if one.disturbed_percent <= limit}
        for key, visits in made.items()
    }
