"""Reads the experiment: fills in the schema's defaults, and refuses what is wrong before anything runs.

Needs nothing but Snakemake's own dependencies, since the Snakefile calls it each time it is parsed.
"""

import contextlib
import copy
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema
import yaml

from scripts.common import plugins, settings, transforms
from scripts.common.compared import check_folders, machine_folders
from scripts.common.errors import UserError, nearest
from scripts.common.files import PROJECT
from scripts.common.given import merged
from scripts.common.published import published_names, read_published
from scripts.common.schema import CHANGE, VALIDATOR, problems, show
from scripts.common.vocabulary import SCENARIO_KEYS, TASKS
from scripts.loaders import _own
from scripts.machine.cores import cores_allowed, physical_cores_allowed
from scripts.plan.names import check as check_names
from scripts.plan.training_file import with_training

SCHEMA = PROJECT / "workflow" / "schemas" / "config.schema.yaml"
PRESETS = PROJECT / "workflow" / "presets"
FIRST_KEY = {"datasets": "source", "storage": "path"}  # what an entry of these has, of tiers one of the default kind
WORDS = ("auto", "all_but_one")  # that stand for numbers of workers
GUIDE = "guide"  # in a list of workers: the number that each loader's guide would take


def resolve(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `raw` with every default filled in, and the numbers that a word for `workers` stands for.

    Raises UserError that names the key by its full path, the value found, what is allowed and the nearest valid name.
    """
    check_names(raw)
    schema = schema_for(raw)
    config = _with_defaults(copy.deepcopy(dict(raw)), schema)
    _validate(config, schema)
    for entry in with_counted_workers(config):
        entry["workers"], _ = counted_workers(entry["workers"])
    for tier in config["storage"].values():
        for option, fragment in plugins.load("tiers", tier["kind"]).OPTIONS.items():
            if fragment.get("format") == "path" and isinstance(tier.get(option), str):
                tier[option] = os.path.expanduser(tier[option])
    _check_references(config)
    return config


def with_counted_workers(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sweep and the entries of `loaders` whose `workers` are a word."""
    loaders = config.get("loaders")
    entries = [config.get("sweep"), *(loaders if isinstance(loaders, list) else ())]
    return [entry for entry in entries if isinstance(entry, Mapping) and _is_word(entry.get("workers"))]


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value in WORDS


def counted_workers(word: str) -> tuple[list[int], str]:
    """Return the numbers of workers that a word stands for, and of which cores of this machine they were counted."""
    if word == "all_but_one":
        cores = cores_allowed()
        return [max(1, cores - 1)], f"{cores} core{'' if cores == 1 else 's'}"
    cores = physical_cores_allowed()
    shares = {0, 2, -(-cores // 4), -(-cores // 2), cores}  # a quarter and a half are rounded up
    return sorted(shares), f"{cores} physical core{'' if cores == 1 else 's'}"


def guide_workers(loader: Any) -> int:
    """Return the number of workers (threads of a library that has threads) that a loader's guide would take here.

    A loader whose guide names a number says `GUIDE_WORKERS = 4`. For all others it is the number of cores that this
    process may use: the most that PyTorch's DataLoader suggests (docs.pytorch.org/docs/stable/data.html: it warns above
    that), and a thread a core in DALI, SPDL and FFCV.
    """
    return getattr(loader, "GUIDE_WORKERS", None) or cores_allowed()


def check_loader(entry: Mapping[str, Any]) -> None:
    """Raise the UserError that the config would get for this entry of `loaders`, standing alone."""
    check_names({"loaders": [entry]})
    top = _schema()["properties"]
    _splice_loaders(top, [entry], ())
    _validate({"loaders": [entry]}, {"properties": {"loaders": top["loaders"]}})


def _validate(config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    found = problems(config, schema, _advice)
    if found:
        raise UserError("\n".join(f"config: {one}" for one in found))


def requested(raw: Mapping[str, Any], overrides: Mapping[str, Any], asked: Iterable[str] = ()) -> dict[str, Any]:
    """Return what is asked for: `raw`, overridden by its preset, overridden by the command line (`overrides`).

    A preset's loaders stand in place of those of `raw`, but it leaves out none that is asked for by name: a file of the
    user's own, and the loaders in `asked`, whose results are targets. A preset without tasks (a ladder) measures only
    what it lists, and then the targets, which get the task read. Raises UserError for a preset or a target that does
    not exist.
    """
    _check_typed(overrides)
    config = with_training(with_overrides(with_preset(raw, overrides), overrides), overrides)
    if isinstance(config.get("storage"), Mapping):  # --config storage='{ram: null}' leaves that tier out, or a preset
        own = _mapping(raw.get("storage"))
        config["storage"] = {
            name: tier
            for name, tier in config["storage"].items()
            if tier not in (None, "null") or (name in own and own[name] is None)
        }
    if not isinstance(config.get("loaders"), list) or not config["loaders"]:
        return config  # for the schema to refuse
    own = {entry["name"]: entry for entry in named(raw.get("loaders"))}
    laddered = _mapping(config.get("sweep")).get("task") == []
    wanted = [] if laddered or "loaders" in overrides else [name for name, entry in own.items() if "file" in entry]
    for name in dict.fromkeys([*wanted, *asked]):
        present = named(config["loaders"])
        if name in {entry["name"] for entry in present}:
            continue
        if name not in (known := sorted({*plugins.names("loaders"), *own, *(entry["name"] for entry in present)})):
            raise UserError(
                f"results/{name}.json: found no loader {name!r}, allowed are {', '.join(known)}.{nearest(name, known)} "
                f"A file of your own is {{name: {name}, file: PATH}} below loaders in config.yaml (docs/own_loader.md)."
            )
        added = {**own.get(name, {"name": name}), **({"task": ["read"]} if laddered else {})}
        config["loaders"] = [*config["loaders"], added]
    return config


def _check_typed(overrides: Mapping[str, Any]) -> None:
    """Raise UserError for a value of the command line that begins as a list or mapping and is no YAML.

    Snakemake takes it as text.
    """
    for key, value in overrides.items():
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            try:
                yaml.safe_load(value)
            except yaml.YAMLError as error:
                raise UserError(
                    f"config: {key}: found {value!r}: {getattr(error, 'problem', None) or error}; allowed is YAML, in "
                    "which braces, brackets and quotes pair. Correct it."
                ) from None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def named(loaders: Any) -> list[dict[str, Any]]:
    """Return the entries of `loaders` as mappings, without those that have no name, which the schema refuses."""
    entries = [{"name": e} if isinstance(e, str) else e for e in (loaders if isinstance(loaders, list) else ())]
    return [dict(e) for e in entries if isinstance(e, Mapping) and isinstance(e.get("name"), str)]


def with_overrides(raw: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `raw` with the values of the command line (`--config`) in it.

    Snakemake has merged them already, but leaves numbers inside braces and brackets as text: those are read as YAML.
    Other text stays as it is.
    """
    merged = dict(raw)
    for key, value in overrides.items():
        under = merged.get(key)
        nested = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[key] = with_overrides(under, value) if nested else _typed(value)
    return merged


def with_preset(raw: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `raw` with the values of the preset that it (or the command line) names, which override its own.

    A data set or a tier of the same name that `raw` has in full stays as it is.

    Raises UserError for a preset that does not exist.
    """
    name = overrides.get("preset", raw.get("preset", "none"))
    if name == "none":
        return dict(raw)
    known = list(presets())
    if name not in known:
        raise UserError(
            f"config: preset: found {name!r}, allowed are none, {', '.join(known)}.{nearest(str(name), known)} "
            "Name one of them."
        )
    preset = dict(presets()[name])
    own, tiers = _mapping(raw.get("datasets")), _mapping(raw.get("storage"))
    preset["datasets"] = {
        name: entry
        for name, entry in preset.get("datasets", {}).items()
        if "source" not in _mapping(own.get(name))  # a data set of the user's own stays so
    }
    preset["storage"] = {  # and so does a tier with a place of its own, unless the preset leaves it out
        name: entry
        for name, entry in preset.get("storage", {}).items()
        if entry is None or not {"kind", "path"} & set(_mapping(tiers.get(name)))
    }
    return merged(raw, preset)


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Return what each preset says, in the order of their names."""
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(PRESETS.glob("*.yaml"))}


def presets_for(kind: str, dataset: str, own: str) -> list[str]:
    """Return the presets that measure something of a data set of this kind, which the preset `own` may have brought.

    One with a ladder needs all loaders that the ladder names, any other one of its loaders.
    """
    return [
        name
        for name, preset in presets().items()
        if _suits(preset, kind) and (own in ("none", name) or dataset not in presets()[own].get("datasets", {}))
    ]


def _suits(preset: Mapping[str, Any], kind: str) -> bool:
    steps = [step["loader"] for step in preset.get("ladder", ()) if "loader" in step]
    loaders = steps or [entry["name"] for entry in named(preset.get("loaders"))]
    reads = [kind in plugins.kinds(plugins.load("loaders", one)) for one in loaders]
    return all(reads) if steps else any(reads) or not reads


def _typed(value: Any) -> Any:
    """Return text as the YAML value that it spells; lists and mappings part by part."""
    if isinstance(value, Mapping):
        return {key: _typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_typed(part) for part in value]
    if isinstance(value, str):
        with contextlib.suppress(yaml.YAMLError):
            read = yaml.safe_load(value)
            return read if isinstance(read, bool | int | float) or value == "null" else value
    return value


@cache
def _schema_text() -> str:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    sweep = schema["properties"]["sweep"]
    sweep["properties"] = {**settings.schemas(), **sweep["properties"]}
    return json.dumps(schema)


def _schema() -> dict[str, Any]:
    return json.loads(_schema_text())


def schema_for(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config's JSON schema with the OPTIONS of each plug-in that `raw` names in its place."""
    schema = _schema()
    top = schema["properties"]
    top["sweep"]["properties"]["task"]["items"] = {"enum": list(TASKS)}
    top["audio"]["properties"] = plugins.load("kinds", "audio").OPTIONS
    _splice_entries(top["datasets"], raw.get("datasets"), "source", "sources", "datasets", None)
    _splice_kinds(top["datasets"], raw.get("datasets"))
    default_kind = top["storage"]["additionalProperties"]["properties"]["kind"]["default"]
    _splice_entries(top["storage"], raw.get("storage"), "kind", "tiers", "storage", default_kind)
    _splice_entries(top["transforms"], raw.get("transforms"), "transform", "transforms", "transforms", None)
    _splice_loaders(top, raw.get("loaders"), SCENARIO_KEYS)
    _splice_ladder(top, raw.get("ladder"), raw.get("loaders"))
    return schema


def _splice_entries(schema: dict, entries: Any, selector: str, kind: str, key: str, default: str | None) -> None:
    """Give each named entry (of data sets, of tiers) the options of the plug-in it selects."""
    base = schema["additionalProperties"]
    schema["properties"] = {}
    for name, entry in _mapping(entries).items():
        chosen = entry.get(selector, default) if isinstance(entry, Mapping) else None
        if isinstance(chosen, str):
            with below(f"{key}.{name}.{selector}: "):
                schema["properties"][str(name)] = _closed(base, plugins.load(kind, chosen).OPTIONS)


def _splice_kinds(schema: dict, entries: Any) -> None:
    """Give each data set the kinds that its source is for, the first by default, and the options of the one it has.

    Those of audio are in a section of their own.
    """
    for name, closed in schema["properties"].items():
        allowed = plugins.kinds(plugins.load("sources", entries[name]["source"]))
        kind = entries[name].get("kind", allowed[0])
        description = closed["properties"]["kind"]["description"]
        closed["properties"]["kind"] = {"enum": list(allowed), "default": allowed[0], "description": description}
        if kind in allowed:
            module = plugins.load("kinds", kind)
            if not hasattr(module, "SECTION"):
                schema["properties"][name] = _closed(closed, module.OPTIONS)


def _splice_loaders(top: dict, loaders: Any, scenarios: tuple[str, ...]) -> None:
    """Give each loader entry the sweep keys that it understands, the scenarios, and its own options, as lists."""
    schema = top["loaders"]
    schema["prefixItems"] = []
    for position, entry in enumerate(loaders if isinstance(loaders, list) else ()):
        part = schema["items"]
        for one in named([entry]):
            with below(f"loaders[{position}]."):
                module = loader_of(one)
            keys = (*settings.understood(module.SETTINGS), *scenarios)
            lists = {key: _without_default(top["sweep"]["properties"][key]) for key in keys}
            for option, items in _options(module).items():
                lists[option] = {"type": "array", "minItems": 1, "uniqueItems": True, "items": items}
            part = {**_closed(part, lists), "required": ["name"]}
        schema["prefixItems"].append(part)


def _splice_ladder(top: dict, steps: Any, loaders: Any) -> None:
    """Give each step of the ladder the settings and options of its loader; `_check_ladder` refuses another loader."""
    known = {entry["name"]: entry for entry in named(loaders)}
    schema, loader = top["ladder"], None
    schema["prefixItems"] = []
    for step in steps if isinstance(steps, list) else ():
        part = schema["items"]
        loader = _mapping(step).get("loader", loader)
        if isinstance(loader, str) and loader in known:
            module = loader_of(known[loader])
            values = {key: top["sweep"]["properties"][key]["items"] for key in settings.understood(module.SETTINGS)}
            part = {**_closed(part, values | _options(module)), "required": part["required"]}
        schema["prefixItems"].append(part)


def _options(module: Any) -> dict[str, Any]:
    return {name: _without_default(fragment) for name, fragment in getattr(module, "OPTIONS", {}).items()}


def _without_default(fragment: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fragment.items() if key != "default"}


def loader_of(entry: Mapping[str, Any]) -> Any:
    """Return the loader that an entry of `loaders` names: one of feedrate's, or what a file of the user's declares.

    Raises UserError that begins with the entry's key at fault: `name`, or `file` for a file of the user's.
    """
    name = entry["name"]
    if "file" in entry:
        module = _own.declared(name, str(entry["file"]))
        plugins.check_loader(module, f"file: {entry['file']}")
        return module
    try:
        return plugins.load("loaders", name)
    except UserError as error:
        raise UserError(f"name: {error}") from None


@contextlib.contextmanager
def below(key: str) -> Iterator[None]:
    """Name the config's key in a UserError that is raised in the block."""
    try:
        yield
    except UserError as error:
        raise UserError(f"config: {key}{error}") from None


def _closed(base: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `options` as further properties, those without a default required, and no others allowed."""
    needed = [key for key, value in options.items() if "default" not in value]
    return {
        **base,
        "properties": {**base.get("properties", {}), **options},
        "required": [*base.get("required", []), *needed],
        "additionalProperties": False,
    }


def _with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """Fill the defaults of `schema` into `value`, in place, and return it."""
    if isinstance(value, dict):
        for key, part in schema.get("properties", {}).items():
            if key not in value and "default" in part:
                value[key] = copy.deepcopy(part["default"])
            if key in value:
                value[key] = _with_defaults(value[key], part)
    return value


def _check_references(config: Mapping[str, Any]) -> None:
    """Check what a schema cannot: names that refer to one another, paths, and loaders named twice."""
    datasets = config["datasets"]
    if config["dataset"] not in datasets:
        found = config["dataset"]
        raise UserError(
            f"config: dataset: found {found!r}, allowed are the entries of datasets: {', '.join(datasets)}."
            f"{nearest(found, datasets)} Name one of them, or add {found!r} below datasets."
        )
    selected = datasets[config["dataset"]]
    source = plugins.load("sources", selected["source"])
    with below(f"datasets.{config['dataset']}."):
        source.check(selected)
    for name, tier in config["storage"].items():
        with below(f"storage.{name}."):
            plugins.load("tiers", tier["kind"]).check(tier)
    _check_tiers(config["storage"])
    _check_doubled([entry["name"] for entry in named(config["loaders"])])
    swept = {f"loaders[{place}].": entry for place, entry in enumerate(named(config["loaders"]))}
    for where, entry in {"sweep.": config["sweep"], **swept}.items():
        for name in entry.get("transform", ()):
            with below(where):
                transforms.defined(name, config["transforms"])
    _check_ladder(config)
    _check_now(config)
    with below(""):
        _check_compared(config)
        plugins.kind_of(plugins.load("kinds", kind_of(config)), kind_options(config))


def kind_of(config: Mapping[str, Any]) -> str:
    """Return the kind of the selected data set: that of its entry, of which its section's `items` may make another."""
    name = config["datasets"][config["dataset"]]["kind"]
    module = plugins.load("kinds", name)
    return module.KIND_BY[config[module.SECTION]["items"]] if hasattr(module, "KIND_BY") else name


def kind_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the selected data set's kind: of audio its section, of others what is in the entry."""
    entry = config["datasets"][config["dataset"]]
    module = plugins.load("kinds", entry["kind"])
    found = config[module.SECTION] if hasattr(module, "SECTION") else entry
    return {name: found[name] for name in module.OPTIONS}


def _check_tiers(storage: Mapping[str, Any]) -> None:
    """Refuse two tiers in one place: their copies would be one another's."""
    seen: dict[str, str] = {}
    for name, tier in storage.items():
        kind = plugins.load("tiers", tier["kind"])
        found = kind.location(tier, "")
        place = os.path.realpath(found.held_in) if found.held_in else found.uri
        if place in seen:
            key = next((f".{option}" for option in kind.OPTIONS if option in tier), "")
            raise UserError(
                f"config: storage.{name}{key}: found {place}, which tier {seen[place]} has too; allowed is "
                "a place of its own for each tier. Change one of them."
            )
        seen[place] = name


def _check_doubled(names: list[str]) -> None:
    """Refuse a loader that has two entries: their results would have one folder."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if name in seen:
            raise UserError(
                f"config: loaders[{position}].name: found {name!r} twice, here and in loaders[{seen[name]}]; allowed "
                f"is each loader once. Write one entry with its settings as lists: {{name: {name}, workers: [0, 2]}}."
            )
        seen[name] = position


def _check_ladder(config: Mapping[str, Any]) -> None:
    """Refuse a step whose loader is none of `loaders`, and a loader that is there for no task and on no step."""
    entries = named(config["loaders"])
    known = [entry["name"] for entry in entries]
    for number, step in enumerate(config["ladder"]):
        found = step.get("loader") if number == 0 else step.get("loader", known[0])
        if found not in known:
            raise UserError(
                f"config: ladder[{number}].loader: found {repr(found) if found else 'nothing'} for {step['change']!r}, "
                f"allowed are the entries of loaders: {', '.join(known)}.{nearest(found or '', known)} Name one of "
                "them, or add it to loaders."
            )
    in_ladder = {step.get("loader") for step in config["ladder"]}
    for number, entry in enumerate(entries):
        if not entry.get("task", config["sweep"]["task"]) and entry["name"] not in in_ladder:
            raise UserError(
                f"config: loaders[{number}]: found {entry['name']!r}, which has no task and no step of the ladder: "
                "nothing would be measured. Give sweep.task a task, such as read, or remove the loader."
            )


def _check_now(config: Mapping[str, Any]) -> None:
    """Refuse a loader of today that nobody knows; that this experiment leaves it out is no fault, and is said."""
    now = config["report"]["now"]
    known = sorted({*plugins.names("loaders"), *(entry["name"] for entry in named(config["loaders"]))})
    if now is not None and now not in known:
        raise UserError(
            f"config: report.now: found {now!r}, allowed are null, {', '.join(known)}.{nearest(now, known)} "
            "Name one of them."
        )


def _check_compared(config: Mapping[str, Any]) -> None:
    """Refuse folders to compare with that hold no tables, a machine that is there twice, and a wrong published
    table."""
    report, dataset = config["report"], config["dataset"]
    check_folders("report.baseline", [] if report["baseline"] is None else [report["baseline"]], dataset)
    check_folders("report.machines", [folder for _, folder in machine_folders(report["machines"])], dataset)
    for name in published_names(report["published"]):
        read_published(name)


def _advice(error: jsonschema.ValidationError) -> str:
    """Return what to type instead: the value in other brackets, an entry in full, or the default."""
    schema, found, where = error.schema, error.instance, list(error.absolute_path)
    if where[:2] == ["sweep", "workers"] and _is_word(found):
        return f"Write workers: {found}, without brackets: it stands for the whole list."
    if error.validator != "type":
        return CHANGE
    if len(where) == 2 and where[0] in FIRST_KEY:
        value = found if isinstance(found, str) else "..."
        return f"Write {where[1]}: {{{FIRST_KEY[where[0]]}: {value}}}."
    right = next(filter(VALIDATOR(schema).is_valid, _otherwise(found, schema)), None)
    if right is not None:
        return f"Write {show(right)}."
    if "default" in schema and schema["default"] not in ({}, None):
        return f"Write {show(schema['default'])}, which is the default, or another one."
    first = next(iter(schema.get("properties", ())), None)
    if first is None:
        return CHANGE
    return f"Write {{{first}: ...}}." if isinstance(where[-1], int) else f"Write {where[-1]}: {{{first}: ...}}."


def _otherwise(found: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what a value of the wrong type may have been meant to be: a list, an entry, a mapping."""
    yield [found]
    name = next(iter(schema.get("items", {}).get("required", ())), None)
    if isinstance(found, Mapping) and name:  # entries by their names, where each says its own
        parts = {key: part if isinstance(part, Mapping) else {} for key, part in found.items()}
        yield [{name: key, **part} for key, part in parts.items()]
    if isinstance(found, list) and len(found) == 1:
        yield found[0]
    if isinstance(found, list) and found and all(isinstance(part, Mapping) for part in found):
        yield dict(itertools.chain(*(part.items() for part in found)))
