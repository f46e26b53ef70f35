"""Which result is run when: rounds in random order, runs made again where disturbed, who leaves, when to stop.

It knows no process and no file but what it is given, so that tests can play a session with planted speeds. In a round
each live result is run once, with runs of the control run between. What differs between rounds is the machine,
what differs within one is the loader: results are compared within rounds (scripts/decide/rounds.py).
"""

import random
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from scripts.common.counting import DISTURBED_PERCENT, Name, Run, counting
from scripts.decide.choice import over_tiers
from scripts.decide.intervals import FAR
from scripts.decide.rounds import FINAL_ERROR, Table, ending_error, lagging

LEAST_ROUNDS = 3  # before anything is concluded
ALL_STAY_ROUNDS = 6  # until then only what is FAR behind leaves: the slow ones are to be distinguished too
FIRST_SHARE = 0.6  # of the time, for the first round
LEAST_KNOWN, LOW_PACE = 5, 0.5  # results that were run, before their pace counts; and what it is before
CONTROLS = 2  # runs of the control run in a round
BEHIND_SHARE = 0.2  # of the time, for runs of those that left: which of them is the faster is asked too
ALONE_SHARE = 0.8  # the same once nobody else is left to compare with: runs of one alone tell nothing


@dataclass
class Limits:
    """When a session ends: after so many seconds, or rounds, whichever is given."""

    seconds: float | None
    rounds: int | None = None  # as many for each result, and nobody leaves early
    resolution: float = 0.05  # differences that do not matter
    attempts: int = 4  # of a disturbed run in a round, at most; the least disturbed one is kept
    least: int = LEAST_ROUNDS  # runs of each result, however long they take; 0: the time ends it at any time


@dataclass
class Race:
    """A session of rounds. `scenarios` maps each result to the scenario within which alone results compare.

    `measure(result, round_number, attempt)` makes one run, `control(round_number, number)` one of the control run;
    `accept(result, round_number, attempt)` makes an attempt the one that is kept. `say(race)` is called after each run.
    `keep` stay until they are far behind. `made` may hold what an earlier call of the session measured; `first_round`
    is the next.
    `names` are those of results whose data is in memory on every tier: loaders are compared over all tiers too
    (decide/choice.py). `places` are what results read, where memory cannot hold all of it: in a round the runs of one
    place come together. `optional(race)` are those that are dropped where the least rounds have no time for them, in
    their order; `expected` is how many seconds a run of each takes, until it was run.
    """

    scenarios: Mapping[Hashable, Hashable]
    measure: Callable[[Hashable, int, int], Run]
    control: Callable[[int, int], None]
    accept: Callable[[Hashable, int, int], None]
    clock: Callable[[], float]
    limits: Limits
    chance: random.Random
    say: Callable[["Race"], None] = lambda _race: None
    keep: Collection[Hashable] = ()
    made: dict[Hashable, dict[int, Run]] = field(default_factory=dict)
    first_round: int = 0
    most_runs: Mapping[Hashable, int] = field(default_factory=dict)  # of results that are run less often
    names: Mapping[Hashable, Name] = field(default_factory=dict)
    places: Mapping[Hashable, Hashable] = field(default_factory=dict)
    optional: Callable[["Race"], Sequence[Hashable]] = lambda _race: ()
    expected: Mapping[Hashable, float] = field(default_factory=dict)
    dropped: list[Hashable] = field(default_factory=list)
    live: list[Hashable] = field(default_factory=list)
    failed: set[Hashable] = field(default_factory=set)
    round_number: int = 0
    runs: int = 0
    made_again: int = 0
    began: float = 0.0
    ended: str = ""
    took: dict[Hashable, float] = field(default_factory=dict)  # seconds, in the last round that each was in
    saved: float = 0.0  # seconds, for runs of those that left

    def run(self) -> str:
        """Take the session to its end; return why it ended: `time`, `rounds`, `resolved` or `nothing to measure`."""
        self.began = self.clock()
        self.live = list(self.scenarios)
        self.round_number = self.first_round
        while not self.ended:
            todo = [one for one in self.live if self._wanted(one)]
            if not todo:
                self.ended = "rounds" if self.runs else "nothing to measure"
                break
            began = self.seconds
            returning = self._returning()
            self._one_round(todo + returning)
            share = ALONE_SHARE if self._alone() else BEHIND_SHARE
            self.saved += share * (self.seconds - began) - sum(self.took[one] for one in returning)
            self.round_number += 1
            if not self.ended:
                self._look()
        return self.ended

    @property
    def looks(self) -> int:
        """How many whole rounds this session has had."""
        return self.round_number - self.first_round

    @property
    def seconds(self) -> float:
        """Since the session began."""
        return self.clock() - self.began

    def _wanted(self, one: Hashable) -> bool:
        """Return whether it is run in the next round; when the time is up one run is enough of `most_runs`."""
        most = self.most_runs.get(one, self.limits.rounds)
        if one in self.most_runs and self._late():
            most = 1
        return one not in self.failed and (most is None or self._had(one) < most)

    def _drop(self) -> None:
        """Let those go for which the least rounds have no time.

        In the first round each has one run, if that takes no more than its share of the time: which of a loader's
        settings is the faster is not known before.
        """
        first = self.looks == 0
        if self.limits.seconds is None or self.looks >= self.limits.least or self._slack(first) >= 0:
            return
        for one in self.optional(self):
            if one in self.live:
                self.live.remove(one)
                self.dropped.append(one)
                if self._slack(first) >= 0:
                    return

    def _slack(self, first: bool = False) -> float:
        """Return the seconds that are left beside the least rounds of all that are in the race, or the `first` one."""
        pace, share = self._pace(), FIRST_SHARE if first else 1.0
        missing = sum(
            max(0, (1 if first else self.least(one)) - self._had(one)) * self._takes(one, pace) for one in self.live
        )
        return share * self.limits.seconds - self.seconds - missing

    def _takes(self, one: Hashable, pace: float = 1.0) -> float:
        """Return how many seconds a run takes: as it did, or as is expected of a machine of this `pace`."""
        return self.took.get(one, pace * self.expected.get(one, 0.0))

    def _pace(self) -> float:
        """Return how many times as long as was expected the runs have taken, once some have: the first starts servers.

        Until then it is thought to be low, for what is dropped has no number at all.
        """
        known = [one for one in self.took if one in self.expected]
        expected = sum(self.expected[one] for one in known)
        return sum(self.took[one] for one in known) / expected if len(known) >= LEAST_KNOWN and expected else LOW_PACE

    def _had(self, one: Hashable) -> int:
        """Return how many runs a result has had."""
        return len(self.made.get(one, ()))

    def _alone(self) -> bool:
        """Return whether in each scenario one result that is still run is left, or one loader's on all tiers."""
        left: dict[Hashable, set[Hashable]] = {}
        for one in filter(self._wanted, self.live):
            settings = self.names[one].settings if one in self.names else one
            left.setdefault(self.scenarios[one], set()).add(settings)
        return all(len(settings) == 1 for settings in left.values())

    def _returning(self) -> list[Hashable]:
        """Return who left and comes back for a round: all of them, as often as their share of the time allows."""
        left = [one for one in self.scenarios if one in self.took and one not in self.live and self._wanted(one)]
        if not left:
            self.saved = 0.0
        return left if sum(self.took[one] for one in left) <= self.saved else []

    def _one_round(self, todo: Sequence[Hashable]) -> None:
        """Run each once; what was disturbed comes again when the others have been run, since bursts last."""
        order: deque[Hashable | None] = deque(self._ordered(todo))
        for number in range(CONTROLS):  # spread evenly
            order.insert(round((number + 0.5) * len(order) / CONTROLS), None)
        controls = 0
        made: dict[Hashable, list[Run]] = {}
        while order and not self._time_is_up(order[0]):
            one = order.popleft()
            if self._has_no_time_for(one):
                continue
            if one is None:
                self.control(self.round_number, controls)
                controls += 1
            else:
                attempts, began = made.setdefault(one, []), self.clock()
                attempts.append(self.measure(one, self.round_number, len(attempts)))
                self.took[one] = self.clock() - began + (self.took[one] if attempts[1:] else 0.0)
                if self._again(attempts):
                    self._put_back(one, order)
                else:
                    self._accept(one, made.pop(one))
            self.say(self)
        for one, attempts in made.items():
            self._accept(one, attempts)
        if order:
            self.ended = "time"

    def _has_no_time_for(self, one: Hashable | None) -> bool:
        """Return whether what would be run next, or is to be run again, is dropped for lack of time."""
        self._drop()
        return one in self.dropped and self.looks < self.limits.least

    def _ordered(self, todo: Sequence[Hashable]) -> list[Hashable]:
        """Return them in a random order, in which those of a place stand together."""
        order = self.chance.sample(todo, len(todo))
        if not self.places:
            return order
        blocks: dict[Hashable, list[Hashable]] = {}
        for one in order:
            blocks.setdefault(self._place(one), []).append(one)
        return [one for place in self.chance.sample([*blocks], len(blocks)) for one in blocks[place]]

    def _put_back(self, one: Hashable, order: deque[Hashable | None]) -> None:
        """Have it run again behind all that are left of its place."""
        same = [n for n, other in enumerate(order) if other is not None and self._place(other) == self._place(one)]
        order.insert(same[-1] + 1 if same else 0 if self.places else len(order), one)

    def _place(self, one: Hashable) -> Hashable:
        return self.places.get(one)

    def _late(self) -> bool:
        return self.limits.seconds is not None and self.seconds >= self.limits.seconds

    def _time_is_up(self, following: Hashable | None) -> bool:
        """Return whether no run follows; where there is no least number, also not one that would end too late."""
        if not self.limits.least and self.limits.seconds is not None:
            return self.seconds + self._takes(following) > self.limits.seconds
        return self._late() and (self.looks >= self.limits.least or self._all_have_enough())

    def _all_have_enough(self) -> bool:
        """Return whether all have their least runs, as in a session that goes on when its time is up."""
        return all(self._had(one) >= self.least(one) for one in self.live if one not in self.failed)

    def least(self, one: Hashable) -> int:
        """Return how many runs a result has however short the session is."""
        return min(1 if one in self.most_runs else LEAST_ROUNDS, self.limits.least)

    def _again(self, attempts: Sequence[Run]) -> bool:
        """Return whether a run is made again: by what disturbed it, before any speed is looked at.

        Only in time that the least rounds leave.
        """
        last = attempts[-1]
        disturbed = last.speed is not None and last.disturbed_percent > DISTURBED_PERCENT
        spare = self.limits.seconds is None or self._slack() > 0
        return disturbed and len(attempts) < self.limits.attempts and spare

    def _accept(self, one: Hashable, attempts: Sequence[Run]) -> None:
        """Keep the least disturbed attempt, or the one that failed."""
        failed = attempts[-1].speed is None
        shares = [run.disturbed_percent for run in attempts]
        kept = len(attempts) - 1 if failed else shares.index(min(shares))
        self.runs += 1
        self.made_again += len(attempts) - 1
        if failed:
            self.failed.add(one)
            self.made.pop(one, None)
        else:
            self.made.setdefault(one, {})[self.round_number] = attempts[kept]
        self.accept(one, self.round_number, kept)

    def speeds(self) -> list[dict[Hashable, dict[int, float]]]:
        """Return the items/s of the runs that count by result and round, for each scenario, of what has any."""
        grouped: dict[Hashable, dict[Hashable, dict[int, Run]]] = {}
        for one, runs in self.made.items():
            if one in self.scenarios:
                grouped.setdefault(self.scenarios[one], {})[one] = runs
        return [{one: speeds for one, speeds in counting(same).items() if speeds} for same in grouped.values()]

    def leaders(self) -> list[tuple[Table, list[Hashable]]]:
        """Return the table of each scenario, and the results in it than which none is significantly faster."""
        tables = [Table(speeds, FINAL_ERROR) for speeds in self.speeds()]
        return [(table, table.leading()) for table in tables]

    def _look(self) -> None:
        """After a round: let those leave that are no answer to any goal, and stop where nothing is left to find out."""
        if self.limits.rounds is not None or self.looks < LEAST_ROUNDS:
            return
        resolved = True
        for speeds in self.speeds():
            of_unit = self._units(speeds)
            racing = {
                unit: found
                for unit, found in of_unit.items()
                if len(found) >= LEAST_ROUNDS and any(one in self.live for one in self._results(unit, speeds))
            }
            out = {one for unit in self._leaving(racing) for one in self._results(unit, speeds)}
            self.live = [one for one in self.live if one not in out]
            resolved = resolved and self._resolved(of_unit)
        if resolved and self.looks >= ALL_STAY_ROUNDS:
            self.ended = "resolved"

    def _units(self, speeds: Mapping[Hashable, Mapping[int, float]]) -> Mapping[Hashable, Mapping[int, float]]:
        """Return what is compared of a scenario: loaders with their settings over all tiers, or else its results."""
        named = {self.names[one]: found for one, found in speeds.items() if one in self.names}
        return (over_tiers(named) if len(named) == len(speeds) else {}) or speeds

    def _results(self, unit: Hashable, speeds: Collection[Hashable]) -> list[Hashable]:
        """Return the results that a unit is made of."""
        if unit in speeds:
            return [unit]
        return [one for one in speeds if self.names[one].settings == unit]

    def _resolved(self, speeds: Mapping[Hashable, Mapping[int, float]]) -> bool:
        """Return whether one leads, or those that lead are significantly equal within what matters.

        That one leads ends the session only with as little error as a look may spend: a session that ended with the
        first difference that its last table shows would have looked for one after each round.
        """
        error = ending_error(self.looks - LEAST_ROUNDS + 1)
        if error and len(Table(speeds, error).leading()) == 1:
            return True
        table = Table(speeds, FINAL_ERROR)
        first = table.leading()
        pairs = [(a, b) for n, a in enumerate(first) for b in first[:n]]
        return bool(pairs) and all(table.equal(a, b, self.limits.resolution) for a, b in pairs)

    def _leaving(self, racing: Mapping[Hashable, Mapping[int, float]]) -> set[Hashable]:
        """Return who leaves: what is far behind, and later all that is behind by more than the resolution."""
        late, kept = self.looks >= ALL_STAY_ROUNDS, {self.names[one].settings for one in self.keep if one in self.names}
        matters = 1 + self.limits.resolution
        return {
            one
            for one, times in lagging(racing, self.looks - LEAST_ROUNDS + 1).items()
            if times > FAR or (late and times > matters and one not in self.keep and one not in kept)
        }
