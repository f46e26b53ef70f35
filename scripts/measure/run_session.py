"""Measures the proven results of a session in rounds, one run after the other, until the time is up.

    python -m scripts.measure.run_session --plan PLAN.json --session main --out results/runs/demo/session-main.json

Each run leaves a record in the session's own folder (scripts/common/facts.py). What was stopped or killed goes on
from its records; what was measured otherwise stays where it is. Of `measure.sessions` the missing ones are measured,
one after the other, each with files placed anew and processes of its own: a file keeps its blocks and pages, and with
them a speed, for as long as it lies where it is.
"""

import argparse
import contextlib
import os
import platform
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from scripts.common import facts, sample
from scripts.common.counting import Name, Run, run_of
from scripts.common.errors import UserError, nearest, run_main
from scripts.common.files import read_json, write_json
from scripts.common.location import from_json
from scripts.common.plan_file import read_plan
from scripts.common.serving import serving
from scripts.common.vocabulary import COLD, SPLIT, TRAINING, ranks_of
from scripts.decide.sessions import Round
from scripts.machine import devices, host
from scripts.machine.cores import cores_allowed
from scripts.measure import one_run
from scripts.measure.place_anew import place_anew
from scripts.measure.race import LEAST_ROUNDS, Limits, Race
from scripts.measure.runner import Runner
from scripts.plan.estimate import (
    EXPLAINED,
    OF_LEADERS,
    RACE,
    SHARES,
    STEPS,
    decodes,
    run_seconds,
    session_share,
    shares_of,
)
from scripts.plan.experiment import MAIN
from scripts.plan.planned import Planned
from scripts.plan.results import COLD_RUNS, MOST_LEADERS, Result
from scripts.tables.records import whole_file
from scripts.tables.write_tables import verdict_of

BOUNDS = "bounds"  # the folder of a session's control runs
LENGTHEN = ("minutes", "resolution", "repeats", "train_repeats")  # keys of `measure` that say how long a race is
START_WITHIN = (10.0, 3.0, 3.0)  # seconds for which a result's first, second, third window goes on for an epoch start
LEAST_TRIALS_SECONDS = 10.0  # for trials with steps, and for what explains, where the least rounds took all the time
HOPELESS, SLOWEST_BATCH_MS = 4.0, 2000.0  # of a batch, in times of the own step, and in all: not tried beyond
SAME_BATCH = 1.25  # times that a batch took when steps were tried: within, they are not tried again
READ_BYTES_PER_SECOND = 5e8  # of files that are to be in the page cache and are not
CROWDED = 0.7  # of the memory that can be had: what is read from the page cache is not all there at once beyond it
LEAST_SECONDS = 30.0  # of a race of few of the plan's results, whose share of the time would be less


class Session:
    """The results of one session of a plan, their facts, and a race over them.

    It goes on with the facts of an earlier call where these are of the same results, measured alike on this machine:
    after Ctrl-C, or where it is to take longer. Else its facts have a folder of their own, and no other is touched.
    `place`: which of the sessions that measure the same it is, from 0; any but the first has its files placed anew.
    """

    def __init__(self, plan: Planned, name: str, root: Path = Path(), explain: bool = False, place: int = 0) -> None:
        self.plan, self.measure, self.name, self.root = plan, plan.config["measure"], name, root
        self.now, self.step_ms = plan.config["report"]["now"], plan.config["report"]["step_ms"]
        self.host_share = plan.config["report"]["host_share"]
        asked = {result.id: result for result in plan.of_session(name)}
        self.bases = facts.Bases(plan.content, root)
        relied = self.bases.among(asked)
        self.hashes = facts.hashes(relied)
        self.results = {result: asked[result] for result in self.hashes}  # what is not proven takes none of the time
        self.planned = self._planned()
        self.asked = {key: self.measure[key] for key in LENGTHEN}
        self.alike = self._shown(root) if explain else self._begun(root, relied, place)
        self.facts = self.alike[-1 if explain else place]
        self.chance = random.Random(f"{self.measure['seed']}:{name}:{self._first_round()}")
        self.sample = sample.from_json(read_json(Path(plan.folder("corpus"), "corpus.json"))["sample"])
        self.failed: set[str] = set()  # results of which a run delivered wrong data
        self.again: set[str] = set()  # results of which the last run failed otherwise: the machine may be at fault
        self.places = self._places()
        self.expected = self._expected()
        self.began = time.monotonic()  # less what earlier calls have spent, or would have
        if explain and (whole := self.seconds()):
            self.began -= whole * (self.parts.get(RACE, 0.0) + self.parts.get(OF_LEADERS, 0.0))
        self.starts: dict[str, dict[int, float]] = {}  # seconds that an epoch start took, by result and round

    def _begun(self, root: Path, relied: Mapping[str, Any], place: int) -> list[facts.Session]:
        """Return the sessions that measure the same, with a new one where there are fewer than asked for."""
        machine = {"cores": cores_allowed(), "python": platform.python_version(), "cpu": host.cpu_model()}
        same = self.name, self.hashes, machine
        alike = [one for one in facts.sessions(root, self.plan.dataset) if one.same == same]
        if place < len(alike):
            return alike
        if alike:
            place_anew(self.plan, self.results.values())
        return [*alike, facts.begin(root, self.plan.dataset, self.name, relied, machine)]

    def _shown(self, root: Path) -> list[facts.Session]:
        """Return the sessions that the tables show; where nothing is proven, the latest of this name, which is empty.

        Raises UserError where there is none.
        """
        every = facts.sessions(root, self.plan.dataset)
        found = facts.shown(every, self.hashes) if self.hashes else [one for one in every if one.name == self.name]
        if not found:
            raise UserError(
                f"--session {self.name}: found no measurements of this plan; allowed is a session that was measured. "
                "Measure it first: leave --explain out."
            )
        return found

    def _places(self) -> dict[str, Path]:
        """Return what results read from the page cache, by their ids, where it has no room for all of it at once."""
        local = {result: from_json(run.location).held_in for result, run in self.results.items() if run.cache == "warm"}
        read = {
            result: place
            for result, place in local.items()
            if place and not self.results[result].location.get("in_memory")
        }
        sizes = {place: self._bytes(self.results[result]) for result, place in read.items()}
        return read if sum(sizes.values()) > CROWDED * devices.available_ram() else {}

    def _bytes(self, run: Result) -> int:
        """Return how many bytes the format of a result has."""
        written = self.root / f"{run.written}.json"
        return (read_json(written)["bytes"] or 0) if run.written and written.is_file() else 0

    def _expected(self) -> dict[str, float]:
        """Return how many seconds a run of each result is thought to take."""
        corpus = read_json(Path(self.plan.folder("corpus"), "corpus.json"))
        items, size = corpus["items"][SPLIT], sample.from_json(corpus["sample"]).bytes
        loaders = {run.loader: decodes(one_run.loader_of(run)) for run in self.results.values()}
        sharing = Counter(self.places.values())  # what reads the same files has them in the cache after the first
        return {
            result: run_seconds(run, loaders[run.loader], self.measure, size, items)
            + (
                self._bytes(run) / READ_BYTES_PER_SECOND / sharing[self.places[result]]
                if result in self.places
                else 0.0
            )
            for result, run in self.results.items()
        }

    def _dropped_first(self, race: Race) -> list[str]:
        """Return the results that a session without enough time drops, in this order: settings beside each loader's
        main one, then other tasks, then tiers beside its first; of these those of the slowest loaders first.

        The main setting of a loader is the fastest on its first tier, before it was run that with the most workers.
        """
        middle, main = middles(race), {}
        for result in race.scenarios:
            run, known = self.results[result], main.get(self.results[result].loader)
            if known is None or (run.tier, run.task) == (self.results[known].tier, self.results[known].task):
                best = max((one for one in (known, result) if one), key=lambda one: self._promise(one, middle))
                main[run.loader] = best

        def order(result: str) -> tuple[bool, bool, float]:
            run, base = self.results[result], self.results[main[self.results[result].loader]]
            speeds = [speed for one, speed in middle.items() if self.results[one].loader == run.loader]
            return run.settings == base.settings, run.task == base.task, max(speeds, default=0.0)

        return sorted((one for one in race.scenarios if one not in main.values()), key=order)

    def _promise(self, result: str, middle: Mapping[str, float]) -> tuple[float, int]:
        """Return by what a loader's main setting is chosen: its speed so far, then its workers."""
        return middle.get(result, 0.0), self.results[result].settings["workers"] or 0

    def _planned(self) -> int:
        """Return how many results of the plan share the session's time: all of its groups but what cannot be proven."""
        groups = {run.group for run in self.results.values()}
        file = whole_file(self.plan.content, self.root)
        left_out = read_json(file)["left_out"] if file and file.is_file() else {}
        rows = [row for row in self.plan.content["results"] if row["group"] in groups and row["id"] not in left_out]
        return sum(self.bases.proof(row) is None or self.bases.of(row) is not None for row in rows)

    def known(self, sessions: Sequence[facts.Session]) -> dict[str, dict[int, Run]]:
        """Return the runs that sessions have already, by result and round; the rounds of several are of type Round.

        A result of which one delivered wrong data stays failed. What failed otherwise is tried again.
        """
        found: dict[str, dict[int, Run]] = {}
        self.again.clear()
        for result, session in product(self.results, sessions):
            for round_number, file in session.rounds(result).items():
                record = session.record(result, file)
                self.again.discard(result)
                if record["items_per_second"]:
                    number = Round(session.folder.name, round_number)
                    found.setdefault(result, {})[number if len(sessions) > 1 else round_number] = run_of(record)
                    self._note_start(result, round_number, record)
                elif facts.wrong_data(record):
                    self.failed.add(result)
                elif record["status"] == "failed":
                    self.again.add(result)
        return {result: runs for result, runs in found.items() if result not in self.failed}

    def _earlier(self, result: str, kind: str = facts.TRIALS) -> dict[str, Any] | None:
        """Return the latest trials of a result of this kind, of all sessions that measured the same."""
        found = ((one, file) for one in reversed(self.alike) if (file := one.trials(result, kind)))
        return next((session.record(result, file) for session, file in found), None)

    def run(self, runner: Runner, say: Any) -> None:
        """Take the race to its end.

        A session that was stopped or killed goes on with the time that it had left: what it has spent is noted after
        each run.
        """
        made, spent, began = self.known([self.facts]), self.facts.state["spent"], time.monotonic()
        self.began = began - spent
        if self._complete(self._race(runner, say, made)):
            return

        def noted(race: Race) -> None:
            self.facts.say(asked=self.asked, ended="", spent=spent + time.monotonic() - began)
            say(race)

        race = self._race(runner, noted, made, self._left(RACE))
        race.run()
        of_leaders = self._of_leaders(race)
        later = self._race(runner, noted, self.known([self.facts]), self._left(OF_LEADERS), of_leaders, least=0)
        later.run()
        no_time = [one for one in (*race.dropped, *of_leaders) if not self.facts.rounds(one)]
        for one in no_time:
            if one_run.not_permitted(self.results[one]):  # its record says so, and takes no time
                self._run(runner, one, 0, 0)
                self._accept(one, 0, 0)
        self.facts.say(
            asked=self.asked,
            ended=race.ended,
            spent=spent + time.monotonic() - began,
            rounds=race.round_number,
            runs=self.facts.records,
            made_again=self.facts.state.get("made_again", 0) + race.made_again + later.made_again,
            left_early=sorted(set(race.scenarios) - set(race.live)),
            no_time=sorted(one for one in no_time if not self.facts.rounds(one)),
            finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )

    def _complete(self, race: Race) -> bool:
        """Return whether nothing is left to measure: it ended after as long as is asked for, and nothing failed."""
        if not self.facts.state["ended"] or self.facts.state["asked"] != self.asked or self.again:
            return False
        had = race.made.keys() | self.failed | {*self.facts.state.get("no_time", ())}
        return had >= {*self._first, *self._of_leaders(race)}

    @property
    def _first(self) -> list[str]:
        """The results that are measured in any case; the others only where what they depend on leads."""
        return [result for result, run in self.results.items() if run.if_leads not in self.results]

    def _of_leaders(self, race: Race) -> list[str]:
        """Return the results that are measured of leaders alone: of each loader that leads, from a cold cache and in
        trainings, of the fastest of its settings, or of those that it has there; trainings of the current loader too.
        """
        depending: dict[str, list[str]] = {}
        for result, run in self.results.items():
            if run.if_leads in self.results:
                depending.setdefault(run.if_leads, []).append(result)
        middle, found = middles(race), []
        for _, leaders in race.leaders():
            fastest: dict[str, str] = {}
            most = max((len(race.made[path]) for path in leaders), default=0)  # of one run nothing is known
            leaders = [path for path in leaders if len(race.made[path]) >= min(LEAST_ROUNDS, most)]
            for path in sorted(leaders, key=middle.__getitem__, reverse=True):
                fastest.setdefault(self.results[path].loader, path)
            chosen = [*fastest.values()][:MOST_LEADERS]
            found += [one for path in chosen for one in depending.get(path, ()) if self.results[one].cache in COLD]
            found += [one for path in self._with_now(chosen, middle) for one in self._trainings(path, depending)]
        return list(dict.fromkeys(found))

    def _with_now(self, chosen: Sequence[str], middle: Mapping[str, float]) -> list[str]:
        """Return these results of a scenario, and the fastest of the current loader's in it, where it has any."""
        like = {scenario(self.results[path]) for path in chosen}
        own = [one for one in middle if self.results[one].loader == self.now and scenario(self.results[one]) in like]
        return list(dict.fromkeys([*sorted(own, key=middle.__getitem__)[-1:], *chosen]))

    def _trainings(self, path: str, depending: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the trainings with a result's settings; where none are planned, those with others of its loader's."""
        run = self.results[path]
        alike = [
            one for one in depending if (self.results[one].loader, self.results[one].tier) == (run.loader, run.tier)
        ]
        for lead in (path, *alike):
            if found := [one for one in depending.get(lead, ()) if self.results[one].task in TRAINING]:
                return found
        return []

    def explained(self, runner: Runner, say: Any) -> dict[str, Any]:
        """Look for what explains the candidates of the runs that are there; return what the session's file holds.

        The latest session that came to its end looks for it, by the runs of all.
        """
        self.alike = [one for one in self.alike if one.finished] or [self.facts]
        self.facts = self.alike[-1]
        every = self._race(runner, say, self.known(self.alike), among=self.results)
        asked = {**self.asked, "now": self.now, "step_ms": self.step_ms, "host_share": self.host_share}
        if self.facts.state.get("explained_for") != [asked, self.facts.records]:  # else there was no more time for it
            self.facts.say(candidates=self._explained(runner, every), explained_for=[asked, self.facts.records])
        return {"session": self.facts.folder.name, **self.facts.state}

    def _race(
        self,
        runner: Runner,
        say: Any,
        made: Mapping[str, dict[int, Run]],
        seconds: float | None = None,
        among: Collection[str] | None = None,
        least: int = LEAST_ROUNDS,
    ) -> Race:
        """Return a race over the results `among`, or those measured in any case, with the runs `made`; not yet run."""
        among = self._first if among is None else among
        most = dict.fromkeys((one for one in among if one not in self._first), COLD_RUNS)
        most |= {one: self.measure["train_repeats"] for one in among if self.results[one].task in TRAINING}
        return Race(
            scenarios={result: scenario(self.results[result]) for result in sorted(among)},
            measure=lambda result, round_number, attempt: self._run(runner, result, round_number, attempt),
            control=lambda round_number, number: self._control(runner, round_number, number),
            accept=self._accept,
            clock=time.monotonic,
            limits=Limits(
                seconds,
                self.measure["repeats"] if self.measure["minutes"] == "none" else None,
                self.measure["resolution"],
                self.measure["attempts"],
                least,
            ),
            chance=self.chance,
            say=say,
            keep={result for result in self.results if self.results[result].loader == self.now},
            made={result: dict(runs) for result, runs in made.items()},
            first_round=self._first_round(),
            failed=set(self.failed),
            most_runs=most,
            names=compared_over_tiers(self.results),
            places=self.places,
            optional=self._dropped_first,
            expected=self.expected,
        )

    def _first_round(self) -> int:
        """Return the first round that no session of the same has used: what an ended call has begun stays as it is."""
        used = [-1]
        for session, file in ((one, file) for one in self.alike for file in one.folder.rglob("*.json")):
            number = file.name.partition(".")[0]
            if number.isdigit():  # of a control run ten times the round, and its number
                of_control = file.relative_to(session.folder).parts[0] == BOUNDS
                used.append(int(number) // (10 if of_control else 1))
        return max(used) + 1

    def _run(self, runner: Runner, result: str, round_number: int, attempt: int) -> Run:
        run = self.results[result]
        file = attempt_of(self.facts.folder / result, round_number, attempt)
        asked = replace(run, repeat=round_number, attempt=attempt, seed=run.seed + round_number)
        record = runner.make(replace(asked, **self._start(result, round_number)))
        self.facts.note(result, file, record)
        if record["status"] == "failed" and not facts.wrong_data(record):
            self.facts.say(failures=self.facts.state["failures"] + 1)
        self._note_start(result, round_number, record)
        return run_of(record)

    def _start(self, result: str, round_number: int) -> dict[str, Any]:
        """Return what a run is told of an epoch start: what it took in other rounds, and how long to wait for one.

        A proof saw one too, but beside other jobs; it stands where an epoch is too long to be waited for.
        """
        known = [seconds for other, seconds in self.starts.get(result, {}).items() if other != round_number]
        within = START_WITHIN[len(known)] if len(known) < len(START_WITHIN) else 0.0
        return {"start_seconds": median(known) if known else None, "start_within": within}

    def _note_start(self, result: str, round_number: int, record: Mapping[str, Any]) -> None:
        """Note what an epoch start took, where one was in the window of this run."""
        if record.get("epoch_start_from") == "window":
            self.starts.setdefault(result, {})[round_number] = record["epoch_start_seconds"]

    def _accept(self, result: str, round_number: int, attempt: int) -> None:
        folder = self.facts.folder / result
        os.replace(attempt_of(folder, round_number, attempt), folder / f"{round_number}.json")

    def _control(self, runner: Runner, round_number: int, number: int) -> None:
        groups = {run.group for run in self.results.values()}
        for bound in self.plan.bounds.values():
            if bound.group in groups:
                repeat = round_number * 10 + number
                record = runner.control(replace(bound, repeat=repeat))
                write_json(self.facts.folder / bound.id / f"{repeat}.json", record)

    def _candidates(self) -> list[str]:
        """Return what the verdict has explained: of each device that reads from a warm cache what it chooses, the
        fastest, and the current loader.
        """
        answers = verdict_of(self.plan.content, self.root)["answers"]
        names = (name.split("/") for answer in answers for name in answer["explain"])
        paths = ("/".join((tier, loader, slug)) for loader, tier, slug in names)
        return [path for path in paths if path in self.results and plain_read(self.results[path])]

    def _explained(self, runner: Runner, race: Race) -> list[str]:
        """Try training steps with the loaders, then look for what explains the candidates; return these."""
        speeds = middles(race)
        to_try = self._to_try(speeds) if STEPS in self.parts else ()
        for path in self._while_time(to_try, STEPS):
            self._explain(runner, self._steps_of(path, self._batch_ms(path, speeds)), facts.STEPS)
        found = self._candidates()
        for path in self._while_time(found if EXPLAINED in self.parts else (), EXPLAINED):
            self._explain(runner, self._trials(path), facts.TRIALS)
        return found

    def _while_time(self, every: Iterable[str], part: str) -> Iterator[str]:
        """Yield the first, and more as long as what took the longest so far would end within the time of this part."""
        left, longest = self._left(part), 0.0
        ends = None if left is None else time.monotonic() + max(left, LEAST_TRIALS_SECONDS)
        for one in every:
            began = time.monotonic()
            if ends is not None and began + longest > ends:
                return
            yield one
            longest = max(longest, time.monotonic() - began)

    def _to_try(self, speeds: Mapping[str, float]) -> list[str]:
        """Return the results with which training steps are tried, the current loader's first, then the fastest first.

        Of each loader on each device that is the fastest, and whatever has fewer workers than all that are faster. What
        takes many times the user's own step for a batch starves it by its rate alone; of the current loader the fastest
        is tried all the same.
        """
        chosen: dict[str, None] = {}
        for path in sorted(speeds, key=speeds.__getitem__, reverse=True):
            run = self.results[path]
            same = [one for one in chosen if _kin(self.results[one]) == _kin(run)]
            workers = run.settings["workers"] or 0
            batch_ms = self._batch_ms(path, speeds)
            own = self.step_ms is None or (run.loader == self.now and not same)
            slow = batch_ms > (SLOWEST_BATCH_MS if own else min(SLOWEST_BATCH_MS, HOPELESS * self.step_ms))
            fewer = all(workers < (self.results[one].settings["workers"] or 0) for one in same)
            if plain_read(run) and fewer and not slow:
                chosen[path] = None
        first = [path for path in chosen if self.results[path].loader == self.now]
        return list(dict.fromkeys([*first, *chosen]))

    def _batch_ms(self, path: str, speeds: Mapping[str, float]) -> float:
        """Return how long a result takes for a batch, in ms, by speeds in items/s."""
        return 1000 * self.results[path].settings["batch_size"] / speeds[path]

    @property
    def parts(self) -> dict[str, float]:
        """The share of a session's time that is for each of its parts."""
        group = next(iter(self.results.values())).group if self.results else MAIN
        return shares_of(self.measure, group, self._first != list(self.results))

    def _left(self, part: str) -> float | None:
        """Return how many seconds are left until this part of the session ends; None where rounds end it."""
        parts = list(SHARES)
        share = sum(self.parts.get(one, 0.0) for one in parts[: parts.index(part) + 1])
        whole = self.seconds()
        return None if whole is None else share * whole - (time.monotonic() - self.began)

    def seconds(self) -> float | None:
        """Return how long the session may take; None where rounds end it.

        Some of the plan's results have their share of the time.
        """
        if self.measure["minutes"] == "none":
            return None
        group = next(iter(self.results.values())).group if self.results else MAIN
        whole = 60 * self.measure["minutes"] * session_share(self.plan.part, group, self.name)
        share = len(self.results) / max(1, self.planned)
        return max(min(LEAST_SECONDS, whole), whole * share)

    def _explain(self, runner: Runner, asked: Result, kind: str) -> None:
        """Make trials of a result, unless they are there already.

        A result whose copy in RAM is gone is left out: its speed stands.
        """
        before = self._earlier(asked.id, kind)
        if is_there(asked) and (before is None or not _answers(before, asked)):
            file = self.facts.folder / asked.id / facts.trials_name(self.facts.trials(asked.id, kind), kind)
            self.facts.note(asked.id, file, runner.make(asked))

    def _trials(self, result: str) -> Result:
        """Return the trials that explain a result's speed."""
        starts = list(self.starts.get(result, {}).values())
        return replace(
            self.results[result],
            mode="trials",
            bottlenecks=self.measure["bottlenecks"] != "none",
            timeline=self.measure["timeline"] != "none",
            start_seconds=median(starts) if starts else None,
        )

    def _steps_of(self, result: str, batch_ms: float) -> Result:
        """Return the trials of a result with training steps; a batch of it takes `batch_ms`."""
        run, own = self.results[result], self.step_ms or 0.0
        return replace(run, mode="trials", batch_ms=batch_ms, asked_step_ms=own, host_share=self.host_share)


def is_there(run: Result) -> bool:
    """Return whether the data that a result reads is where the plan says: a copy in RAM is given back."""
    place = from_json(run.location).held_in
    return place is None or place.exists()


def _kin(run: Result) -> tuple[Any, ...]:
    """Return what results have in common of which few are tried with training steps."""
    return run.loader, run.settings["device"]


def _answers(trials: Mapping[str, Any], run: Result) -> bool:
    """Return whether trials that are there went well, and say all that is asked for now, or why they cannot."""
    broke = {warning["code"] for warning in trials["warnings"]}
    stages = getattr(one_run.loader_of(run), "STAGES", ())
    parts = run.bottlenecks and any(stage != "transfer" or run.settings["workers"] for stage in stages)
    lacking = {
        "no-steps": run.batch_ms and not _same_steps(trials["steps"], run),
        "no-bottleneck-trials": parts and trials["bottleneck_trials"] is None,
        "no-timeline": run.timeline and trials["spans"] is None,
    }
    said = all(code in broke for code, lacks in lacking.items() if lacks)
    return trials["status"] == "ok" and said


def _same_steps(steps: Mapping[str, Any] | None, run: Result) -> bool:
    """Return whether trials with steps are those that are asked for now, of a batch that took about as long."""
    if steps is None or steps["host_share"] != run.host_share:
        return False
    ratio = steps["knee"]["step_ms"] / run.batch_ms
    return 1 / SAME_BATCH < ratio < SAME_BATCH and run.asked_step_ms in (0.0, steps["check"]["step_ms"])


def middles(race: Race) -> dict[Any, float]:
    """Return the middle speed of each result of a race, in items/s, of the runs that count."""
    every = {path: found.values() for speeds in race.speeds() for path, found in speeds.items()}
    return {path: sorted(found)[len(found) // 2] for path, found in every.items()}


def plain_read(run: Result) -> bool:
    """Return whether a result reads every byte from a warm cache, in one process, with no training step."""
    return (run.task, run.cache, run.step_ms, ranks_of(run.settings)) == ("read", "warm", 0, 1)


def scenario(run: Result) -> tuple[Any, ...]:
    """Return within what alone results are compared."""
    return run.settings["device"], run.size, run.task, run.cache, run.step_ms, ranks_of(run.settings)


def name_of(run: Result) -> Name:
    """Return what names a result within its scenario."""
    return Name(run.loader, run.tier, run.slug)


def compared_over_tiers(runs: Mapping[str, Result]) -> dict[str, Name]:
    """Return the names of the results in whose scenario the data is in memory on every tier, by their paths."""
    away = {scenario(run) for run in runs.values() if run.cache in COLD or run.emulate or not run.location.get("path")}
    return {path: name_of(run) for path, run in runs.items() if scenario(run) not in away}


def attempt_of(folder: Path, round_number: int, attempt: int) -> Path:
    """Return where an attempt of a run is written; the one that counts is renamed to ROUND.json."""
    return folder / f"{round_number}.attempt-{attempt}.json"


class Display:
    """The progress of a session: a line redrawn in place on a terminal, else a line a round."""

    def __init__(self, seconds: float | None, named: str = "", after: float | None = None) -> None:
        self.round_number, self.named, self.after = -1, named, after or 0.0  # seconds that come after a race
        self.ends = None if seconds is None else time.monotonic() + seconds
        self.inplace = sys.stderr.isatty()

    def __call__(self, race: Race) -> None:
        """Say where the race is."""
        if race.round_number == self.round_number and not self.inplace:
            return
        left = f", {self._left(race) / 60:.1f} min left" if self.ends else ""
        many = f"{len(race.live)} of {len(race.scenarios)} results"
        text = f"{self.named}round {race.looks + 1}, {many}{left}{self._leaders(race)}"
        if self.inplace:
            width = shutil.get_terminal_size((100, 20)).columns - 1
            print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)
        else:
            self.round_number = race.round_number
            print(text, file=sys.stderr, flush=True)

    def _left(self, race: Race) -> float:
        """Return the seconds left, of which the least rounds take as many as they need."""
        each = race.seconds / race.runs if race.runs else 0.0
        missing = sum(max(0, race.least(one) - len(race.made.get(one, ()))) for one in race.live)
        return max(0.0, self.ends - time.monotonic(), each * missing + self.after)

    def _leaders(self, race: Race) -> str:
        middle = middles(race)
        if not race.looks and len(middle) < min(4, len(race.live)):  # what came first does not lead
            return ""
        first = sorted(middle, key=middle.__getitem__, reverse=True)[:3]
        names = [f"{self._called(path, race)} {middle[path]:,.0f}" for path in first]
        return f"; fastest so far (medians): {', '.join(names)} items/s" if names else ""

    @staticmethod
    def _called(path: Any, race: Race) -> str:
        """Return what names a result among those of the race: its settings too, where a loader has several."""
        tier, loader, slug = path.split("/")
        same = [one for one in race.scenarios if one.startswith(f"{tier}/{loader}/")]
        return f"{loader} on {tier}{f' ({slug})' if len(same) > 1 else ''}"

    def close(self) -> None:
        """End the line."""
        if self.inplace:
            print(file=sys.stderr)


def main() -> None:
    """Measure one session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json, as the workflow wrote it")
    parser.add_argument("--session", default="main", help="the name of one of the plan's sessions")
    parser.add_argument("--out", required=True, type=Path, help="JSON file that says how the session ended")
    parser.add_argument("--log", type=Path, help="file for what the runs print (default: stderr)")
    parser.add_argument("--explain", action="store_true", help="only what explains the candidates of what was measured")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = Planned(read_plan(arguments.plan))
    if arguments.session not in plan.sessions:
        known = ", ".join(plan.sessions)
        near = nearest(arguments.session, plan.sessions)
        raise UserError(f"--session: found {arguments.session!r}, allowed are {known}.{near} Name one of them.")
    with contextlib.ExitStack() as stack:
        if arguments.log:
            _log_to(arguments.log, stack)
        try:
            found = _explain(plan, arguments.session) if arguments.explain else _measure(plan, arguments.session)
        except KeyboardInterrupt:  # the runs that are there count, and the same command goes on
            sys.exit(128 + signal.SIGINT)
    write_json(arguments.out, found)


def _measure(plan: Planned, name: str) -> dict[str, Any]:
    """Take as many sessions to their end as the config asks for; return what the session's file holds."""
    found, count = {}, plan.config["measure"]["sessions"]
    for place in range(count):
        session = Session(plan, name, place=place)
        named = f"session {place + 1} of {count}, " if count > 1 else ""
        with _runs(session, named) as (runner, display):
            session.run(runner, display)
            if place + 1 == count:  # here, while copies in RAM are there
                found = session.explained(runner, display)
    return found


def _explain(plan: Planned, name: str) -> dict[str, Any]:
    session = Session(plan, name, explain=True)
    with _runs(session) as (runner, display):
        return session.explained(runner, display)


@contextlib.contextmanager
def _runs(session: Session, named: str = "") -> Iterator[tuple[Runner, "Display"]]:
    """Yield what makes the runs of a session, and what says how far it is."""
    whole = session.seconds()
    left = None if whole is None else whole - session.facts.state["spent"]
    display = Display(left, named, whole and whole * (1 - session.parts.get(RACE, 0.0)))
    with contextlib.ExitStack() as stack:
        stack.callback(display.close)
        there = [run for run in session.results.values() if is_there(run)]
        stack.enter_context(serving(from_json(run.location) for run in there))
        yield stack.enter_context(Runner(session.sample, session.chance)), display


def _log_to(path: Path, stack: contextlib.ExitStack) -> None:
    """Send what this process's children print to a file; this process itself goes on printing where it did."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = os.fdopen(os.dup(2), "w", buffering=1)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    stack.callback(os.close, file)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stderr = own


if __name__ == "__main__":
    run_main(main)
