"""Decides what is to be done: which formats, placements, runs and bounds an experiment asks for.

The Snakefile calls it when it is parsed, so it reads no long list and imports nothing heavy.
"""

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import facts, isolated, plugins, transforms
from scripts.common.errors import UserError, nearest
from scripts.common.files import read_json
from scripts.common.location import PATH, Location
from scripts.common.sample import Sample
from scripts.common.settings import TABLE, as_proven
from scripts.common.versions import loader_version
from scripts.common.vocabulary import COLD, PART, SWEPT, TRAINING, WHOLE, ranks_of
from scripts.machine.cores import cores_allowed
from scripts.plan import config as configuration, ladder
from scripts.plan.results import Bound, Result, Tensors
from scripts.plan.sizes import CACHED_SHARE, RAM_SHARE, format_bytes, is_linked, memory_bytes, part_of, too_large
from scripts.plan.suited import Never, never, request_of
from scripts.plan.sweep import Scenario, combinations, slug

HIGHEST_SHARDS = 1000  # a DAG of 4,000 jobs takes Snakemake 4 s
PLACING = 3000  # priority of what must be there before a session begins
MAIN = "main"  # the session of all results whose data can be there at the same time


def by_itself(loader: str) -> str:
    """Return the name of the session that measures one loader, for a call that asks for its results alone."""
    return f"only-{loader}"


NO_DEVICE = "batches for the CPU are copied to no device: device_prefetch has no effect there"
NO_GPU = Never(
    "no NVIDIA GPU is visible on this machine (where the machine that measures has one, set measure.gpu: present)",
    ("device",),
)
# What to type where nothing can be measured, by the last setting that is the reason.
ADVICE = {
    "device": "Write sweep='{device: [cpu]}' behind --config, or measure='{gpu: present}' where another one measures.",
    "task": "Write sweep='{task: [read]}' behind --config.",
    "cache": "Name another state of the page cache, or another tier.",
    "world": "Write sweep='{world: [1]}' behind --config.",
}


class Plan:
    """The experiment of a config, resolved. Raises UserError for a config that is wrong.

    `asked`: loaders whose results are targets of this call; they are in it, whatever the preset says.
    `call_options`: what else the call said of what is measured (`given.kept_options`).
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        overrides: Mapping[str, Any] | None = None,
        project: Path | None = None,
        asked: Iterable[str] = (),
        call_options: Sequence[str] = (),
    ) -> None:
        self.call_options = list(call_options)
        self.given = configuration.with_overrides({}, overrides or {})  # what the command line says
        self.notices: list[str] = []
        wanted = configuration.requested(raw, overrides or {}, asked)
        self.config = configuration.resolve(wanted)
        for word in dict.fromkeys(entry["workers"] for entry in configuration.with_counted_workers(wanted)):
            numbers, cores = configuration.counted_workers(word)
            listed = ", ".join(map(str, numbers))
            self.notices.append(f"workers: {word} is {listed} here: this process may use {cores}.")
        self.project = Path(project or Path.cwd()).resolve()
        self.dataset: str = self.config["dataset"]
        self.options: dict[str, Any] = self.config["datasets"][self.dataset]
        self.source: str = self.options["source"]
        self.tiers: dict[str, dict[str, Any]] = self.config["storage"]
        self.entries = self._of_this_kind(self._only(configuration.named(self.config["loaders"]), asked), set(asked))
        self._swept = {entry["name"]: {**self.config["sweep"], **entry} for entry in self.entries}
        self._locations: dict[tuple[str, str | None, str], Location] = {}
        self._in_memory: dict[str, bool] = {}
        self.loaders: dict[str, ModuleType] = {e["name"]: configuration.loader_of(e) for e in self.entries}
        self.left_out = self._left_out(configuration.named(raw["loaders"]))
        self.formats: dict[str, ModuleType] = {
            module.FORMAT: plugins.format_of(module) for module in self.loaders.values()
        }
        self.notices += [*self._by_guide(), *self._over_budget()]
        self.ladder_steps: list[ladder.LadderStep] = self._ladder_steps() if self.config["ladder"] else []
        if not self.results:
            raise UserError(self._nothing())

    def _only(self, entries: list[dict[str, Any]], asked: Iterable[str]) -> list[dict[str, Any]]:
        """Return the entries of `loaders` that `measure.only` names, and those asked for; without that all."""
        only = self.config["measure"]["only"]
        names = [entry["name"] for entry in entries]
        for name in only:
            if name not in names:
                raise UserError(
                    f"config: measure.only: found {name!r}, allowed are the entries of loaders: {', '.join(names)}."
                    f"{nearest(name, names)} Name some of them."
                )
        return [entry for entry in entries if not only or entry["name"] in {*only, *asked}]

    def _of_this_kind(self, entries: list[dict[str, Any]], asked: set[str]) -> list[dict[str, Any]]:
        """Return the entries of `loaders` that read this kind of data; note the others. Raises UserError for none."""
        fit, others = [], {}
        for entry in entries:
            allowed = plugins.kinds(configuration.loader_of(entry))
            if self.kind in allowed:
                fit.append(entry)
            else:
                others[entry["name"]] = f"{entry['name']} is for {' and '.join(allowed)}"
        wrong = asked & others.keys()
        if wrong or not fit:
            found = "; ".join(others[name] for name in sorted(wrong or others))
            known = [n for n in plugins.names("loaders") if self.kind in plugins.kinds(plugins.load("loaders", n))]
            raise UserError(
                f"config: dataset: found {self.dataset}, which is of the kind {self.kind}, and {found}. Allowed are "
                f"{', '.join(known)}. Name some of them below loaders, or another data set."
            )
        if others:
            self.notices.append(f"Left out, since {self.dataset} is of the kind {self.kind}: {', '.join(others)}.")
        return fit

    def _left_out(self, entries: list[dict[str, Any]]) -> list[str]:
        """Return which entries of the file's `loaders` read this kind of data, and are not measured."""
        others = [entry for entry in entries if entry["name"] not in self.loaders]
        with configuration.below("loaders: "):
            return [e["name"] for e in others if self.kind in plugins.kinds(configuration.loader_of(e))]

    def _by_guide(self) -> list[str]:
        """Return what `guide` in a list of workers stands for on this machine."""
        asked = [name for name, lists in self._swept.items() if configuration.GUIDE in lists["workers"]]
        numbers = {configuration.guide_workers(self.loaders[name]) for name in asked if self._has_workers(name)}
        if not numbers:
            return []
        return [
            f"workers: guide is {' or '.join(map(str, sorted(numbers)))} here, as each loader's guide would have it."
        ]

    def _has_workers(self, loader: str) -> bool:
        return "workers" in self.loaders[loader].SETTINGS

    def _over_budget(self) -> list[str]:
        """Return what is to be said where the ranks of a result, or their workers, are more than the cores."""
        lists = [self._lists(loader) for loader in self.loaders]
        pairs = {pair for each in lists for pair in itertools.product(each["world"], each["workers"])}
        cores = cores_allowed()
        most = max(((world * max(1, each), world, each) for world, each in pairs if world > 1), default=(0, 0, 0))
        if most[0] <= cores:
            return []
        return [
            f"sweep.world: {most[1]} ranks with {most[2]} workers each share {cores} cores. Use fewer "
            "workers or ranks; otherwise these rows (over-budget) are results of an oversubscribed machine."
        ]

    @cached_property
    def shards(self) -> int:
        """The number of shards that the items come in."""
        count = plugins.load("sources", self.source).shards(self.options)
        assert 1 <= count <= HIGHEST_SHARDS, count
        return count

    @property
    def has_gpu(self) -> bool:
        """Whether the machine that measures has an NVIDIA GPU: as the config says, or as this one shows."""
        said = self.config["measure"]["gpu"]
        return gpu_is_visible() if said == "auto" else said == "present"

    def devices(self, wanted: list[str]) -> list[str]:
        """Return the devices that a sweep's list stands for, each once."""
        auto = ["cpu", "cuda"] if self.has_gpu else ["cpu"]
        return list(dict.fromkeys(d for want in wanted for d in (auto if want == "auto" else [want])))

    def settings(self, loader: str, task: str = "read", cache: str = "warm") -> Iterator[dict[str, Any]]:
        """Return every combination of settings that makes a difference to `loader`, each once.

        Of a training it may be that of the last value of each list alone.
        """
        lists = self._lists(loader)
        if task != "read" or cache != "warm":
            lists |= {"transform": [transforms.NONE], "transform_in": ["worker"]}
        if task in TRAINING and self.config["measure"]["train_sweep"] == "last":
            lists = {key: values if key in ("device", "world") else values[-1:] for key, values in lists.items()}
        return combinations(self.loaders[loader], lists)

    def _lists(self, loader: str) -> dict[str, list[Any]]:
        """Return the values of each setting and option that `loader` is swept over."""
        entry = self._swept[loader]
        lists = {key: entry[key] for key in TABLE}
        lists["device"] = self.devices(lists["device"])
        lists["workers"] = self._numbers(loader, lists["workers"])
        for option, fragment in getattr(self.loaders[loader], "OPTIONS", {}).items():
            lists[option] = entry.get(option, [fragment["default"]])
        return lists

    def _numbers(self, loader: str, workers: Iterable[int | str]) -> list[int]:
        """Return a list of workers with the number that `guide` stands for."""
        guide = configuration.guide_workers(self.loaders[loader])
        return list(dict.fromkeys(guide if one == configuration.GUIDE else one for one in workers))

    def own_file(self, loader: str) -> str | None:
        """Return the file of the user's own that a loader is, or None."""
        own = self._swept[loader].get("file")
        return os.path.expanduser(own) if own else None

    @cached_property
    def results(self) -> list[Result]:
        """All runs of the experiment, in the order of the config; those of the ladder that no sweep makes come last."""
        swept = [self._result(*asked) for asked, reason in self._asked if reason is None]
        known = {run.id for run in swept}
        in_ladder = {
            run.id: run
            for ladder_step in self.ladder_steps
            if not ladder_step.reason
            for run in [self._result(ladder_step.loader, ladder_step.tier, Scenario(), ladder_step.settings)]
        }
        return [*swept, *(run for result, run in in_ladder.items() if result not in known)]

    @cached_property
    def _asked(self) -> list[tuple[tuple[str, str, Scenario, dict[str, Any]], Never | None]]:
        """Each (loader, tier, scenarios, settings) that the sweep asks for, and why it can never run."""
        return [
            ((loader, tier, scenario, settings), self._never_runs(loader, tier, scenario, settings))
            for loader in self.loaders
            for tier in self.tiers
            for scenario in self.scenarios(loader, tier)
            for settings in self.settings(loader, scenario.task, scenario.cache)
        ]

    def _never_runs(self, loader: str, tier: str, scenario: Scenario, settings: Mapping[str, Any]) -> Never | None:
        """Return why a result can never run, or None."""
        if settings["device"] == "cuda" and not self.has_gpu:
            return NO_GPU
        module = self.loaders[loader]
        if found := too_large(self, loader, tier, scenario):
            return found
        if reason := transforms.unsuited(self.transform(settings), self.kind):
            return Never(reason, ("transform",))
        request = request_of(
            module, settings, self.location(tier, loader), self.sample, self.kind_options.get("sample_rate")
        )
        return never(module, request, scenario.task, scenario.cache)

    def _ladder_steps(self) -> list[ladder.LadderStep]:
        """Return the ladder's steps, on the first tier with a warm cache: task `read`, no training step."""
        loaders = [ladder_step["loader"] for ladder_step in self.config["ladder"] if "loader" in ladder_step]
        if others := sorted(set(loaders) - set(self.loaders)):
            raise UserError(
                f"config: ladder: found {', '.join(others)}, which cannot read {self.dataset} (kind {self.kind}). "
                "Name a data set that these loaders read (dataset=NAME), or remove the steps."
            )
        reasons = {
            tier: next(filter(None, [self.unfit(tier, "warm"), *(self.unreadable(one, tier) for one in loaders)]), None)
            for tier in self.tiers
        }
        fit = [tier for tier, reason in reasons.items() if not reason]
        if not fit:
            raise UserError(
                f"config: ladder: found only {', '.join(self.tiers)}, where it cannot be measured: "
                f"{next(iter(reasons.values()))}. Add a tier without emulate to storage."
            )

        def first(loader: str) -> dict[str, Any]:
            return {key: values[-1 if key == "device" else 0] for key, values in self._lists(loader).items()}

        def simplified(loader: str, settings: Mapping[str, Any]) -> dict[str, Any]:
            lists = {key: [value] for key, value in settings.items()}
            lists["device"] = self.devices(lists["device"])[-1:]
            lists["workers"] = self._numbers(loader, lists["workers"])
            return next(combinations(self.loaders[loader], lists))

        steps = ladder.ladder_steps(self.config["ladder"], fit[0], TABLE, first, simplified)
        found = ((step, self._never_runs(step.loader, step.tier, Scenario(), step.settings)) for step in steps)
        return [replace(step, reason=reason.reason) if reason else step for step, reason in found]

    def _result(self, loader: str, tier: str, scenario: Scenario, settings: Mapping[str, Any]) -> Result:
        """Return a result: what a session measures in each of its rounds."""
        name, module = slug(settings, scenario), self.loaders[loader]
        measure, result = self.config["measure"], f"{tier}/{loader}/{name}"
        window = scenario.cache in ("warm", "cold") and not self.slowed_down(tier)
        plain = window and scenario.task not in TRAINING and measure["epochs"] == "auto" and ranks_of(settings) == 1
        return Result(
            **self._measured(result, name, settings, scenario.size),
            **vars(scenario),
            group=PART if scenario.size == PART else self.group(tier, loader),
            loader=loader,
            file=self.own_file(loader),
            version=loader_version(module),
            format_version=self.formats[module.FORMAT].VERSION,
            broken=f"{self.folder('runs')}/broken/{loader}.json" if self.own_file(loader) else None,
            tier=tier,
            location=self.location(tier, loader, scenario.size).as_json(),
            format=module.FORMAT,
            written=f"{self.folder('formats', scenario.size)}/{module.FORMAT}",
            epochs=measure["epochs"],
            seconds=measure["seconds"],
            if_leads=self._if_leads(loader, tier, scenario, settings),
            limited_share=measure["limited_share"],
            host_share=self.config["report"]["host_share"],
            transform=self.transform(settings),
            emulate=self.tiers[tier].get("emulate"),
            logs=f"results/tensorboard/{self.dataset}/{result}",
            mode="run" if plain else "epochs",
            proof=f"{self.folder('runs')}/{tier}/{loader}/{self._proof_slug(settings, scenario.size)}/proof.json",
        )

    def _if_leads(self, loader: str, tier: str, scenario: Scenario, settings: Mapping[str, Any]) -> str | None:
        """Return the id of the result that must lead for this one to be measured; None: it is in any case.

        That is reading from a warm cache: of a training and of a cold cache on the same tier, and of all items that of
        a part of them.
        """
        key, lead, where = "cold", replace(scenario, cache="warm"), tier
        if scenario.task in TRAINING:
            key, lead = "trainings", Scenario(size=scenario.size)
        planned = lead in self.scenarios(loader, tier) and not too_large(self, loader, tier, lead)
        if self.config["measure"][key] == "all" or lead == scenario or not planned:
            lead, where = Scenario(size=PART), self.part_tier(loader)
            if scenario.size == PART or where is None or lead not in self.scenarios(loader, where):
                return None
        return f"{where}/{loader}/{slug(settings, lead)}"

    @cached_property
    def part(self) -> int | None:
        """How many items the part has that is measured first; None where all items are at once."""
        return part_of(self)

    @cached_property
    def chosen(self) -> frozenset[str] | None:
        """The results that are measured with all items, by those of a part of them; None where that is not known."""
        file = self.project / self.folder("runs") / "whole.json"
        return frozenset(read_json(file)["results"]) if self.part and file.is_file() else None

    @property
    def not_chosen(self) -> frozenset[str]:
        """The results that are not measured with all items, as far as that is known."""
        if self.chosen is None:
            return frozenset()
        return frozenset(run.id for run in self.results if run.size == WHOLE) - self.chosen

    @property
    def ram_bytes(self) -> int:
        """The bytes that copies in RAM may take together, where a part of the items is measured first."""
        return int(RAM_SHARE * memory_bytes())

    def part_tier(self, loader: str) -> str | None:
        """Return the tier on which a loader reads a part of the items: a disk, if it can read one warm."""
        fit = [t for t in self.tiers if not self.unreadable(loader, t) and not self.unfit(t, "warm")]
        return min(fit, key=self.in_memory, default=None)

    def settled(self, run: Result, by_name: bool = False) -> bool:
        """Return whether nothing is left to measure of a result: it has its sessions, no proof, or was not needed."""
        return self.sessions_left(run, by_name) == 0

    def sessions_left(self, run: Result, by_name: bool = False) -> int:
        """Return how many sessions have to measure a result yet: those without a run of it, if it may be proven.

        A session that ended has measured what it did not need, such as a cold result of what does not lead. What a part
        of the items is enough for is measured with all where the user names its loader (`by_name`).
        """
        if run.id in self.not_chosen and not by_name:
            return 0
        bases, alike = self._measured_so_far
        proof = bases.proof(vars(run))
        if proof and proof["status"] != "ok":
            return 0
        having = [one for one in alike.get(run.group, ()) if run.id in one.results]
        had = sum(bool(one.rounds(run.id) or facts.left_out(vars(run), one)) for one in having)
        return max(0, self.config["measure"]["sessions"] - had)

    @cached_property
    def _measured_so_far(self) -> tuple[facts.Bases, dict[str, list[facts.Session]]]:
        """What is proven, and of each group the sessions that are shown, with those like them that did not end."""
        rows = {"dataset": self.dataset, "results": [vars(run) for run in self.results]}
        every, shown = facts.sessions(self.project, self.dataset), facts.shown_by_group(rows, self.project)
        alike = {group: [one for one in every if one.same == found[0].same] for group, found in shown.items()}
        return facts.Bases(rows, self.project), alike

    @cached_property
    def proofs(self) -> dict[str, Result]:
        """What proves the results: a run of each loader, tier and set of settings by the path of its record."""
        plain = {**vars(Scenario()), "emulate": None, "mode": "proof", "proof": None, "logs": None, "if_leads": None}
        plain["transform"] = None
        return {
            run.proof: replace(
                run,
                id=f"{run.tier}/{run.loader}/{name}",
                slug=name,
                path=run.proof,
                **{**plain, "size": run.size, "settings": as_proven(run.settings)},
            )
            for run in self.results
            for name in [self._proof_slug(run.settings, run.size)]
        }

    @staticmethod
    def _proof_slug(settings: Mapping[str, Any], size: str) -> str:
        """Return the slug of what proves a result with these settings."""
        return slug(as_proven(settings), Scenario(size=size))

    def transform(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the transform of a result with these settings, as `transforms.defined` gives it, or None."""
        return transforms.defined(settings.get("transform"), self.config["transforms"])

    def group(self, tier: str, loader: str) -> str:
        """Return the session that measures a result: copies in RAM that are there one at a time have their own."""
        return f"{tier}_{loader}" if self._one_at_a_time(tier) else MAIN

    @cached_property
    def groups(self) -> list[str]:
        """The sessions of the experiment."""
        return list(dict.fromkeys(run.group for run in self.results))

    def _one_at_a_time(self, tier: str) -> bool:
        return self.config["measure"]["ram_copies"] == "one" and self.in_memory(tier) and not self.part

    def _measured(self, result: str, name: str, settings: Mapping[str, Any], size: str = WHOLE) -> dict[str, Any]:
        """Return what the plan says of every measurement."""
        return {
            **{key: self.config["measure"][key] for key in ("limit_minutes", "threads", "seed")},
            **{"corpus": self.folder("corpus", size), "dataset": self.dataset, "slug": name, "settings": settings},
            "id": result,
        }

    def scenarios(self, loader: str, tier: str) -> list[Scenario]:
        """Return what a loader is measured under on a tier.

        Where a part of the items is measured first, trainings are of that alone: one of all items takes long. What
        memory cannot hold is measured cold.
        """
        found = self._scenarios(loader, tier)
        whole = [one for one in found if one.task in SWEPT] if self.part else found
        swept = [one for one in whole if one.task in SWEPT]
        if swept and all(too_large(self, loader, tier, one) for one in swept) and not self.unfit(tier, "cold"):
            whole.append(Scenario(cache="cold"))
        if not self.part or tier != self.part_tier(loader) or self.loaders[loader].FORMAT in self._users_files:
            return whole
        return [*whole, *(replace(one, size=PART) for one in found if one.cache == "warm")]

    @cached_property
    def _users_files(self) -> set[str]:
        """The formats that are files of the user's own: nobody can write a part of them."""
        return {name for name, module in self.formats.items() if hasattr(module, "PATTERNS")}

    def _scenarios(self, loader: str, tier: str) -> list[Scenario]:
        """Return what the sweep asks for; only SWEPT tasks are swept over caches and steps."""
        lists = self._swept[loader]
        caches = [cache for cache in lists["cache"] if not self.unfit(tier, cache)]
        found = []
        for task in lists["task"]:
            if task in SWEPT:
                found += [Scenario(task, *pair) for pair in itertools.product(caches, lists["step_ms"])]
            elif not self.slowed_down(tier):
                found.append(Scenario(task))
        return found

    def unfit(self, tier: str, cache: str) -> str | None:
        """Return why a state of the page cache makes no sense on a tier, or None."""
        never = self.location(tier).never(cache) if cache in COLD else None
        if never:
            return f"{never}: name a tier that is a disk"
        if cache == "warm" and self.slowed_down(tier):
            return "a warm run does not touch the emulated storage: add cold to sweep.cache"
        return None

    def unreadable(self, loader: str, tier: str) -> str | None:
        """Return why a loader cannot read what is on a tier, or None."""
        return self.location(tier).unreadable(getattr(self.loaders[loader], "READS", (PATH,)))

    def slowed_down(self, tier: str) -> bool:
        """Return whether the kernel slows reads of a tier's disk down, which those from the page cache do not reach."""
        return self.tiers[tier].get("emulate") is not None

    def emulated(self, tier: str) -> bool:
        """Return whether a tier passes for other storage: a slower disk, or one that is far away."""
        of_kind = getattr(self._kind(tier), "emulated", lambda _options: None)
        return self.slowed_down(tier) or of_kind(self.tiers[tier]) is not None

    @cached_property
    def bounds(self) -> list[Bound]:
        """The in-memory ceiling for each device and batch size that a session uses: its control runs."""
        found = []
        for group in self.groups:
            of_group = [run.settings for run in self.results if run.group == group]
            size = PART if group == PART else WHOLE
            for device, batch_size in dict.fromkeys((one["device"], one["batch_size"]) for one in of_group):
                settings = {"device": device, "batch_size": batch_size}
                bound = f"bounds/{group}/{slug(settings)}"
                found.append(Bound(**self._measured(bound, slug(settings), settings, size), group=group, seconds=0.2))
        return found

    @cached_property
    def tensors(self) -> list[Tensors]:
        """The micro-benchmarks of moving tensors, for each device and batch size that a run uses."""
        if not self.config["measure"]["tensors"]:
            return []
        pairs = dict.fromkeys((run.settings["device"], run.settings["batch_size"]) for run in self.results)
        found = []
        for (device, batch_size), repeat in itertools.product(pairs, range(self.config["measure"]["repeats"])):
            settings = {"device": device, "batch_size": batch_size}
            moves = f"tensors/{slug(settings)}/{repeat}"
            data = next((f"{self.folder('formats')}/{name}" for name in self.single_file), None)
            what = {"repeat": repeat, "workers": max(self.readers_at_once), "data": data}
            what["path"] = f"{self.folder('runs')}/{moves}.json"
            found.append(Tensors(**self._measured(moves, slug(settings), settings), **what))
        return found

    @property
    def single_file(self) -> list[str]:
        """The format whose file of all items the micro-benchmarks read from, where one is asked for."""
        return [name for name, module in self.formats.items() if hasattr(module, "SINGLE_FILE")][:1]

    @property
    def skipped(self) -> list[dict[str, Any]]:
        """What the config asks for and this machine cannot have at all: a reason for each loader."""
        return [
            {"loader": name, "tier": tier, "settings": settings, "reason": reason}
            for name in self.loaders
            for tier, settings, reason in self._never(name)
        ]

    def _never(self, loader: str) -> Iterator[tuple[str | None, dict[str, Any], str]]:
        """Yield (tier or None for all, settings, reason) of what a loader is asked for and never runs with."""
        asked = self._swept[loader]
        if {"auto", "cuda"} & {*asked["device"]} and not self.has_gpu:
            yield None, {"device": "cuda"}, NO_GPU.reason
        if "cpu" in self.devices(asked["device"]):
            for ahead in filter(None, asked["device_prefetch"]):
                yield None, {"device": "cpu", "device_prefetch": ahead}, NO_DEVICE
        for tier in self.tiers:
            if reason := self.unreadable(loader, tier):
                yield tier, {}, reason
                continue
            for cache in asked["cache"]:
                if reason := self.unfit(tier, cache):
                    yield tier, {"cache": cache}, reason
            rows = []
            for (name, place, scenario, settings), found in self._asked:
                if found and found is not NO_GPU and (name, place) == (loader, tier):
                    of_result = vars(scenario) | settings
                    row = tier, {key: of_result[key] for key in found.settings}, found.reason
                    rows += [row] if row not in rows else []
            yield from rows

    def _nothing(self) -> str:
        """Return what is wrong with a config of which no result can run."""
        lost = [found for _, found in self._asked if found]
        lost = lost or [Never(row["reason"], tuple(row["settings"])) for row in self.skipped if row["tier"]]
        reason, settings = min(lost, key=lambda found: found is NO_GPU)
        key = next(reversed(settings), None)
        advice = ADVICE.get(key, "Name other loaders, or other tiers or settings of theirs.")
        where, values = "loaders", list(self.loaders)
        if key in ADVICE:
            lists = (entry[key] for entry in self._swept.values())
            where, values = f"sweep.{key}", list(dict.fromkeys(itertools.chain(*lists)))
        listed = ", ".join(map(str, values))
        return f"config: {where}: found {listed}, with which no result can be measured: {reason}. {advice}"

    @property
    def readers_at_once(self) -> list[int]:
        """How many reads the loaders keep under way at once: what the bounds of a tier are measured with."""
        return sorted({max(1, run.settings["workers"] or 0) for run in self.results})

    @property
    def item_sizes(self) -> list[int]:
        """The bytes that an item takes in each format, each once: the sizes of random reads."""
        found = (module for module in self.formats.values() if not hasattr(module, "PATTERNS"))
        return sorted({module.BYTES_PER_ITEM(self.sample) for module in found})

    def readers(self, format: str) -> int:
        """Return the number of parallel readers that a format's layout must serve; 1 where it does not matter."""
        if not self.formats[format].READERS:
            return 1
        of_format = [run.settings for run in self.results if run.format == format]
        return max([1] + [ranks_of(settings) * max(1, settings["workers"] or 0) for settings in of_format])

    def folder(self, stage: str, size: str = WHOLE) -> str:
        """Return the folder of a stage for the selected data set, or a part of it, relative to the project."""
        return f"results/{stage}/{self.dataset}{'' if size == WHOLE else f'/{size}'}"

    def _copy_name(self, tier: str) -> str:
        """Return the pattern of a copy's name: one for each format; in RAM that holds one at a time for each loader."""
        return "{loader}/{format}" if self._one_at_a_time(tier) else "{format}"

    def copy(self, tier: str, size: str = WHOLE) -> str:
        """Return the pattern of the name by which a tier's kind finds a copy, with {format} and perhaps {loader} in it.

        It begins with a hash of the project's path, so that two checkouts share a tier without meeting.
        """
        checkout = hashlib.sha256(os.fsencode(self.project)).hexdigest()[:8]
        name = self._copy_name(tier) if size == WHOLE else f"{size}/{{format}}"
        return f"feedrate-{checkout}/{self.dataset}/{name}"

    def location(self, tier: str, loader: str | None = None, size: str = WHOLE) -> Location:
        """Return where the copy that a loader reads is on a tier; with no loader a pattern of it."""
        if (tier, loader, size) not in self._locations:
            copy = self.copy(tier, size)
            if loader is not None:
                copy = copy.format(loader=loader, format=self.loaders[loader].FORMAT)
            self._locations[tier, loader, size] = self._kind(tier).location(self.tiers[tier], copy)
        return self._locations[tier, loader, size]

    def _kind(self, tier: str) -> ModuleType:
        return plugins.load("tiers", self.tiers[tier]["kind"])

    def in_memory(self, tier: str) -> bool:
        """Return whether a tier's bytes take up RAM, so that its copies are given back after use."""
        if tier not in self._in_memory:  # which is asked for every result, and looked up in the table of mounts
            self._in_memory[tier] = self._kind(tier).location(self.tiers[tier], "").in_memory
        return self._in_memory[tier]

    @property
    def kind(self) -> str:
        """The kind of the data, a file in scripts/kinds."""
        return configuration.kind_of(self.config)

    @property
    def kind_options(self) -> dict[str, Any]:
        """The kind's options."""
        return configuration.kind_options(self.config)

    @cached_property
    def sample(self) -> Sample:
        """What a delivered item is."""
        return plugins.kind_of(plugins.load("kinds", self.kind), self.kind_options).sample

    @property
    def sessions(self) -> dict[str, list[str]]:
        """The ids of the results that each session measures: a session a group, and one for a loader by itself.

        That has the current loader beside it, which is what the loader is to be compared with.
        """
        found = {group: [run.id for run in self.results if run.group == group] for group in self.groups}
        for loader in self.loaders:
            if any(run.group == MAIN and run.loader == loader for run in self.results):
                beside = (loader, self.config["report"]["now"])
                found[by_itself(loader)] = [r.id for r in self.results if r.group == MAIN and r.loader in beside]
        return found

    def as_json(self) -> dict[str, Any]:
        """Return plan.json: a row a result, and what the rules need to make and place its data."""
        preset = self.config["preset"]
        return {
            "dataset": self.dataset,
            "given": self.given,
            "call_options": self.call_options,
            "presets": configuration.presets_for(self.kind, self.dataset, preset),
            "config": {**self.config, "datasets": {self.dataset: self.options}},
            "part": self._part_json(),
            "source": self._source_json(),
            "kind": self.kind,
            "kind_options": self.kind_options,
            "loaders": {
                name: {**plugins.declared(module), "env": isolated.env_of(module)}
                for name, module in self.loaders.items()
            },
            "formats": {
                name: {
                    "env": isolated.env_of(module),
                    "readers": self.readers(name),
                    "version": module.VERSION,
                    "files": getattr(module, "PATTERNS", None),
                }
                for name, module in self.formats.items()
            },
            "tiers": {name: self._tier_json(name) for name in self.tiers},
            "emulated": [tier for tier in self.tiers if self.emulated(tier)],
            "reads": {"item_bytes": self.item_sizes, "readers": self.readers_at_once},
            "results": [vars(run) for run in self.results],
            "proofs": [vars(proof) for proof in self.proofs.values()],
            "sessions": self.sessions,
            "bounds": [vars(bound) for bound in self.bounds],
            "tensors": [vars(move) for move in self.tensors],
            "single_file": self.single_file,
            "skipped": self.skipped,
            "ladder": [
                {
                    "change": step.change,
                    "loader": step.loader,
                    "tier": step.tier,
                    "slug": None if step.reason else slug(step.settings),
                    "reason": step.reason,
                }
                for step in self.ladder_steps
            ],
        }

    def _part_json(self) -> dict[str, Any] | None:
        """Return what the rules need of the part that is measured first: its items, and what is to be made of it."""
        if not self.part:
            return None
        tiers = {self.part_tier(loader) for loader in self.loaders} - {None}
        return {
            "items": self.part,
            "tiers": {
                tier: {"copy": self.copy(tier, PART), "local": str(self.location(tier, size=PART).local or "") or None}
                for tier in self.tiers
                if tier in tiers
            },
            "bytes": {name: format_bytes(self, name) for name in self.formats},
            "linked": [name for name, module in self.formats.items() if is_linked(module)],
            "ram_bytes": self.ram_bytes,
            "cached_bytes": int(CACHED_SHARE * memory_bytes()),
        }

    def _source_json(self) -> dict[str, Any]:
        """Return what the rules of the items need of the source."""
        source, options = plugins.load("sources", self.source), self.options
        fetching = getattr(source, "FETCH_OPTIONS", ())  # how clips are fetched: a change makes nothing again
        beside = {"kind", *fetching, *(() if self.options["kind"] == "audio" else self.kind_options)}
        return {
            "name": self.source,
            "env": isolated.env_of(source),
            "inputs": getattr(source, "inputs", lambda _options: [])(options),
            "choice": {key: value for key, value in options.items() if key not in beside},
            "fetch_options": {key: options[key] for key in fetching},
            "prepared": [f"{self.folder('clips')}/prepared"] if hasattr(source, "prepare") else [],
            "downloads": int(getattr(source, "DOWNLOADS", False)),
            "shards": self.shards,
            "min_clips": options.get("min_clips", "all"),  # most sources have no such option
            "clip_seconds": self.config["audio"]["seconds"],
        }

    def _tier_json(self, tier: str) -> dict[str, Any]:
        """Return what the rules that place copies on a tier need of it; {loader} and {format} stand for themselves.

        `order` is the priority of copies: disks first of all, so that the runs of all loaders interleave. Copies in RAM
        that are there one at a time wait until nothing else can run.
        """
        options = self.tiers[tier]
        return {
            "kind": options["kind"],
            "options": options,
            "place": {key: value for key, value in options.items() if key != "emulate"},  # a change of it copies again
            "copy": self.copy(tier),
            "copy_name": self._copy_name(tier),
            "local": str(self.location(tier).local or "") or None,
            "in_memory": self.in_memory(tier),
            "order": 0 if self._one_at_a_time(tier) else PLACING,
        }


def gpu_is_visible() -> bool:
    """Return whether this machine shows an NVIDIA GPU to this process; asks no library."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "none")
    seen = any(Path("/dev").glob("nvidia[0-9]*")) or any(Path("/proc/driver/nvidia/gpus").glob("*"))
    return seen and not hidden
