"""The commands that the report tells its reader to type: those of its own session, with what they change.

A command names the data set and the preset of the session: without them another one would be measured, and what a
preset says stands above what config.yaml says.
"""

import shlex
from collections.abc import Mapping
from math import ceil
from typing import Any

from scripts.common.vocabulary import TRAINING

Tables = Mapping[str, Any]


def of_session(tables: Tables) -> list[str]:
    """Return what names the data set and the preset of a session, each as `--config` takes it."""
    dataset, preset = tables["dataset"]["dataset"], tables["dataset"]["config"].get("preset", "none")
    return [f"dataset={dataset}", *([f"preset={preset}"] if preset != "none" else [])]


def typed(parts: list[str], more: str = "") -> str:
    """Return the call of Snakemake with these parts of its `--config`, and with what is quoted already."""
    return " ".join(filter(None, ("snakemake --config", *map(shlex.quote, parts), more)))


def lengthened(tables: Tables, row: Mapping[str, Any], factor: float) -> tuple[str, str]:
    """Return what gives a result some `factor` times its visits: what it is called, such as ``5 minutes``, and the
    command.
    """
    measure = tables["dataset"]["measure"] or {}
    timed = isinstance(measure.get("minutes"), int | float)
    key = "train_repeats" if row["task"] in TRAINING else "minutes" if timed else "repeats"
    least, noun = (1, "minutes") if key == "minutes" else (2, "repeats")
    count = max(least, ceil(factor * (measure.get(key) or 1)))
    return f"{count} {noun}", typed(of_session(tables), f"measure='{{{key}: {count}}}'")
