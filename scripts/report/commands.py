"""The commands that the report tells its reader to type: those of its own session, with what they change.

A command repeats all that the session's own call said: without it another session would be measured.
"""

import shlex
from collections.abc import Mapping
from math import ceil
from typing import Any

from scripts.common import given
from scripts.common.given import config_words
from scripts.common.vocabulary import TRAINING

Tables = Mapping[str, Any]


def of_session(tables: Tables) -> list[str]:
    """Return all that the session's call said behind `--config`, and its data set and preset, a word a key."""
    dataset, preset = tables["dataset"]["dataset"], tables["dataset"]["config"].get("preset", "none")
    named = {"dataset": dataset, **({} if preset == "none" else {"preset": preset})}
    return config_words({**named, **tables["dataset"].get("given", {})})


def typed(parts: list[str], more: str = "") -> str:
    """Return the call of Snakemake with these parts of its `--config`, and with what is quoted already in place of
    theirs.
    """
    return given.typed(given.merged(given.read_words(parts), given.read_words(shlex.split(more))))


def lengthened(tables: Tables, row: Mapping[str, Any], factor: float) -> tuple[str, str]:
    """Return what gives a result some `factor` times its runs: what it is called, such as ``5 minutes``, and the
    command.
    """
    measure = tables["dataset"]["measure"]
    timed = isinstance(measure.get("minutes"), int | float)
    key = "train_repeats" if row["task"] in TRAINING else "minutes" if timed else "repeats"
    least, noun = (1, "minutes") if key == "minutes" else (2, "repeats")
    count = max(least, ceil(factor * (measure.get(key) or 1)))
    return f"{count} {noun}", typed(of_session(tables), f"measure='{{{key}: {count}}}'")
