"""What a call says behind `--config`, as one types it: for commands that are to measure the same session again."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import yaml


def config_words(given: Mapping[str, Any]) -> list[str]:
    """Return `KEY=VALUE` for each key, as `--config` takes it, not yet quoted for a shell."""
    return [f"{key}={_flow(value)}" for key, value in given.items()]


def typed(given: Mapping[str, Any], target: str = "") -> str:
    """Return the call of Snakemake with all of `given` behind one `--config`, quoted for a shell."""
    words = ["snakemake", *([target] if target else []), *(["--config"] if given else [])]
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


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, width=1 << 20, sort_keys=False).removesuffix("...\n").strip()
