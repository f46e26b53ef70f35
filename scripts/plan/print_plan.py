"""Prints what a config would measure, how long that takes, and what it leaves out; makes nothing.

    feedrate plan --config dataset=demo preset=quick

`--config` and `--configfile` take what Snakemake's take. With --out the whole plan is written as JSON.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.common.given import merged
from scripts.plan.estimate import estimate
from scripts.plan.experiment import Plan
from scripts.plan.yaml_file import check_file


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = "values above those of the file, such as dataset=demo preset=quick measure='{minutes: 5}'"
    options.add_argument("--config", nargs="+", default=[], type=_value, metavar="KEY=VALUE", help=words)
    words = "files whose values stand above those of config.yaml"
    options.add_argument("--configfile", nargs="+", type=Path, default=[], metavar="FILE", help=words)
    options.add_argument("--out", type=Path, help="JSON file to write")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Print the plan, or write it."""
    own = Path("config.yaml")
    raw: dict[str, Any] = {}
    for file in (*([own] if own.is_file() or not arguments.configfile else []), *arguments.configfile):
        if not file.is_file():
            raise UserError(
                f"--configfile: found no file {file}, allowed is a config like config.yaml of the project. Type the "
                "command in the project's folder, or name the file."
            )
        check_file(file)
        raw = merged(raw, yaml.safe_load(file.read_text(encoding="utf-8-sig")) or {})
    plan = Plan(raw, dict(arguments.config))
    if arguments.out:
        write_json(arguments.out, plan.as_json())
    print("\n".join(_lines(plan)))


def _lines(plan: Plan) -> Iterator[str]:
    """Yield how long it takes, each result, and each reason why something has none."""
    yield estimate(plan).words()
    yield from plan.notices
    for result in plan.results:
        yield f"  {result.loader} on {result.tier}: {result.slug}"
    for reason, names in _skipped(plan).items():
        yield f"Skipped: {', '.join(names)}: {reason}"


def _skipped(plan: Plan) -> dict[str, list[str]]:
    """Return {reason: loaders, each once}."""
    found: dict[str, list[str]] = {}
    for one in plan.skipped:
        name = " on ".join(filter(None, (one["loader"], one["tier"])))
        if name not in found.setdefault(one["reason"], []):
            found[one["reason"]].append(name)
    return found


def _value(text: str) -> tuple[str, Any]:
    """Return (key, value) of KEY=VALUE, whose value is YAML."""
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is KEY=VALUE, such as dataset=demo")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is YAML after the sign =") from None
