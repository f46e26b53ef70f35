"""Which of the results that lead is to be used, and how much slower than another of them it may be.

The report chooses by it, and a session looks for what explains the result that the report will name.

What may be used is one of each loader, the fastest of its settings. It is chosen by its speed, so intervals are those
of all settings at once. From a warm cache the files of every local tier are in memory: there a loader's speed in a
round is the geometric mean of its runs on all tiers. Two tiers of a round are one round, for what slows a loader slows
it on both.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np

from scripts.common.counting import Name
from scripts.common.statistics import CLOSE, Comparison
from scripts.decide.intervals import intervals, lag, levels
from scripts.decide.rounds import FINAL_ERROR, OF_TWO, Speeds, Table
from scripts.decide.sessions import table_of

LEAST_ON_TIER = 2  # rounds with all tiers: single ones distinguish nothing
MORE = (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 9)  # times as many rounds again: more are not within reason
LEAST_TO_DRAW = 3  # rounds, to draw others from
DRAWS, SETTLED = 60, 0.75  # sessions that are drawn, and the share of them that must be settled


class Choice(NamedTuple):
    """The one of several leading results to use.

    - `form`: ``use`` (it is significantly at most CLOSE times slower than any other), ``equal`` (each that leads is so
      close) or ``noisy`` (none is; `key` is the least behind).
    - `behind`: how many times slower than any other it is at most; where all are ``equal`` how many times slower each
      is at most; infinite where too few rounds are shared.
    """

    key: Hashable
    form: str
    behind: float


def choose(
    table: Table,
    leading: Sequence[Hashable],
    expense: Callable[[Hashable], Any],
    among: Iterable[Hashable] | None = None,
) -> Choice:
    """Return the choice among results of `table`, none of which is significantly the fastest unless it is the only one.

    Of those that are significantly at most CLOSE times slower than any of `among` (default: `leading`), the one with
    the least `expense` is chosen; where none is so close, the one the least behind.
    """
    others = leading if among is None else [*among]
    behind = {one: table.behind(one, others) for one in leading}
    near = [one for one in leading if behind[one] <= CLOSE]
    chosen = min(near, key=expense) if near else min(leading, key=behind.__getitem__)
    most = max(behind.values())
    if len(leading) > 1 and most <= CLOSE:
        return Choice(chosen, "equal", most)
    return Choice(chosen, "use" if near or len(leading) == 1 else "noisy", behind[chosen])


def over_tiers(results: Mapping[Name, Speeds]) -> dict[tuple[str, str], dict[int, float]]:
    """Return {(loader, slug): {round: items/s}}, the geometric mean over tiers, of the rounds that have all of them.

    Settings have two such rounds and more. Nothing where there is but one tier, or where a loader has no such settings.
    """
    tiers, loaders = {name.tier for name in results}, {name.loader for name in results}
    found: dict[tuple[str, str], list[Speeds]] = {}
    for name, speeds in results.items():
        found.setdefault(name.settings, []).append(speeds)
    whole = {}
    for settings, on_tiers in found.items():
        shared = set(on_tiers[0]).intersection(*on_tiers[1:]) if len(on_tiers) == len(tiers) else set()
        if len(shared) >= LEAST_ON_TIER:
            whole[settings] = {
                number: float(np.exp(np.mean([log(speeds[number]) for speeds in on_tiers])))
                for number in sorted(shared)
            }
    return whole if len(tiers) > 1 and {loader for loader, _ in whole} == loaders else {}


class Compared:
    """The results of one scenario: compared by themselves, and loaders over all tiers with `together`.

    `results` are those to compare, `every` those of all settings that were measured beside them, of which they were
    chosen: intervals are those of all. With `together` a loader over all tiers has the settings that are fastest there;
    where one was not measured on every tier with the same settings, nothing is compared so: `loaders` is None.
    """

    def __init__(
        self, results: Mapping[Name, Speeds], every: Mapping[Name, Speeds] | None = None, together: bool = False
    ) -> None:
        every = {**(every or {}), **results}
        whole = over_tiers(every) if together else {}
        error = OF_TWO if whole else FINAL_ERROR
        self.loaders = table_of(whole, error) if whole else None
        speeds = {one: self.loaders.center(one).speed for one in whole}  # as of the mean round: some left early
        first = {loader: (loader, slug) for loader, slug in sorted(whole, key=speeds.__getitem__)}  # the last stays
        self.results = table_of(every, error)
        self.candidates = [*first.values()] if self.loaders else [*results]

    def compare(self, one: Name, other: Name) -> Comparison:
        """Return how many times `one` is faster than `other`: their loaders over all tiers where these are compared."""
        pair = {one.settings, other.settings}
        if self.loaders and len(pair) == 2 and pair <= self.loaders.place.keys():
            return self.loaders.compare(one.settings, other.settings)
        return self.results.compare(one, other)

    def choose(self, among: Iterable[Name], expense: Callable[[Name], Any]) -> tuple[Choice, list[Name]]:
        """Return the choice among these, and the others that lead, one of each loader where loaders are compared.

        Of a loader on several tiers it is the one with the least expense that is not significantly slower than on
        another. Of its settings it is the fastest.
        """
        table, candidates = self._among(among)
        shown = {one: min(self._not_slower(self._names(one)), key=expense) for one in table.leading(candidates)}
        settings = (other for one in candidates for other in self._settings(one))
        choice = choose(table, [*shown], lambda one: expense(shown[one]), settings)
        first = shown.pop(choice.key)
        return choice._replace(key=first), list(shown.values())

    def behind(self, one: Name, among: Iterable[Name]) -> float:
        """Return how many times slower than the fastest of these a result is at most, with all their settings."""
        table, candidates = self._among(among)
        every = [other for candidate in candidates for other in self._settings(candidate)]
        return table.behind(one.settings if self.loaders else one, every)

    def rounds_to_settle(self, among: Iterable[Name]) -> int | None:
        """Return after how many more rounds one of these is likely to be a choice; None where no number would do."""
        table, candidates = self._among(among)
        return rounds_to_settle(table, candidates, [other for one in candidates for other in self._settings(one)])

    def _among(self, among: Iterable[Name]) -> tuple[Table, list[Any]]:
        """Return the table that decides, and the candidates of it that stand for these results."""
        if self.loaders is None:
            keys = set(among)
            return self.results, [one for one in self.candidates if one in keys]
        loaders = {one.loader for one in among}
        return self.loaders, [one for one in self.candidates if one[0] in loaders]

    def _settings(self, one: Any) -> list[Any]:
        """Return what a candidate was chosen from: all settings of its loader, or of its loader on its tier."""
        return [other for other in (self.loaders or self.results).place if other[:-1] == one[:-1]]

    def _names(self, one: Any) -> list[Name]:
        """Return the results that a candidate stands for: itself, or of a loader over all tiers that on each tier."""
        return [name for name in self.results.place if name.settings == one] if self.loaders else [one]

    def _not_slower(self, names: Sequence[Name]) -> list[Name]:
        return [one for one in names if not any(self.results.compare(other, one).faster for other in names)]


def rounds_to_settle(
    table: Table, candidates: Sequence[Hashable], among: Collection[Hashable] | None = None
) -> int | None:
    """Return how many more rounds are likely to leave one of the candidates at most CLOSE times slower than any other.

    `among`: those it is compared with, default: all. 0 where one is so close already; None where at most ten times the
    rounds would not do in SETTLED of the sessions drawn, and below three rounds. A session is drawn from the recorded
    rounds: these, and more that each have the levels found and what one of them has besides (Efron 1979).
    """
    count = table.logs.shape[-1]
    places = [table.place[one] for one in dict.fromkeys([*candidates, *(table.place if among is None else among)])]
    wanted = slice(len(candidates))
    if lag(table.ahead[np.ix_(places, places)])[wanted].min() <= log(CLOSE):
        return 0
    if count < LEAST_TO_DRAW:
        return None
    rest = table.logs - levels(table.logs)[:, None]
    middle = np.nanmedian(rest, axis=0)
    own = rest - middle
    own = np.sqrt(count / (count - 1)) * (own - np.nanmean(own, axis=1, keepdims=True))
    rounds, chance = levels(table.logs)[:, None] + middle + own, np.random.default_rng(count)
    for more in dict.fromkeys(ceil(count * times) for times in MORE):
        drawn = rounds[:, chance.integers(count, size=(DRAWS, more))].swapaxes(0, 1)  # (draws, results, more)
        logs = np.concatenate([np.broadcast_to(table.logs, (DRAWS, *table.logs.shape)), drawn], axis=-1)
        ahead = intervals(logs, table.error)[2][:, places][:, :, places]
        if (lag(ahead)[:, wanted].min(axis=1) <= log(CLOSE)).mean() >= SETTLED:
            return more
    return None
