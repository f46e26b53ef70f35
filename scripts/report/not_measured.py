"""What the report has no answer to, as questions, each with what would answer it."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import ModuleType
from typing import Any

import yaml

from scripts.common.files import PROJECT
from scripts.common.given import config_words
from scripts.common.text import duration_text
from scripts.report.commands import command

PRESETS = PROJECT / "workflow" / "presets"

Tables = Mapping[str, Any]

_PRESETS = {  # by table or chart: the preset that measures it
    "ladder": "ladder",
    "seconds": "tensordict",
    "tensors": "tensor_loading",
    "concurrency": "concurrency",
    "in_flight": "far",
}
_COMMANDS = {  # of the others what a call of snakemake needs, after --config, the data set and the session's preset
    "parts": "measure='{bottlenecks: candidates}'",
    "timeline": "measure='{timeline: candidates}'",
    "training": "sweep='{task: [read, train, lightning]}'",
    "cold": "sweep='{cache: [warm, cold]}'",
    "scaling": "sweep='{workers: auto}'",
    "batch_size": "sweep='{batch_size: [16, 32, 64]}'",
    "device_prefetch": "sweep='{device_prefetch: [0, 2]}'",
}

_SWEPT = {  # the key of `sweep` that each asks for
    "cold": "cache",
    "scaling": "workers",
    "batch_size": "batch_size",
    "device_prefetch": "device_prefetch",
}

_NEEDS = {  # by table, where that is empty
    "parts": (
        "What is the bottleneck?",
        "`bottlenecks: candidates` below `measure` in `config.yaml`, and loaders whose parts can be left out",
    ),
    "ladder": ("What is each optimisation worth?", "the steps' runs"),
    "training": (
        "What does Lightning cost beside a bare loop?",
        "`train` and `lightning` in `sweep.task` of `config.yaml`",
    ),
    "seconds": (
        "How many seconds do five epochs take, as in the TensorDict report?",
        "all runs with the same number of epochs",
    ),
    "noise": ("How steady was the machine?", "control runs, which every session makes"),
    "tensors": (
        "What does moving tensors between processes cost?",
        "`tensors: true` below `measure`",
    ),
}


def not_measured(tables: Tables, charts: Mapping[str, ModuleType], rows: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return `question`, `needs`, `command` and `takes` of each table and chart without anything in it.

    Each command stands there once. `rows` are those of the charts. `command` is what to type for it, empty where no
    config alone does; `takes` is how long its session is, by the preset that it names or by the session that is there.
    """
    return list(_asked(tables, charts, rows))


def minutes_text(tables: Tables) -> str:
    """Return how long it took until all results were there, in a sentence; empty where none is."""
    first, last = (tables["host"][f"{end}_started"] for end in ("first", "last"))
    results = sum(row["status"] == "ok" for row in tables["ranking"])
    if not first or not results:
        return ""
    minutes = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds() / 60
    took = f"From the first measurement to the last it was {duration_text(60 * minutes)}, pauses included."
    return f"{results} results are there. {took} What is there is not measured again."


def _asked(tables: Tables, charts: Mapping[str, ModuleType], rows: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    said = set()
    found: Iterable[tuple[str, str, str]] = [(name, *pair) for name, pair in _NEEDS.items() if not tables[name]]
    found = [*found, *((name, chart.QUESTION, chart.NEEDS) for name, chart in charts.items() if not rows[name])]
    found += _of_a_gpu(tables)
    for name, question, needs in found:
        command = _command(tables, name)
        if said.isdisjoint({needs, question, command}):
            said |= {needs, question, command} - {""}
            takes = _takes(tables, name) if command else ""
            yield {"question": question, "needs": f"Needs {needs}.", "command": command, "takes": takes}


def _of_a_gpu(tables: Tables) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the question and the needs of what is worth trying where results were measured on a GPU."""
    rows = [row for row in tables["ranking"] if row["device"] == "cuda" and row["items_per_second"]]
    options = {row["loader"]: [] for row in rows}
    for row in rows:
        options[row["loader"]].append(json.loads(row["options"] or "{}"))
    if rows and not any(one.get("device_prefetch") for found in options.values() for one in found):
        yield "device_prefetch", "What does copying batches ahead to the GPU save?", "a `device_prefetch` above 0"
    kept = [one.get("keep") for one in options.get("resident", ())]
    if kept and "device" not in kept:
        yield "keep", "How fast is it if all of the data lies on the GPU?", "`keep: device` of the loader `resident`"


def _takes(tables: Tables, name: str) -> str:
    measure = tables["dataset"]["measure"]
    if name in _PRESETS:
        measure = measure | _preset(_PRESETS[name]).get("measure", {})
    minutes = measure.get("minutes", "none")
    if minutes == "none":
        return "`snakemake -n` says how long"
    return f"{minutes:g} min at most"


def _command(tables: Tables, name: str) -> str:
    """Return what to type, with the data set and, where the command has none of its own, the preset of the session."""
    if preset := _PRESETS.get(name):
        suits = tables["dataset"].get("presets")
        return command(tables, f"preset={preset}", _preset(preset)) if suits is None or preset in suits else ""
    if name == "keep":
        entries = [one | {"keep": ["host", "device"]} if one["name"] == "resident" else one for one in _entries(tables)]
        return command(tables, _loaders(entries))
    if name not in _COMMANDS:
        return ""
    change = _COMMANDS[name]
    if name in _SWEPT:
        change = f"{_freed(tables, _SWEPT[name])} {change}"
        if "read" not in tables["dataset"]["config"].get("sweep", {}).get("task", ["read"]):
            change = change.replace("sweep='{", "sweep='{task: [read], ", 1)
    return command(tables, change)


def _preset(name: str) -> dict[str, Any]:
    return yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))


def _freed(tables: Tables, key: str) -> str:
    """Return the loaders to name where each of the session's has values of its own for a key of `sweep`: all of them,
    without those values, are swept over what `sweep` says. A file of the user's own keeps its own.
    """
    able = {row["loader"] for row in tables["ranking"] if row.get(key, 0) is not None}
    entries = _entries(tables)
    swept = [entry for entry in entries if entry["name"] in able and "file" not in entry]
    if not swept or not all(key in entry for entry in swept):
        return ""
    return _loaders([{k: v for k, v in entry.items() if entry not in swept or k != key} for entry in entries])


def _entries(tables: Tables) -> list[dict[str, Any]]:
    """Return the entries of `loaders` of the session."""
    entries = tables["dataset"]["config"].get("loaders", ())
    return [{"name": entry} if isinstance(entry, str) else dict(entry) for entry in entries]


def _loaders(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return the word of a shell that names these entries of `loaders`."""
    named = [entry["name"] if set(entry) == {"name"} else dict(entry) for entry in entries]
    return shlex.quote(*config_words({"loaders": named}))
