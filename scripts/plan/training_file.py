"""The user's own training in the plan: what attach.json says of it becomes batch, step, workers and items.

It is read on each call. The config that is stored has its numbers in place of the path.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError

VERSION = 1  # of attach.json, scripts/attach/feedrate_attach.py
NAMES = {"file", "verdict", "au_percent", "au_low", "au_high", "batch", "workers", "sample_rate", "seconds"}
NUMBERS = ("items_per_second", "headspace_items_per_second", "step_ms", "host_share")
WRITE = "Write it with: python scripts/attach/feedrate_attach.py train.py (docs/attach.md)."

Row = Mapping[str, Any]


def read_training(path: str) -> dict[str, Any]:
    """The numbers of a training: AU, items a second with and without waiting, step, batch, workers, sound.

    Raises UserError for a file that is not there, is none of attach's, or saw no training.
    """
    try:
        found = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"config: training: found no file {path!r} ({error.strerror}). {WRITE}") from None
    except ValueError:
        raise UserError(f"config: training: {path}: found no JSON, allowed is an attach.json. {WRITE}") from None
    if not isinstance(found, Mapping) or found.get("version") != VERSION or "verdict" not in found:
        raise UserError(f"config: training: {path}: found no attach.json of version {VERSION}. {WRITE}")
    if found["au"] is None:
        raise UserError(f"config: training: {path}: it saw no training: {'; '.join(found['notes'])}. {WRITE}")
    au, loader, audio = found["au"], found["loader"], found.get("audio") or {}
    items = found["batch"]["items"]
    return {
        "file": str(path),
        "verdict": found["verdict"],
        **{f"au_{name}": au[name] for name in ("percent", "low", "high")},
        **{name: found[name] for name in NUMBERS},
        "batch": round(items) if items else None,
        "workers": loader["num_workers"],
        "sample_rate": audio.get("sample_rate"),
        "seconds": audio.get("seconds"),
    }


def settings(training: Row) -> dict[str, dict[str, Any]]:
    """The keys of a config that follow from a training."""
    report = {"step_ms": round(training["step_ms"], 3)}
    sweep: dict[str, Any] = {}
    if training["batch"]:
        report["batch"] = training["batch"]
        sweep["batch_size"] = [training["batch"]]
    if training["host_share"] is not None:
        report["host_share"] = round(min(1.0, training["host_share"]), 2)
    audio = {name: training[name] for name in ("sample_rate", "seconds")}
    return {"report": report, "sweep": sweep, "audio": audio if all(audio.values()) else {}}


def with_training(config: Row, overrides: Row) -> dict[str, Any]:
    """`config` with what its training says; what the command line says stays. Raises UserError for a wrong file."""
    training = config.get("training")
    if training is None or training == "null":
        return {**config, "training": None}
    if isinstance(training, str):
        training = read_training(training)
    config = {**config, "training": training}
    if not isinstance(training, Mapping) or not training.keys() >= {*NAMES, *NUMBERS}:
        return config  # for the schema to refuse
    for section, values in settings(training).items():
        under, said = config.get(section), overrides.get(section)
        under, said = (one if isinstance(one, Mapping) else {} for one in (under, said))
        config[section] = {**under, **{key: value for key, value in values.items() if key not in said}}
    workers = config["sweep"].get("workers")
    if training["workers"] and isinstance(workers, list) and training["workers"] not in workers:
        config["sweep"]["workers"] = [*workers, training["workers"]]
    return config
