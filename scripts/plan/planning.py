"""The plan while Snakemake makes its graph of jobs: the call that the user types builds it, those of its jobs read it.

Also what that call says of itself: how long it will take, what is in its way, and how it ended.
"""

import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.common import facts
from scripts.common.compared import machine_folders
from scripts.common.errors import UserError
from scripts.common.files import read_json, whole_file
from scripts.common.given import kept_options, typed
from scripts.common.plan_file import CALL, read_plan
from scripts.common.published import published_file, published_names
from scripts.common.vocabulary import PART, WHOLE
from scripts.machine.at_work import note_call, of_other_calls, release_lock_of_dead
from scripts.plan import config as configuration, outgoing, room
from scripts.plan.estimate import estimate
from scripts.plan.experiment import MAIN, Plan, by_itself
from scripts.plan.leftovers import remove_from_ram
from scripts.plan.planned import ROWS, Planned
from scripts.plan.results import Result

TARGET = re.compile(r"(?:\./)?results/([^/]+)\.json")
MEASURED_BY = ("minutes", "resolution", "repeats", "train_repeats", "attempts", "bottlenecks")
MEASURED_BY += ("timeline", "steps", "seed")  # keys of `measure` that say how a session goes


def planning(config: Mapping[str, Any], given: Mapping[str, Any], typed: bool, call: Sequence[str] = ()) -> "Planning":
    """Return the plan: built where this is the call that the user `typed`, read where it is that of a job.

    `given` is what the command line says behind `--config`, `call` its words. Raises UserError for a wrong config. The
    lock of a call that died is removed.
    """
    if typed:
        if others := at_work():  # Snakemake's own words would name only its lock
            print(others, file=sys.stderr)
        else:
            release_lock_of_dead(Path.cwd())
        return Built(config, given, kept_options(call))
    dataset = configuration.requested(config, given)["dataset"]
    return Planning(read_plan(Path("results", "runs", dataset, "plan.json")))


def asked_for(targets: Collection[str]) -> list[str]:
    """Return the loaders whose results/NAME.json are all that a call asks for; none where it asks for more."""
    found = [TARGET.fullmatch(str(target)) for target in targets]
    return sorted(one[1] for one in found if one) if targets and all(found) else []


class Planning(Planned):
    """The plan as the rules ask for it."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.source: Mapping[str, Any] = content["source"]
        self.kind: str = content["kind"]
        self.root = Path()

    def need(self, _loader: str) -> None:
        """Have a loader in the plan. That of a job has all that its call asked for."""

    def words(self, _targets: Collection[str]) -> list[str]:
        """Return what the call says before it begins; that of a job says nothing."""
        return []

    @property
    def path(self) -> Path:
        """The file of the plan."""
        return Path(self.folder("runs"), "plan.json")

    @property
    def call_path(self) -> Path:
        """The file that names the call which a job is of; no parameter of a rule, since each call has another."""
        return self.path.with_name(CALL)

    @property
    def shard_names(self) -> list[str]:
        """``0000``, ``0001``, ... one a shard."""
        return [f"{shard:04d}" for shard in range(self.source["shards"])]

    @property
    def groups(self) -> list[str]:
        """The sessions of everything: one of all results whose data can be there at the same time."""
        return list(dict.fromkeys(row["group"] for row in self.content["results"]))

    def sessions_of(self, loader: str, targets: Collection[str]) -> list[str]:
        """Return the sessions whose facts the results of a loader are made of.

        Where nothing but results of loaders is asked for, these are of a session of all, if it was measured as the plan
        asks for it: then none is to be made. Else the loader has a session of its own, beside the current loader.
        """
        self.need(loader)
        groups = list(dict.fromkeys(result.group for result in self.of_loader(loader)))
        if not self._alone(groups, targets):
            return groups
        groups = [group for group in groups if group != PART]  # by itself it is measured with all items
        if self._is_measured(loader):
            return []
        return [by_itself(loader) if group == MAIN else group for group in groups]

    def _alone(self, groups: Collection[str], _targets: Collection[str]) -> bool:
        """Return whether a loader is asked for by itself. A job of a cluster takes the session that is there."""
        return not all(Path(self.folder("runs"), f"session-{group}.json").is_file() for group in groups)

    def _is_measured(self, loader: str) -> bool:
        """Return whether sessions of all, which have ended, hold the results of a loader as the plan asks for them.

        Those with a part of the items alone are no answer to who asks for this loader by name.
        """
        results = {result.id for result in self.of_loader(loader) if result.size == WHOLE}
        shown = facts.shown_by_group(self.content, self.root, results)
        hashes = facts.Bases(self.content, self.root).hashes(results)
        held = {one for sessions in shown.values() for one in facts.matching(sessions[0], hashes)}
        wanted = self.config["measure"]["sessions"]
        ended = all(
            len(sessions) >= wanted and all(one.name == group and one.state["ended"] for one in sessions)
            for group, sessions in shown.items()
        )
        return bool(hashes) and held == hashes.keys() and ended

    def session_digest(self, name: str) -> str:
        """Return a hash of what a session measures and how: a change of it makes the session again.

        More sessions of the same than the config asks for are no change.
        """
        hashes = facts.Bases(self.content, self.root).hashes(self.sessions[name])
        every = facts.sessions(self.root, self.dataset)
        there = sum(one.name == name and one.results == hashes for one in every)
        sessions = max(there, self.config["measure"]["sessions"])
        return f"{self.digest(self.of_session(name), MEASURED_BY)}.{sessions}"

    def content_digest(self) -> str:
        """Return a hash of what the plan says, but for words about loaders: a change of it makes the tables again."""
        facts_of = {
            name: {key: value for key, value in said.items() if "about" not in key}
            for name, said in self.loaders.items()
        }
        content = {**self.content, "loaders": facts_of}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def failures(self, session: str) -> int:
        """Return how many runs of a session failed by the machine so far: where it has grown they are tried again."""
        return facts.failures_of(self.root, self.dataset, session)

    def ended_early(self, shard: str) -> int:
        """Return how many calls ended a shard before each of its items was asked for."""
        path = Path(self.folder("clips"), "store", "ended-early", shard)
        return path.stat().st_size if path.is_file() else 0

    def data_of(self, result: Result) -> str:
        """Return what a result's data is or leaves here; the copy's record where that is nothing."""
        local = result.location.get("held_in") or result.location.get("index")
        pattern = self.tiers[result.tier]["copy_name"] if result.size == WHOLE else f"{result.size}/{{format}}"
        name = pattern.format(loader=result.loader, format=result.format)
        return local or f"{self.folder('placed')}/{result.tier}/{name}.json"

    def chosen(self, results: Iterable[Result], file: Path | None) -> list[Result]:
        """Return those of the results that are measured: of all items what `file` names (measure/choose_whole.py)."""
        if file is None:
            return list(results)
        names = {*read_json(file)["results"]}
        return [one for one in results if one.size != WHOLE or one.id in names]

    def compared_files(self, *keys: str) -> list[str]:
        """Return a file of each of the report's `keys` that the config puts beside this session."""
        asked = self.config["report"]
        given = {
            "baseline": [f"{folder}/runs.csv" for folder in [asked["baseline"]] if folder],
            "machines": [f"{folder}/runs.csv" for _, folder in machine_folders(asked["machines"])],
            "published": [str(published_file(name)) for name in published_names(asked["published"])],
        }
        return [file for key in keys for file in given[key]]


class Built(Planning):
    """The plan of the call that the user types. It is written when the call begins to work, and by no dry run."""

    def __init__(self, config: Mapping[str, Any], given: Mapping[str, Any], call_options: Sequence[str] = ()) -> None:
        self.raw, self.overrides, self.call_options, self.asked, self.said = config, given, call_options, [], False
        self._build()

    def _build(self) -> None:
        self.plan = Plan(self.raw, self.overrides, asked=self.asked, call_options=self.call_options)
        for name in ROWS:
            self.__dict__.pop(name, None)
        super().__init__(self.plan.as_json())
        outgoing.check(outgoing.outgoing(self.plan, self.asked))

    def need(self, loader: str) -> None:
        """Have a loader in the plan that only a target names. Raises UserError for one that nobody knows."""
        if loader not in self.loaders:
            self.asked.append(loader)
            self._build()

    def _alone(self, _groups: Collection[str], targets: Collection[str]) -> bool:
        """Return whether nothing but results of loaders is asked for."""
        return bool(asked_for(targets))

    def begin(self, targets: Collection[str]) -> list[str]:
        """Write the plan, give back what earlier calls left in RAM, and return what to say. Raises UserError where
        another call is at work in the folder, and where there is too little room.
        """
        if others := at_work():
            raise UserError(others)
        if not _only_parts(targets):
            room.check(self.plan, asked_for(targets))
        text = json.dumps(self.content, indent=1)
        if not self.path.is_file() or self.path.read_text(encoding="utf-8") != text:
            with whole_file(self.path) as file:
                file.write(text)
        note_call(Path.cwd())
        self.call_path.write_text(uuid.uuid4().hex)
        return [f"Removed from RAM, left there by an earlier call: {left}" for left in remove_from_ram(self.plan)]

    def words(self, targets: Collection[str]) -> list[str]:
        """Return how long the call will take, what it writes, and what the reader should know of the config; once."""
        if self.said:
            return []
        self.said = True
        loaders = asked_for(targets)
        lines = [] if _only_parts(targets) else [estimate(self.plan, loaders).words(), room.words(self.plan, loaders)]
        lines += [one.words() for one in outgoing.outgoing(self.plan, loaders) if lines]
        return list(filter(None, [*lines, *self.plan.notices, *self.left_out(targets)]))

    def left_out(self, targets: Collection[str]) -> list[str]:
        """Return which loaders of config.yaml the preset leaves out, and how to measure one."""
        names, preset = self.plan.left_out, self.config["preset"]
        if not names or preset == "none" or targets:
            return []
        command = typed(self.plan.given, f"results/{names[0]}.json", self.call_options)
        return [
            f"preset {preset} leaves out {', '.join(names)} of config.yaml's loaders. To measure one of them as well, "
            f"type: {command} (with 'loaders=[...]' beside it you choose all)."
        ]


def at_work() -> str:
    """Return which programs of another call are at work in this folder, and what to do; an empty text for none."""
    others = of_other_calls(Path.cwd(), os.getpid())
    if not others:
        return ""
    orphans = [str(one.process) for one in others if one.snakemake is None]
    stop = f"type: kill {' '.join(orphans)}" if orphans else "press Ctrl-C where it was started"
    return (
        f"found another call at work in this folder: {'; '.join(one.words() for one in others)}. Allowed is one at a "
        f"time. Wait until it has ended, or {stop}. Then type the same command again."
    )


def _only_parts(targets: Collection[str]) -> bool:
    """Return whether a call asks for parts below results/ that are no loader's results: the rest is not its own."""
    return not asked_for(targets) and any(re.match(r"(\./)?results/", str(target)) for target in targets)
