"""Which of the results that lead is to be used, and how much slower than another of them it may be.

The report chooses by it, and a session looks for what explains the result that the report will name.

From a warm cache the files of every local tier are in memory, and two tiers differ little. There loaders are compared
over all tiers: a run with those of other loaders on the same tier in the same round. That is twice the rounds on two
tiers, and half as many to be compared.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np

from scripts.common.counting import Name
from scripts.common.statistics import CLOSE, Comparison
from scripts.decide.rounds import FINAL_ERROR, Speeds, Table
from scripts.decide.sessions import table_of

LEAST_ON_TIER = 2  # runs: single ones distinguish nothing


class Choice(NamedTuple):
    """The one of several leading results to use.

    - `form`: ``use`` (it is significantly at most CLOSE times slower than any of them, or the only ones that feed the
      user's own step are further behind), ``equal`` (each is so close) or ``noisy`` (none is; `key` is the least
      behind).
    - `behind`: how many times slower than any of them it is at most; where all are ``equal`` how many times slower
      than any other each is at most; infinite where too few rounds are shared.
    - `longer`: how many times as many rounds would make it ``use``, if all went on as so far; infinite where unknown.
    """

    key: Hashable
    form: str
    behind: float
    longer: float


def _never(_one: Hashable) -> bool:
    return False


def choose(
    table: Table,
    leading: Sequence[Hashable],
    expense: Callable[[Hashable], Any],
    starves: Callable[[Hashable], bool] = _never,
) -> Choice:
    """Return the choice among results of `table`, none of which is significantly the fastest unless it is the only one.

    Of those that are significantly at most CLOSE times slower than any other, the one with the least `expense` is
    chosen. What `starves` the user's own step is chosen only where all do: a training gains nothing from reading that
    may be faster and that it has to wait for. Where none of those that feed it is so close, it is the one the least
    behind.
    """
    if len(leading) == 1:
        return Choice(leading[0], "use", 1.0, 1.0)
    means, halves = table.among(leading)  # of the log ratios of the result in a row to that in a column
    most = np.where(np.isnan(halves), np.inf, means + halves)
    np.fill_diagonal(most, 0.0)
    behind = np.exp(most.max(axis=0))
    near = [place for place, times in enumerate(behind) if times <= CLOSE]
    hungry = [starves(one) for one in leading]
    fed = [place for place in range(len(leading)) if np.isfinite(behind[place]) and not hungry[place]]
    if fed and any(hungry):
        close = [place for place in fed if place in near]
        chosen = min(close, key=lambda place: expense(leading[place])) if close else min(fed, key=behind.__getitem__)
        return Choice(leading[chosen], "use", float(behind[chosen]), 1.0)
    if near:
        chosen = min(near, key=lambda place: expense(leading[place]))
        equal = behind.max() <= CLOSE
        return Choice(
            leading[chosen], "equal" if equal else "use", float(max(behind) if equal else behind[chosen]), 1.0
        )
    room = np.where(means < log(CLOSE), log(CLOSE) - means, np.nan)  # half lengths shrink with the root of the rounds
    longer = np.nan_to_num((halves / room) ** 2, nan=np.inf)
    np.fill_diagonal(longer, 0.0)
    chosen = int(behind.argmin())
    return Choice(leading[chosen], "noisy", float(behind[chosen]), float(longer.max(axis=0).min()))


def over_tiers(results: Mapping[Name, Speeds]) -> dict[tuple[str, str], dict[tuple[int, str], float]]:
    """Return {(loader, slug): {(round, tier): items/s}} of the settings that have two runs and more on every tier.

    Nothing where there is but one tier, or where a loader has no such settings.
    """
    tiers, loaders = {name.tier for name in results}, {name.loader for name in results}
    found: dict[tuple[str, str], dict[str, Speeds]] = {}
    for name, speeds in results.items():
        found.setdefault(name.settings, {})[name.tier] = speeds
    whole = {
        one: {(number, tier): speeds[number] for tier, speeds in on_tiers.items() for number in speeds}
        for one, on_tiers in found.items()
        if sum(len(speeds) >= LEAST_ON_TIER for speeds in on_tiers.values()) == len(tiers)
    }
    return whole if len(tiers) > 1 and {loader for loader, _ in whole} == loaders else {}


class Compared:
    """The results of one scenario: compared by themselves, and loaders over all tiers where that is asked for.

    `results` are those to compare, `every` those of all settings that were measured beside them, of which they were
    chosen: intervals are those of all. With `together` a loader over all tiers has the settings that are fastest there;
    where one was not measured on every tier with the same settings, nothing is compared so: `loaders` is None.
    """

    def __init__(
        self, results: Mapping[Name, Speeds], every: Mapping[Name, Speeds] | None = None, together: bool = False
    ) -> None:
        every = {**(every or {}), **results}
        whole = over_tiers(every) if together else {}
        self.loaders = table_of(whole, FINAL_ERROR) if whole else None
        levels = {one: self.loaders.center(one).speed for one in whole}  # as of the mean round: some left early
        first = {loader: (loader, slug) for loader, slug in sorted(whole, key=levels.__getitem__)}  # the last stays
        self.results = table_of(every, FINAL_ERROR)
        self.candidates = [*first.values()] if self.loaders else [*results]

    def compare(self, one: Name, other: Name) -> Comparison:
        """Return how many times `one` is faster than `other`: their loaders over all tiers where these are compared."""
        pair = {one.settings, other.settings}
        if self.loaders and len(pair) == 2 and pair <= self.loaders.place.keys():
            return self.loaders.compare(one.settings, other.settings)
        return self.results.compare(one, other)

    def choose(
        self, among: Iterable[Name], expense: Callable[[Name], Any], starves: Callable[[Name], bool] = _never
    ) -> tuple[Choice, list[Name]]:
        """Return the choice among these, and the others that lead, one of each loader where loaders are compared.

        Of a loader on several tiers it is the one with the least expense that is not significantly slower than on
        another, and that feeds the user's own step. Of its settings it is the fastest, or the fastest that feeds that
        step where the others starve it and are not significantly faster.
        """
        table = self.loaders or self.results
        among = {one.loader for one in among} if self.loaders else set(among)
        candidates = [one for one in self.candidates if (one[0] if self.loaders else one) in among]
        candidates = list(dict.fromkeys(self._feeding(one, starves) for one in candidates))
        leading = [one for one in candidates if not any(table.compare(other, one).faster for other in candidates)]
        shown = {
            one: min(self._not_slower(self._names(one)), key=lambda name: (starves(name), expense(name)))
            for one in leading
        }
        choice = choose(table, leading, lambda one: expense(shown[one]), lambda one: starves(shown[one]))
        first = shown.pop(choice.key)
        return choice._replace(key=first), list(shown.values())

    def _names(self, one: Any) -> list[Name]:
        """Return the results that a candidate stands for: itself, or of a loader over all tiers that on each tier."""
        return [name for name in self.results.place if name.settings == one] if self.loaders else [one]

    def _feeding(self, one: Any, starves: Callable[[Name], bool]) -> Any:
        """Return the candidate, or with other settings of its loader, on its tier, what feeds the step in its place."""
        if not all(map(starves, self._names(one))):
            return one
        table = self.loaders or self.results
        of_one = one[0] if self.loaders else one[:2]  # loader, or loader and tier
        others = [other for other in table.place if (other[0] if self.loaders else other[:2]) == of_one]
        fed = (other for other in others if not any(map(starves, self._names(other))))
        fed = [other for other in fed if not table.compare(one, other).faster]
        return max(fed, key=lambda other: table.center(other).speed, default=one)

    def _not_slower(self, names: Sequence[Name]) -> list[Name]:
        return [one for one in names if not any(self.results.compare(other, one).faster for other in names)]
