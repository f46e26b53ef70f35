"""What the programs of the corpus have in common: the kind of data, and its options."""

import argparse
import json
from typing import Any

import jsonschema

from scripts.common import plugins
from scripts.common.errors import UserError, nearest


def add_kind_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a kind of data and its options."""
    parser.add_argument("--kind", default="audio", help="name of a file in scripts/kinds/")
    parser.add_argument("--kind-options", default="{}", help="the kind's options as a JSON object")


def load_kind(arguments: argparse.Namespace) -> Any:
    """Return the Kind of the corpus. Raises UserError for what is wrong with its options."""
    module = plugins.load("kinds", arguments.kind)
    try:
        given = json.loads(arguments.kind_options)
    except json.JSONDecodeError as error:
        raise UserError(f"--kind-options: found {arguments.kind_options!r}, which is not JSON ({error}).") from None
    if not isinstance(given, dict):
        raise UserError(f"--kind-options: found {arguments.kind_options!r}; allowed is a JSON object. Try: '{{}}'")
    for name, value in given.items():
        if name not in module.OPTIONS:
            allowed = ", ".join(module.OPTIONS)
            raise UserError(f"--kind-options: found {name!r}, allowed are: {allowed}.{nearest(name, module.OPTIONS)}")
        try:
            jsonschema.validate(value, module.OPTIONS[name])
        except jsonschema.ValidationError as error:
            raise UserError(f"--kind-options: {name}: {error.message}. Change it.") from None
    for name, fragment in module.OPTIONS.items():
        if name not in given and "default" not in fragment:
            raise UserError(f"--kind-options: {name!r} is missing and has no default: {fragment['description']}.")
    return plugins.kind_of(module, given)
