"""plan.json as every program reads it: written once by the call that the user types, built again by nobody."""

import os
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, reading
from scripts.common.files import read_json

KEYS = ("dataset", "config", "given", "results", "proofs", "bounds", "tensors", "sessions", "skipped", "ladder")
KEYS += ("loaders", "formats", "tiers", "emulated", "part")

CALL = "call"  # the file beside plan.json that holds the name of the call which all its jobs are of


def call_of(plan: Path) -> str:
    """Return the name of the call of Snakemake that a program is a job of; of one by hand, of this process."""
    path = plan.with_name(CALL)
    return path.read_text(encoding="utf-8") if path.is_file() else f"process {os.getpid()}"


def read_plan(path: Path) -> dict[str, Any]:
    """Return what plan.json holds. Raises UserError where it is absent or is no plan."""
    if not path.is_file():
        raise UserError(
            f"{path}: found no such file, expected is a plan. The workflow writes it: type the same command again."
        )
    with reading(path, "the workflow"):
        content = read_json(path)
        return {**content, **{key: content[key] for key in KEYS}}
