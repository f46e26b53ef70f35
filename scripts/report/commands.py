"""The commands that the report tells its reader to type: those of its own session, with what they change.

A command repeats all that the session's own call said: without it another session would be measured.
"""

import shlex
from collections.abc import Mapping
from math import ceil
from typing import Any

from scripts.common import given
from scripts.common.vocabulary import TRAINING

Tables = Mapping[str, Any]


def command(tables: Tables, more: str = "", preset: Mapping[str, Any] | None = None) -> str:
    """Return the call of Snakemake that measures the session again, with what `more` changes, as words of a shell.

    `preset`: what a preset says that `more` names: it stands in place of what the call said of the same.
    """
    said = tables["dataset"]
    named, own = {"dataset": said["dataset"]}, said["config"].get("preset", "none")
    if own != "none":
        named["preset"] = own
    repeated = given.without(said.get("given", {}), {**(preset or {}), "dataset": "", "preset": ""})
    changes = given.read_words(shlex.split(more))
    if "loaders" in (preset or {}) and said["config"].get("measure", {}).get("only"):
        changes["measure"] = {"only": []}  # which chose among other loaders
    return given.typed(given.merged({**named, **repeated}, changes), options=said.get("call_options", ()))


def lengthened(tables: Tables, row: Mapping[str, Any], factor: float) -> tuple[str, str]:
    """Return what gives a result some `factor` times its runs: what it is called, such as ``5 minutes``, and the
    command.
    """
    measure = tables["dataset"]["measure"]
    timed = isinstance(measure.get("minutes"), int | float)
    key = "train_repeats" if row["task"] in TRAINING else "minutes" if timed else "repeats"
    least, noun = (1, "minutes") if key == "minutes" else (2, "repeats")
    count = max(least, ceil(factor * (measure.get(key) or 1)))
    noun = noun.removesuffix("s") if count == 1 else noun
    return f"{count} {noun}", command(tables, f"measure='{{{key}: {count}}}'")
