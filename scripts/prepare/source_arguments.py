"""What the programs of the clips stage have in common: a source, its options and where its audio is kept."""

import argparse
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common.errors import UserError, nearest
from scripts.common.plan_file import read_plan
from scripts.common.plugins import load


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a source and its options."""
    parser.add_argument("--source", required=True, help="name of a file in scripts/sources/")
    parser.add_argument("--options", default="{}", help="the source's options as a JSON object")
    parser.add_argument("--fetch-options", default="{}", help="more of them: how clips are fetched, not which")
    parser.add_argument("--plan", type=Path, help="plan.json that has these: a change of them makes nothing again")
    parser.add_argument("--call", default=f"process {os.getpid()}", help="name of the call that this is a job of")
    parser.add_argument("--kind-options", default="{}", help="of data that is no audio: its options as a JSON object")
    parser.add_argument("--clip-seconds", type=float, default=10.0, help="fixed clip length of the experiment")
    parser.add_argument("--shards", type=int, default=1, help="number of shards")
    parser.add_argument("--store", type=Path, required=True, help="folder that keeps audio the source brings")


def load_source(arguments: argparse.Namespace) -> tuple[ModuleType, dict[str, Any]]:
    """Return the source and its checked options. Raises UserError for what is wrong with them."""
    source = load("sources", arguments.source)
    planned = read_plan(arguments.plan)["source"]["fetch_options"] if arguments.plan else {}
    given = {**_read_object("--options", arguments.options), **planned}
    given |= _read_object("--fetch-options", arguments.fetch_options)
    options = complete_options(given, source)
    source.check(options)
    return source, options


def _read_object(argument: str, text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{argument}: found {text!r}, which is not JSON ({error}). Try: {argument} '{{}}'") from None
    if not isinstance(given, dict):
        raise UserError(f"{argument}: found {text!r}; allowed is a JSON object. Try: {argument} '{{}}'")
    return given


def complete_options(given: dict[str, Any], source: ModuleType) -> dict[str, Any]:
    """Return the source's options with the defaults filled in.

    The entry of a data set in the config may be given as it is: its key `source` is left out. Raises UserError for an
    unknown option and for one that is missing and has no default.
    """
    declared = getattr(source, "OPTIONS", {})
    given = {name: value for name, value in given.items() if name != "source"}
    for name in given:
        if name not in declared:
            allowed = ", ".join(declared) or "none"
            raise UserError(f"--options: found {name!r}, allowed are: {allowed}.{nearest(name, declared)}")
    missing = [name for name in declared if name not in given and "default" not in declared[name]]
    if missing:
        example = json.dumps({missing[0]: "..."})
        raise UserError(f"--options: {missing[0]!r} is missing and has no default. Try: --options '{example}'")
    return {name: given.get(name, schema.get("default")) for name, schema in declared.items()}
