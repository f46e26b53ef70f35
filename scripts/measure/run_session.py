"""Measures the proven results of a session in rounds, one run after the other, until the time is up.

    python -m scripts.measure.run_session --plan PLAN.json --session main --out results/runs/demo/session-main.json

Each run leaves a record in the session's own folder (scripts/common/facts.py). What was stopped or killed goes on
from its records; what was measured otherwise stays where it is.
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
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
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
from scripts.common.utilisation import TARGET_AU_PERCENT, au_percent, works_ahead
from scripts.common.vocabulary import COLD, TRAINING, ranks_of
from scripts.decide.choice import Compared
from scripts.machine import host
from scripts.machine.cores import cores_allowed
from scripts.measure import one_run
from scripts.measure.race import Limits, Race
from scripts.measure.runner import Runner
from scripts.plan.planned import Planned
from scripts.plan.results import Result

BOUNDS = "bounds"  # the folder of a session's control runs
LENGTHEN = ("minutes", "resolution", "repeats", "train_repeats")  # keys of `measure` that say how long a race is
SEARCH_SHARE = 0.25  # of a session's time, for what explains its candidates
START_WITHIN = (10.0, 3.0, 3.0)  # seconds for which a result's first, second, third window goes on for an epoch start
HOPELESS_AU_PERCENT = TARGET_AU_PERCENT / 2
LEAST_SECONDS = 30.0  # of a race of few of the plan's results, whose share of the time would be less


class Session:
    """The results of one session of a plan, their facts, and a race over them.

    It goes on with the facts of an earlier call where these are of the same results, measured alike on this machine:
    after Ctrl-C, or where it is to take longer. Else its facts have a folder of their own, and no other is touched.
    """

    def __init__(self, plan: Planned, name: str, root: Path = Path(), explain: bool = False) -> None:
        self.plan, self.measure, self.name = plan, plan.config["measure"], name
        self.now, self.step_ms = plan.config["report"]["now"], plan.config["report"]["step_ms"]
        asked = {result.id: result for result in plan.of_session(name)}
        self.bases = facts.Bases(plan.content, root)
        relied = self.bases.among(asked)
        self.hashes = facts.hashes(relied)
        self.results = {result: asked[result] for result in self.hashes}  # what is not proven takes none of the time
        self.planned = self._planned()
        self.asked = {key: self.measure[key] for key in LENGTHEN}
        self.facts = self._shown(root) if explain else self._begun(root, relied)
        self.chance = random.Random(f"{self.measure['seed']}:{name}:{self._first_round()}")
        self.sample = sample.from_json(read_json(Path(plan.folder("corpus"), "corpus.json"))["sample"])
        self.failed: set[str] = set()  # results of which a run delivered wrong data
        self.again: set[str] = set()  # results of which the last run failed otherwise: the machine may be at fault
        self.starving: set[tuple[Any, ...]] = set()  # of `_waits`: what a trial showed to starve the user's own step
        self.starts: dict[str, dict[int, float]] = {}  # seconds that an epoch start took, by result and round

    def _begun(self, root: Path, relied: Mapping[str, Any]) -> facts.Session:
        """Return the session to go on with: the latest of this name, or a new one where that is of something else."""
        machine = {"cores": cores_allowed(), "python": platform.python_version(), "cpu": host.cpu_model()}
        same = [one for one in facts.sessions(root, self.plan.dataset) if one.name == self.name]
        for one in same[-1:]:
            if one.results == self.hashes and one.state["machine"] == machine:
                return one
        return facts.begin(root, self.plan.dataset, self.name, relied, machine)

    def _shown(self, root: Path) -> facts.Session:
        """Return the session that the tables show; where nothing is proven, the latest of this name, which is empty.

        Raises UserError where there is none.
        """
        every = facts.sessions(root, self.plan.dataset)
        if self.hashes:
            found = facts.shown(every, self.hashes)
        else:
            found = next((one for one in reversed(every) if one.name == self.name), None)
        if found is None:
            raise UserError(
                f"--session {self.name}: found nothing that was measured as the plan asks for it; allowed is a session "
                "that is there. Measure it first: leave --explain out."
            )
        return found

    def _planned(self) -> int:
        """Return how many results of the plan share the session's time: all of its groups but what cannot be proven."""
        groups = {run.group for run in self.results.values()}
        rows = [row for row in self.plan.content["results"] if row["group"] in groups]
        return sum(self.bases.proof(row) is None or self.bases.of(row) is not None for row in rows)

    def known(self) -> dict[str, dict[int, Run]]:
        """Return the runs that this session has already, by result and round.

        A result of which one delivered wrong data stays failed. What failed otherwise is tried again.
        """
        found: dict[str, dict[int, Run]] = {}
        self.again.clear()
        for result in self.results:
            for round_number, file in self.facts.rounds(result).items():
                record = self.facts.record(result, file)
                self.again.discard(result)
                if record["items_per_second"]:
                    found.setdefault(result, {})[round_number] = run_of(record)
                    self._note_start(result, round_number, record)
                elif facts.wrong_data(record):
                    self.failed.add(result)
                elif record["status"] == "failed":
                    self.again.add(result)
            self._note_starving(result)
        return {result: runs for result, runs in found.items() if result not in self.failed}

    def _note_starving(self, result: str) -> None:
        """Note what an earlier trial says of the user's own step."""
        file = self.facts.trials(result)
        tried = self.facts.record(result, file)["asked_step"] if file else None
        known = tried and tried["step_ms"] == self.step_ms
        if known and tried["au_percent"] < TARGET_AU_PERCENT:
            self.starving.add(_waits(self.results[result]))

    def run(self, runner: Runner, say: Any) -> dict[str, Any]:
        """Take the race to its end, look for what explains the candidates, and return what the session's file holds.

        A session that was stopped or killed goes on with the time that it had left: what it has spent is noted after
        each run.
        """
        made, spent = self.known(), self.facts.state["spent"]
        if self._complete(made):
            return self.explained(runner, say)

        def noted(race: Race) -> None:
            self.facts.say(asked=self.asked, ended="", spent=spent + race.seconds)
            say(race)

        race = self._race(runner, noted, made, spent)
        race.run()
        self.facts.say(
            asked=self.asked,
            ended=race.ended,
            spent=spent + race.seconds,
            rounds=race.round_number,
            runs=self.facts.records,
            made_again=self.facts.state.get("made_again", 0) + race.made_again,
            left_early=sorted(set(race.scenarios) - set(race.live)),
            finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        return self.explained(runner, say)

    def _complete(self, made: Mapping[str, Any]) -> bool:
        """Return whether nothing is left to measure: it ended after as long as is asked for, and nothing failed."""
        ended = self.facts.state["ended"] and self.facts.state["asked"] == self.asked
        return bool(ended) and not self.again and made.keys() | self.failed == self.results.keys()

    def explained(self, runner: Runner, say: Any) -> dict[str, Any]:
        """Look for what explains the candidates of the runs that are there; return what the session's file holds."""
        every = self._race(runner, say, self.known())
        self.facts.say(candidates=self._explained(runner, every))
        return {"session": self.facts.folder.name, **self.facts.state}

    def _race(self, runner: Runner, say: Any, made: Mapping[str, dict[int, Run]], spent: float = 0.0) -> Race:
        """Return a race over all results that has the runs `made`, before it is run."""
        return Race(
            scenarios={result: scenario(self.results[result]) for result in sorted(self.results)},
            measure=lambda result, round_number, attempt: self._run(runner, result, round_number, attempt),
            control=lambda round_number, number: self._control(runner, round_number, number),
            accept=self._accept,
            clock=time.monotonic,
            limits=Limits(
                self._race_seconds(spent),
                self.measure["repeats"] if self.measure["minutes"] == "none" else None,
                self.measure["resolution"],
                self.measure["attempts"],
            ),
            chance=self.chance,
            say=say,
            keep={result for result in self.results if self.results[result].loader == self.now},
            made={result: dict(runs) for result, runs in made.items()},
            first_round=self._first_round(),
            failed=set(self.failed),
            most_runs={
                result: self.measure["train_repeats"]
                for result in self.results
                if self.results[result].task in TRAINING
            },
            names=compared_over_tiers(self.results),
        )

    def _first_round(self) -> int:
        """Return the first round that this session has not used: what an ended call has begun stays as it is."""
        used = [-1]
        for file in self.facts.folder.rglob("*.json"):
            number = file.name.partition(".")[0]
            if number.isdigit():  # of a control run ten times the round, and its number
                of_control = file.relative_to(self.facts.folder).parts[0] == BOUNDS
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

    def _candidates(self, race: Race) -> list[str]:
        """Return what is explained of each device, from a warm cache: the fastest, what the report will name first, and
        the current loader.
        """
        found, names = [], compared_over_tiers(self.results)
        for speeds in filter(None, race.speeds()):
            if not plain_read(self.results[next(iter(speeds))]):
                continue
            paths = {name_of(self.results[path]): path for path in speeds}
            named = {name: speeds[path] for name, path in paths.items()}
            compared = Compared(named, together=names.keys() >= speeds.keys())
            middle = {paths[name]: compared.results.center(name).speed for name in named}
            first = [paths[name] for name in compared.results.leading()]
            best = {name[:2]: name for name in sorted(named, key=lambda name, middle=middle: middle[paths[name]])}
            choice, _ = compared.choose(  # as the report does: the fastest settings of each loader and tier
                best.values(),
                lambda one, paths=paths: self._expense(paths[one]),
                lambda one, paths=paths, middle=middle: self._starves(paths[one], middle[paths[one]]),
            )
            chosen = paths[choice.key]
            had = [path for path in speeds if self.results[path].loader == self.now]
            had = sorted(had, key=middle.__getitem__)[-1:]
            fastest = max(first, key=middle.__getitem__)
            if compared.loaders and self.results[fastest].loader == self.results[chosen].loader:
                fastest = chosen  # on another tier, whose files are in memory too
            found += dict.fromkeys([fastest, chosen, *had])
        return found

    def _explained(self, runner: Runner, race: Race) -> list[str]:
        """Search the candidates, also those that are such only once another was seen to starve the user's own step."""
        found: list[str] = []
        first, middle = {path for _, leaders in race.leaders() for path in leaders}, middles(race)
        while more := [path for path in self._candidates(race) if path not in found]:
            for path in more:
                self._search(runner, path, path in first, middle[path])
            found += more
        return found

    def _starves(self, path: str, rate: float) -> bool:
        """Return whether a result, of so many items/s, does not feed the user's own step, as far as is known by now."""
        run, step_ms = self.results[path], self.step_ms
        if step_ms is None:
            return False
        return _most_au(run, step_ms, rate) < TARGET_AU_PERCENT or _waits(run) in self.starving

    def _expense(self, result: str) -> tuple[int, bool, int]:
        """Return what makes one of several equal results the cheaper one, as the report does, as far as is known."""
        run = self.results[result]
        declared = self.bases.proof(vars(run))["declared"]
        copies = bool(run.location.get("in_memory")) + declared["preloads"]
        return copies, declared["lifetime"] != "lasting", run.settings["workers"] or 0

    @property
    def explains(self) -> bool:
        """Whether what explains the candidates is looked for."""
        return self.measure["bottlenecks"] != "none" or self.measure["timeline"] != "none"

    def _race_seconds(self, spent: float) -> float | None:
        """Return how long the race may take; None where rounds end it. Some of the plan's results have their share."""
        if self.measure["minutes"] == "none":
            return None
        whole = 60 * self.measure["minutes"] * (1 - SEARCH_SHARE if self.explains else 1.0)
        share = len(self.results) / max(1, self.planned)
        return max(min(LEAST_SECONDS, whole), whole * share) - spent

    def _search(self, runner: Runner, result: str, leads: bool, rate: float) -> None:
        """Look for the bottleneck and the timeline of a result, and the AU at the user's own step, unless that is there
        already; of the leaders for the minimum step too. `rate`: its speed in items/s.

        A result whose copy in RAM is gone is left out: its speed stands.
        """
        run = self.results[result]
        if not self.explains or not is_there(run):
            return
        before = self.facts.trials(result)
        asked = self._trials(result, leads, rate)
        if before is None or not _answers(self.facts.record(result, before), asked):
            self.facts.note(result, self.facts.folder / result / facts.trials_name(before), runner.make(asked))
        self._note_starving(result)

    def _trials(self, result: str, leads: bool, rate: float) -> Result:
        """Return the trials of a result; the user's step is not tried with what is far too slow for it."""
        asked, step_ms = self.measure, self.step_ms
        hopeless = step_ms is not None and _most_au(self.results[result], step_ms, rate) < HOPELESS_AU_PERCENT
        return replace(
            self.results[result],
            mode="trials",
            bottlenecks=asked["bottlenecks"] != "none",
            timeline=asked["timeline"] != "none",
            step_limit_ms=asked["step_limit_ms"] if leads else 0.0,
            asked_step_ms=0.0 if hopeless else step_ms,
            start_seconds=median(starts) if (starts := list(self.starts.get(result, {}).values())) else None,
        )


def is_there(run: Result) -> bool:
    """Return whether the data that a result reads is where the plan says: a copy in RAM is given back."""
    place = from_json(run.location).held_in
    return place is None or place.exists()


def _waits(run: Result) -> tuple[Any, ...]:
    """Return what results have in common that keep a training waiting alike, on any tier."""
    return run.loader, *(run.settings[name] for name in ("workers", "batch_size", "device"))


def _most_au(run: Result, step_ms: float, rate: float) -> float:
    """Return the AU in percent at a step that a result of so many items/s has by its rate: a trial shows no more."""
    ahead = works_ahead(run.settings["workers"], run.settings["prefetch"])
    return au_percent(step_ms, run.settings["batch_size"], rate, ahead)


def _answers(trials: Mapping[str, Any], run: Result) -> bool:
    """Return whether trials that are there went well, and say all that is asked for now, or why they cannot."""
    broke = {warning["code"] for warning in trials["warnings"]}
    asked, minimum = trials["asked_step"] or {}, trials["minimum_step"]
    stages = getattr(one_run.loader_of(run), "STAGES", ())
    parts = run.bottlenecks and any(stage != "transfer" or run.settings["workers"] for stage in stages)
    other_step = run.asked_step_ms and asked.get("step_ms") != run.asked_step_ms
    lacking = {
        "no-steps": other_step or (run.step_limit_ms and (minimum or {}).get("limit_ms") != run.step_limit_ms),
        "no-bottleneck-trials": parts and trials["bottleneck_trials"] is None,
        "no-timeline": run.timeline and trials["spans"] is None,
    }
    said = all(code in broke for code, lacks in lacking.items() if lacks)
    return trials["status"] == "ok" and said


def middles(race: Race) -> dict[Any, float]:
    """Return the middle speed of each result of a race, in items/s, of the runs that count."""
    every = {path: found.values() for speeds in race.speeds() for path, found in speeds.items()}
    return {path: sorted(found)[len(found) // 2] for path, found in every.items()}


def plain_read(run: Result) -> bool:
    """Return whether a result reads every byte from a warm cache, in one process, with no training step."""
    return (run.task, run.cache, run.step_ms, ranks_of(run.settings)) == ("read", "warm", 0, 1)


def scenario(run: Result) -> tuple[Any, ...]:
    """Return within what alone results are compared."""
    return run.settings["device"], run.task, run.cache, run.step_ms, ranks_of(run.settings)


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

    def __init__(self, results: int, search_share: float) -> None:
        # of a session, when the race is over
        self.results, self.round_number, self.search_share = results, -1, search_share
        self.inplace = sys.stderr.isatty()

    def __call__(self, race: Race) -> None:
        """Say where the race is."""
        if race.round_number == self.round_number and not self.inplace:
            return
        limit = race.limits.seconds
        whole = limit and limit / (1 - self.search_share)
        left = f", {max(0.0, whole - race.seconds) / 60:.1f} min left" if whole else ""
        text = f"round {race.looks + 1}, {len(race.live)} of {self.results} results{left}{self._leaders(race)}"
        if self.inplace:
            width = shutil.get_terminal_size((100, 20)).columns - 1
            print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)
        else:
            self.round_number = race.round_number
            print(text, file=sys.stderr, flush=True)

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
    session = Session(plan, arguments.session, explain=arguments.explain)
    display = Display(len(session.results), SEARCH_SHARE if session.explains else 0.0)
    with contextlib.ExitStack() as stack:
        stack.callback(display.close)
        if arguments.log:
            _log_to(arguments.log, stack)
        there = [run for run in session.results.values() if is_there(run)]
        stack.enter_context(serving(from_json(run.location) for run in there))
        runner = stack.enter_context(Runner(session.sample, session.chance))
        try:
            found = (session.explained if arguments.explain else session.run)(runner, display)
        except KeyboardInterrupt:  # the runs that are there count, and the same command goes on
            sys.exit(128 + signal.SIGINT)
    write_json(arguments.out, found)


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
