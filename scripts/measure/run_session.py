"""Measures the proven results of a plan in blocks, one visit after the other, until the time is up.

    python -m scripts.measure.run_session --config CONFIG.json --out results/runs/demo/session-main.json

Each visit writes a record beside the result's others, `BLOCK.json`. What is killed goes on where it was: visits that
are there count, as long as the proof that they rely on is the same.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from scripts.common import plugins
from scripts.common.choice import Compared
from scripts.common.counting import Name, Visit, visit_of
from scripts.common.errors import reading, run_main
from scripts.common.files import read_json, write_json
from scripts.common.location import from_json
from scripts.common.serving import serving
from scripts.common.utilisation import TARGET_AU_PERCENT, au_percent, works_ahead
from scripts.common.vocabulary import COLD, PROTOCOL, TRAINING, ranks_of
from scripts.measure import one_run
from scripts.measure.race import Limits, Race, leading
from scripts.measure.visits import Visitor
from scripts.plan.experiment import Plan
from scripts.plan.runs import Run

LENGTHEN = ("minutes", "resolution", "repeats", "train_repeats")  # keys of `measure` that say how long a race is
SEARCH_SHARE = 0.25  # of a session's time, for what explains its finalists
START_WITHIN = (10.0, 3.0, 3.0)  # seconds for which a result's first, second, third window goes on for an epoch start
HOPELESS_AU_PERCENT = TARGET_AU_PERCENT / 2
LEAST_SECONDS = 30.0  # of a race of few of the plan's results, whose share of the time would be less


class Session:
    """The results of a plan, their files, and a race over them."""

    def __init__(self, plan: Plan, group: str, loaders: Iterable[str], out: Path) -> None:
        self.plan, self.measure = plan, plan.config["measure"]
        self.whole = out.with_name(f"state-{group}.json")  # which Snakemake does not delete, as it does an output
        named = "-".join(sorted(loaders := set(loaders)))
        named = named if len(named) < 100 else hashlib.sha256(named.encode()).hexdigest()[:16]
        self.state = out.with_name(f"state-{group}-{named}.json") if named else self.whole
        self.now = plan.config["report"]["now"]
        self.asked = asked = loaders
        every = [run for run in plan.runs if run.group == group]
        runs = [run for run in every if not asked or run.loader in asked]
        self.planned = sum(not self._unfit(run) for run in every)  # some may have to be proven yet
        self.runs = {run.path: run for run in runs if self._proven(run)}
        self.chance = random.Random(f"{self.measure['seed']}:{group}:{os.getpid()}")
        self.sample = plan.sample
        self.name = group
        self.again: set[str] = set()  # results of which a visit was deleted
        self.failed: set[str] = set()  # results of which a visit that is there has failed
        self.starving: set[tuple[Any, ...]] = set()  # of `_waits`: what a trial showed to starve the user's own step
        self.starts: dict[str, dict[int, float]] = {}  # seconds that an epoch start took, by result and block

    @staticmethod
    def _proven(run: Run) -> bool:
        proof = Path(run.proof)
        with reading(proof, "run_loader"):
            return proof.is_file() and read_json(proof)["status"] == "ok"

    @staticmethod
    def _unfit(run: Run) -> bool:
        """Return whether a result is known to have no proof that went well: it takes none of the session's time."""
        return Path(run.proof).is_file() and not Session._proven(run)

    def known(self) -> dict[str, dict[int, Visit]]:
        """Return earlier visits by result and block; what was measured otherwise is deleted, what has failed noted."""
        found: dict[str, dict[int, Visit]] = {}
        for path, run in self.runs.items():
            proof = read_json(Path(run.proof))
            said = one_run.relied_on(proof, run)
            for file in visits_of(path):
                with reading(file, "run_session"):
                    record = read_json(file)
                tried_again = record["status"] == "failed" and proof["started"] > record["started"]
                if record["protocol"] != PROTOCOL or record["proof"] != said or tried_again:
                    file.unlink()
                    self.again.add(path)
                    Path(path).with_name("trials.json").unlink(missing_ok=True)
                elif record["clips_per_second"]:
                    found.setdefault(path, {})[int(file.stem)] = visit_of(record)
                    self._note_start(path, int(file.stem), record)
                elif record["status"] == "failed":
                    self.failed.add(path)
            self._note_starving(path)
        return {path: visits for path, visits in found.items() if path not in self.failed}

    def _note_starving(self, path: str) -> None:
        """Note what an earlier trial says of the user's own step."""
        file = Path(path).with_name("trials.json")
        with reading(file, "run_session"):
            tried = read_json(file)["asked_step"] if file.is_file() else None
        known = tried and tried["step_ms"] == self.plan.config["report"]["step_ms"]
        if known and tried["au_percent"] < TARGET_AU_PERCENT:
            self.starving.add(_waits(self.runs[path]))

    def run(self, visitor: Visitor, say: Any) -> dict[str, Any]:
        """Take the race to its end, look for what explains the finalists, and return what the session's file holds.

        A session that was stopped or killed goes on with the time that it had left: what it has spent is noted after
        each visit.
        """
        known, asked = self.known(), {key: self.measure[key] for key in LENGTHEN}
        before, apart = self._before(asked), self._apart(known)
        new = (set(self.runs) - set(known) - self.failed) | self.again | apart
        taking, spent = set(self.runs), 0.0
        others = self._race(visitor, say, {path: visits for path, visits in known.items() if path not in new})
        beside = new | (self._companions(others, new) if new else set())
        fresh, since = beside, self._first_block()  # earlier visits of theirs were not side by side
        if before and before["asked"] != asked:
            spent = before["race_seconds"]
        elif before and before["ended"]:  # only what is new, beside what leads of the others
            taking = beside
        elif before:
            taking, spent = new | (taking & set(before["taking"])), before["spent"]
            fresh, since = new | set(before.get("fresh", ())), before.get("since", since)
        whole = before["race_seconds"] if before and taking != set(self.runs) else None  # of a race of all

        def noted(race: Race) -> None:
            now = {"asked": asked, "ended": "", "taking": sorted(taking), "spent": spent + race.seconds}
            now |= {"fresh": sorted(fresh), "since": since}
            write_json(self.state, {**now, "race_seconds": now["spent"] if whole is None else whole})
            say(race)

        race = self._race(visitor, noted, known, taking, spent)
        race.fresh, race.since = fresh, since
        began = time.monotonic()
        if taking:
            race.run()
        race_seconds = time.monotonic() - began
        every = self._race(visitor, say, race.made)  # with what was not in this race
        finalists = self._explained(visitor, every)
        ended = race.ended or "nothing to measure"
        return {
            "group": self.name,
            "ended": ended,
            "asked": asked,
            "race_seconds": spent + race_seconds if whole is None else whole,
            "seconds": time.monotonic() - began,
            "blocks": race.block,
            "visits": race.visits,
            "made_again": race.made_again,
            "left_early": sorted(set(race.conditions) - set(race.live)),
            "finalists": finalists,
            "finished": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def _before(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return how far an earlier session came: one of the same loaders, or a whole one that has ended.

        Of the time of a whole one these loaders had their share.
        """
        found = []
        for file in (self.state, self.whole):
            with reading(file, "run_session"):
                found.append(read_json(file) if file.is_file() else None)
        own, whole = found
        if not whole or not whole["ended"] or (own and (not own["ended"] or own["asked"] == asked)):
            return own
        share = len(self.runs) / self.planned if self.asked and self.planned else 1.0
        return {**whole, "race_seconds": share * whole["race_seconds"]}

    def _race(
        self,
        visitor: Visitor,
        say: Any,
        made: Mapping[str, dict[int, Visit]],
        taking: Iterable[str] | None = None,
        spent: float = 0.0,
    ) -> Race:
        """Return a race over the results `taking` (default: all) that has the visits `made`, before it is run."""
        taking = set(self.runs if taking is None else taking)
        return Race(
            conditions={path: condition(self.runs[path]) for path in sorted(taking)},
            visit=lambda path, block, attempt: self._visit(visitor, path, block, attempt),
            control=lambda block, number: self._control(visitor, block, number),
            accept=self._accept,
            clock=time.monotonic,
            limits=Limits(
                self._race_seconds(len(taking), spent),
                self.measure["repeats"] if self.measure["minutes"] == "none" else None,
                self.measure["resolution"],
                self.measure["attempts"],
            ),
            chance=self.chance,
            say=say,
            keep={path for path in taking if self.runs[path].loader == self.now},
            made={path: dict(visits) for path, visits in made.items() if path in self.runs},
            first_block=self._first_block(),
            failed=taking & self.failed,
            most_visits={path: self.measure["train_repeats"] for path in taking if self.runs[path].task in TRAINING},
            names=compared_over_tiers(self.runs),
        )

    def _first_block(self) -> int:
        """Return a block that no session of this data set has used, whatever its loaders: what has the same block
        was measured side by side.
        """
        folder = Path(self.plan.folder("runs"))
        used = [-1]
        for file in folder.glob("*/*/*/*.json"):
            if file.stem.isdigit():  # of a control run ten times the block, and its number
                used.append(int(file.stem) // (10 if file.relative_to(folder).parts[0] == "bounds" else 1))
        return max(used) + 1

    def _apart(self, known: Mapping[str, Mapping[int, Visit]]) -> set[str]:
        """Return the results that were measured without those that most others of their condition were beside.

        A session of single loaders (`snakemake results/NAME.json`) leaves such; one of the same loaders has none.
        """
        if self.asked:
            return set()
        beside: dict[tuple[Any, ...], list[set[str]]] = {}  # of each condition, who is compared, directly or by others
        for path, visits in known.items():
            groups = beside.setdefault(condition(self.runs[path]), [])
            met = [group for group in groups if any(visits.keys() & known[one].keys() for one in group)]
            groups[:] = [group for group in groups if group not in met] + [{path}.union(*met)]
        return {path for groups in beside.values() for group in sorted(groups, key=len)[:-1] for path in group}

    def _companions(self, race: Race, new: Iterable[str]) -> set[str]:
        """Return what new results are visited beside: the fastest of their conditions, and what is explained."""
        fastest = (
            max(leaders, key=lambda one, table=table: table.center(one).speed) for table, leaders in race.leaders()
        )
        theirs = {condition(self.runs[path]) for path in new}
        return {path for path in (*fastest, *self._finalists(race)) if condition(self.runs[path]) in theirs}

    def _visit(self, visitor: Visitor, path: str, block: int, attempt: int) -> Visit:
        run = self.runs[path]
        file = attempt_of(Path(path), block, attempt)
        asked = replace(run, repeat=block, attempt=attempt, path=str(file), seed=run.seed + block)
        record = visitor.make(replace(asked, **self._start(path, block)), file)
        self._note_start(path, block, record)
        return visit_of(record)

    def _start(self, path: str, block: int) -> dict[str, Any]:
        """Return what a visit is told of an epoch start: what it took in other blocks, and how long to wait for one.

        A proof saw one too, but beside other jobs; it stands where an epoch is too long to be waited for.
        """
        known = [seconds for other, seconds in self.starts.get(path, {}).items() if other != block]
        within = START_WITHIN[len(known)] if len(known) < len(START_WITHIN) else 0.0
        return {"start_seconds": median(known) if known else None, "start_within": within}

    def _note_start(self, path: str, block: int, record: Mapping[str, Any]) -> None:
        """Note what an epoch start took, where one was in the window of this visit."""
        if record.get("epoch_start_from") == "window":
            self.starts.setdefault(path, {})[block] = record["epoch_start_seconds"]

    def _accept(self, path: str, block: int, attempt: int) -> None:
        os.replace(attempt_of(Path(path), block, attempt), Path(path).with_name(f"{block}.json"))

    def _control(self, visitor: Visitor, block: int, number: int) -> None:
        for bound in self.plan.bounds:
            if bound.group == self.name:
                visitor.control(bound, Path(bound.path).with_name(f"{block * 10 + number}.json"))

    def _finalists(self, race: Race) -> list[str]:
        """Return what is explained of each device, from a warm cache: the fastest, what the report will name first, and
        what one has now; of a session of a few loaders only what the report will name first.
        """
        found, names = [], compared_over_tiers(self.runs)
        for speeds in filter(None, race.speeds()):
            if not plain_read(self.runs[next(iter(speeds))]):
                continue
            paths = {name_of(self.runs[path]): path for path in speeds}
            named = {name: speeds[path] for name, path in paths.items()}
            compared = Compared(named, together=names.keys() >= speeds.keys())
            middle = {paths[name]: compared.results.center(name).speed for name in named}
            first = [paths[name] for name in leading(compared.results)]
            best = {name[:2]: name for name in sorted(named, key=lambda name, middle=middle: middle[paths[name]])}
            choice, _ = compared.choose(  # as the report does: the fastest settings of each loader and tier
                best.values(),
                lambda one, paths=paths: self._expense(paths[one]),
                lambda one, paths=paths, middle=middle: self._starves(paths[one], middle[paths[one]]),
            )
            chosen = paths[choice.key]
            had = [path for path in speeds if self.runs[path].loader == self.now]
            had = sorted(had, key=middle.__getitem__)[-1:]
            fastest = max(first, key=middle.__getitem__)
            if compared.loaders and self.runs[fastest].loader == self.runs[chosen].loader:
                fastest = chosen  # on another tier, whose files are in memory too
            found += dict.fromkeys([chosen] if self.asked else [fastest, chosen, *had])
        return found

    def _explained(self, visitor: Visitor, race: Race) -> list[str]:
        """Search the finalists, also those that are such only once another was seen to starve the user's own step."""
        found: list[str] = []
        first, middle = {path for _, leaders in race.leaders() for path in leaders}, middles(race)
        while more := [path for path in self._finalists(race) if path not in found]:
            for path in more:
                self._search(visitor, path, path in first, middle[path])
            found += more
        return found

    def _starves(self, path: str, rate: float) -> bool:
        """Return whether a result, of so many clips/s, does not feed the user's own step, as far as is known by now."""
        run, step_ms = self.runs[path], self.plan.config["report"]["step_ms"]
        if step_ms is None:
            return False
        return _most_au(run, step_ms, rate) < TARGET_AU_PERCENT or _waits(run) in self.starving

    def _expense(self, path: str) -> tuple[int, bool, int]:
        """Return what makes one of several equal results the cheaper one, as the report does, as far as is known."""
        run = self.runs[path]
        module, settings = self.plan.loaders[run.loader], run.settings
        copies = self.plan.in_memory(run.tier) + bool(getattr(module, "PRELOADS", False))
        return copies, plugins.lifetime(module, settings) != "lasting", settings["workers"] or 0

    @property
    def explains(self) -> bool:
        """Whether what explains the finalists is looked for."""
        return self.measure["bottlenecks"] != "none" or self.measure["timeline"] != "none"

    def _race_seconds(self, results: int, spent: float) -> float | None:
        """Return how long a race of so many of the plan's results may take; None where blocks end it."""
        if self.measure["minutes"] == "none":
            return None
        whole = 60 * self.measure["minutes"] * (1 - SEARCH_SHARE if self.explains else 1.0)
        return max(min(LEAST_SECONDS, whole), whole * results / max(1, self.planned)) - spent

    def _search(self, visitor: Visitor, path: str, leads: bool, rate: float) -> None:
        """Look for the bottleneck and the timeline of a result, and the AU at the user's own step, unless that is there
        already; of what leads for the minimum step too. `rate`: its speed in clips/s.
        """
        out = Path(path).with_name("trials.json")
        if not self.explains:
            return
        trials = read_json(out) if out.is_file() else None
        asked = self._trials(path, out, leads, rate)
        if not trials or not _answers(trials, asked):
            trials = visitor.make(asked, out)
        self._note_starving(path)

    def _trials(self, path: str, out: Path, leads: bool, rate: float) -> Run:
        """Return the trials of a result, whose record is `out`.

        The user's own step is not tried with what is so slow that its rate says enough.
        """
        asked, step_ms = self.measure, self.plan.config["report"]["step_ms"]
        hopeless = step_ms is not None and _most_au(self.runs[path], step_ms, rate) < HOPELESS_AU_PERCENT
        return replace(
            self.runs[path],
            mode="trials",
            path=str(out),
            bottlenecks=asked["bottlenecks"] != "none",
            timeline=asked["timeline"] != "none",
            step_limit_ms=asked["step_limit_ms"] if leads else 0.0,
            asked_step_ms=0.0 if hopeless else step_ms,
            start_seconds=median(starts) if (starts := list(self.starts.get(path, {}).values())) else None,
        )


def _waits(run: Run) -> tuple[Any, ...]:
    """Return what results have in common that keep a training waiting alike, on any tier."""
    return run.loader, *(run.settings[name] for name in ("workers", "batch_size", "device"))


def _most_au(run: Run, step_ms: float, rate: float) -> float:
    """Return the AU in percent at a step that a result of so many clips/s has by its rate: a trial shows no more."""
    ahead = works_ahead(run.settings["workers"], run.settings["prefetch"])
    return au_percent(step_ms, run.settings["batch_size"], rate, ahead)


def _answers(trials: Mapping[str, Any], run: Run) -> bool:
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
    """Return the middle speed of each result of a race, in clips/s, of the visits that count."""
    every = {path: found.values() for speeds in race.speeds() for path, found in speeds.items()}
    return {path: sorted(found)[len(found) // 2] for path, found in every.items()}


def plain_read(run: Run) -> bool:
    """Return whether a result reads every byte from a warm cache, in one process, with no training step."""
    return (run.task, run.cache, run.step_ms, ranks_of(run.settings)) == ("read", "warm", 0, 1)


def condition(run: Run) -> tuple[Any, ...]:
    """Return within what alone results are compared."""
    return run.settings["device"], run.task, run.cache, run.step_ms, ranks_of(run.settings)


def name_of(run: Run) -> Name:
    """Return what names a result within its condition."""
    return Name(run.loader, run.tier, run.slug)


def compared_over_tiers(runs: Mapping[str, Run]) -> dict[str, Name]:
    """Return the names of the results in whose condition the data is in memory on every tier, by their paths."""
    away = {condition(run) for run in runs.values() if run.cache in COLD or run.emulate or not run.location.get("path")}
    return {path: name_of(run) for path, run in runs.items() if condition(run) not in away}


def visits_of(path: str) -> list[Path]:
    """Return the records of a result's visits that count, in the order of their blocks."""
    found = [file for file in Path(path).parent.glob("*.json") if file.stem.isdigit()]
    return sorted(found, key=lambda file: int(file.stem))


def attempt_of(path: Path, block: int, attempt: int) -> Path:
    """Return where an attempt of a visit is written; the one that counts is renamed to BLOCK.json."""
    return path.with_name(f"{block}.attempt-{attempt}.json")


class Display:
    """The progress of a session: a line redrawn in place on a terminal, else a line a block."""

    def __init__(self, results: int, search_share: float) -> None:
        self.results, self.block, self.search_share = results, -1, search_share  # of a session, when the race is over
        self.inplace = sys.stderr.isatty()

    def __call__(self, race: Race) -> None:
        """Say where the race is."""
        if race.block == self.block and not self.inplace:
            return
        limit = race.limits.seconds
        whole = limit and limit / (1 - self.search_share)
        left = f", {max(0.0, whole - race.seconds) / 60:.1f} min left" if whole else ""
        text = f"block {race.looks + 1}, {len(race.live)} of {self.results} results{left}{self._leaders(race)}"
        if self.inplace:
            width = shutil.get_terminal_size((100, 20)).columns - 1
            print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)
        else:
            self.block = race.block
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
        tier, loader, slug = Path(path).parts[-4:-1]
        same = [one for one in race.conditions if Path(one).parts[-4:-2] == (tier, loader)]
        return f"{loader} on {tier}{f' ({slug})' if len(same) > 1 else ''}"

    def close(self) -> None:
        """End the line."""
        if self.inplace:
            print(file=sys.stderr)


def main() -> None:
    """Measure one session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, type=json.loads, help="the config as JSON")
    parser.add_argument("--group", default="main", help="of the results that are there at the same time")
    parser.add_argument("--loaders", nargs="*", default=[], help="only these (default: all of the group)")
    parser.add_argument("--out", required=True, type=Path, help="JSON file of the session")
    parser.add_argument("--log", type=Path, help="file for what the visits print (default: stderr)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _as_interrupt)
    session = Session(Plan(arguments.config), arguments.group, arguments.loaders, arguments.out)
    display = Display(len(session.runs), SEARCH_SHARE if session.explains else 0.0)
    with contextlib.ExitStack() as stack:
        stack.callback(display.close)
        if arguments.log:
            _log_to(arguments.log, stack)
        stack.enter_context(serving(from_json(run.location) for run in session.runs.values()))
        visitor = stack.enter_context(Visitor(session.sample, session.chance))
        try:
            found = session.run(visitor, display)
        except KeyboardInterrupt:  # the visits that are there count, and the same command goes on
            sys.exit(128 + signal.SIGINT)
    write_json(session.state, found)
    write_json(arguments.out, found)


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


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
