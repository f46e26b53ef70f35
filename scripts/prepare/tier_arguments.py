"""The options of a tier on the command line, as profile_tier.py and place_format.py take them."""

import argparse
import json
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError

_ALLOWED = 'allowed is an object. Type for example --options \'{"path": "/mnt/nvme"}\'.'


def add_tier(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a tier and say what it is."""
    parser.add_argument("--kind", default="posix", help=f"one of {', '.join(plugins.names('tiers'))} (default: posix)")
    parser.add_argument("--options", required=True, type=tier_options, help="the tier's options as JSON")
    parser.add_argument("--tier", required=True, help="name of the tier")


def tier_options(text: str) -> dict[str, Any]:
    """Return the options in the JSON object `text`. Raises UserError for any other text."""
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"--options {text!r}: found no JSON ({error}), {_ALLOWED}") from error
    if not isinstance(options, dict):
        raise UserError(f"--options {text!r}: found another value, {_ALLOWED}")
    return options
