"""What the programs of this room share on the command line: a source, a kind of data, a tier, their options."""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.ledger import SourceRequest
from scripts.common.plan_file import read_plan
from scripts.common.schema import problems


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a source and its options."""
    parser.add_argument("--source", required=True, help="name of a file in scripts/sources/")
    _add_options(parser, "--options", "the source's options as a JSON object", default="{}")
    parser.add_argument("--plan", type=Path, help="plan.json, which has more options: how clips are fetched, not which")
    parser.add_argument("--call", default=f"process {os.getpid()}", help="name of the call that this is a job of")
    _add_options(parser, "--kind-options", "of data that is no audio: its options as a JSON object", default="{}")
    parser.add_argument("--clip-seconds", type=float, default=10.0, help="fixed length of an item")
    parser.add_argument("--shards", type=int, default=1, help="number of shards")
    parser.add_argument("--store", type=Path, required=True, help="folder that keeps audio the source brings")


def load_source(
    arguments: argparse.Namespace, shard: int = 0, prepared: Path | None = None
) -> tuple[ModuleType, SourceRequest]:
    """Return the source, and what it is asked for. Raises UserError for what is wrong with its options."""
    source = plugins.load("sources", arguments.source)
    planned = read_plan(arguments.plan)["source"]["fetch_options"] if arguments.plan else {}
    # The entry of a data set in the config may be given as it is.
    given = {name: value for name, value in arguments.options.items() if name != "source"}
    options = complete_options({**given, **planned}, source)
    source.check(options)
    request = SourceRequest(
        options,
        arguments.clip_seconds,
        shard,
        arguments.shards,
        arguments.store.absolute(),
        prepared,
        arguments.kind_options,
        arguments.call,
    )
    return source, request


def add_kind_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a kind of data and its options."""
    parser.add_argument("--kind", default="audio", help="name of a file in scripts/kinds/")
    _add_options(parser, "--kind-options", "the kind's options as a JSON object", default="{}")


def load_kind(arguments: argparse.Namespace) -> Any:
    """Return the Kind of the corpus. Raises UserError for what is wrong with its options."""
    module = plugins.load("kinds", arguments.kind)
    return plugins.kind_of(module, complete_options(arguments.kind_options, module, "--kind-options"))


def add_tier(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a tier and say what it is."""
    parser.add_argument("--kind", default="posix", help=f"one of {', '.join(plugins.names('tiers'))} (default: posix)")
    _add_options(parser, "--options", "the tier's options as JSON", required=True)
    parser.add_argument("--tier", required=True, help="name of the tier")


@contextmanager
def checked_tier(arguments: argparse.Namespace) -> Iterator[ModuleType]:
    """Yield the tier's kind, with its options checked. A UserError of the block names the tier."""
    kind = plugins.load("tiers", arguments.kind)
    try:
        kind.check(arguments.options)
        yield kind
    except UserError as error:
        raise UserError(f"tier {arguments.tier!r}: {error}") from error


def complete_options(given: Mapping[str, Any], plugin: ModuleType, argument: str = "--options") -> dict[str, Any]:
    """Return the plug-in's options with the defaults filled in. Raises UserError for those that it does not allow."""
    declared = plugin.OPTIONS
    required = [name for name, fragment in declared.items() if "default" not in fragment]
    schema = {"type": "object", "properties": declared, "required": required, "additionalProperties": False}
    if wrong := problems(given, schema):
        raise UserError(f"{argument}: {wrong[0]}")
    return {name: given.get(name, fragment.get("default")) for name, fragment in declared.items()}


def _add_options(parser: argparse.ArgumentParser, name: str, about: str, **more: Any) -> None:
    parser.add_argument(name, type=partial(_json_object, name), help=about, **more)


def _json_object(argument: str, text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{argument}: found {text!r}, which is not JSON ({error}). Try: {argument} '{{}}'") from None
    if not isinstance(given, dict):
        raise UserError(f"{argument}: found {text!r}; allowed is a JSON object. Try: {argument} '{{}}'")
    return given
