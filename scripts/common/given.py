"""What a call of Snakemake says, as one types it: for commands that are to measure the same session again."""

import argparse
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml


def config_words(given: Mapping[str, Any]) -> list[str]:
    """Return `KEY=VALUE` for each key, as `--config` takes it, not yet quoted for a shell."""
    return [f"{key}={_flow(value)}" for key, value in given.items()]


def kept_options(words: Sequence[str]) -> list[str]:
    """Return the options of a call that say, beside `--config`, what is measured and where, as words."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--configfile", "--configfiles", nargs="+")
    for names in (("--profile",), ("--workflow-profile",), ("--snakefile", "-s"), ("--directory", "-d")):
        options.add_argument(*names)
    options.add_argument("--config", "-C", nargs="+")
    found = vars(options.parse_known_args(words)[0])
    said = {name: value for name, value in found.items() if value and name != "config"}
    return [
        word
        for name, value in said.items()
        for word in (f"--{name.replace('_', '-')}", *([value] if isinstance(value, str) else value))
    ]


def typed(given: Mapping[str, Any], target: str = "", options: Iterable[str] = ()) -> str:
    """Return the call of Snakemake with all of `given` behind one `--config`, quoted for a shell."""
    words = ["snakemake", *([target] if target else []), *map(shlex.quote, options), *(["--config"] if given else [])]
    pairs = (word.partition("=") for word in config_words(given))
    return " ".join([*words, *(f"{key}={shlex.quote(value)}" for key, _, value in pairs)])


def read_words(words: Iterable[str]) -> dict[str, Any]:
    """Return what `KEY=VALUE` words say."""
    pairs = (word.partition("=")[::2] for word in words)
    return {key: yaml.safe_load(value) if value[:1] in ("{", "[") else value for key, value in pairs}


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `under` with the values of `over` in it, mapping by mapping."""
    both = {key: (under[key], over[key]) for key in over if isinstance(under.get(key), Mapping)}
    parts = {key: merged(*pair) for key, pair in both.items() if isinstance(pair[1], Mapping)}
    return {**under, **over, **parts}


def without(given: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` without what `other` says too, mapping by mapping."""
    left = {}
    for key, value in given.items():
        if key not in other:
            left[key] = value
        elif isinstance(value, Mapping) and isinstance(other[key], Mapping) and (part := without(value, other[key])):
            left[key] = part
    return left


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, width=1 << 20, sort_keys=False).removesuffix("...\n").strip()
