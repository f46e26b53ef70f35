"""Values of `--config` whose braces, brackets or quotes do not pair: Snakemake takes them as text, and says nothing."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml

from scripts.common.errors import UserError
from scripts.common.schema import key_path

PAIRS = {"{": "}", "[": "]"}
WORDS = {"{": "brace", "}": "brace", "[": "bracket", "]": "bracket", "'": "quote", '"': "quote"}


def check(overrides: Mapping[str, Any]) -> None:
    """Raise UserError for the first value of the command line that has one sign too few or too many."""
    for where, text in _texts(overrides, ()):
        if len(where) > 1:  # a part of what could be read: in a path a bracket is a letter as others are
            fault, mended = _mend(text, "{}")
        elif text.lstrip()[:1] in PAIRS:
            fault, mended = _mend(text, "{}[]'\"")
        else:
            continue
        if fault:
            raise UserError(
                f"config: {key_path(where)}: found {text!r}, in which {fault}; allowed is YAML, in which braces, "
                f"brackets and quotes pair. {_command(overrides[where[0]], where, mended)}"
            )


def _texts(value: Any, where: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield (keys, text) of every text in a value."""
    if isinstance(value, str):
        yield where, value
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _texts(part, (*where, key))


def _mend(text: str, signs: str) -> tuple[str | None, str]:
    """Return what is wrong with the pairs of these signs in a text, the first alone, and the text without any fault."""
    fault, mended, still_open, before = None, "", [], "["
    position = 0
    while position < len(text):
        sign = text[position]
        if sign in "'\"" and sign in signs and before in "[{,:":
            end = text.find(sign, position + 1)
            if end > 0:
                mended, position, before = mended + text[position : end + 1], end + 1, sign
                continue
            fault, sign = fault or f"the quote {sign} is not closed", ""
        elif sign in PAIRS and sign in signs:
            still_open.append(sign)
        elif sign in PAIRS.values() and sign in signs:
            if sign not in map(PAIRS.get, still_open):
                fault, sign = fault or f"no {WORDS[sign]} is open where {sign} closes one", ""
            while sign and PAIRS[inner := still_open.pop()] != sign:
                fault = fault or _not_closed(inner)
                mended += PAIRS[inner]
        mended, position = mended + sign, position + 1
        before = before if sign.isspace() else sign or before
    if still_open:
        fault = fault or _not_closed(still_open[-1])
    return fault, mended + "".join(PAIRS[one] for one in reversed(still_open))


def _not_closed(sign: str) -> str:
    return f"the {WORDS[sign]} {sign} is not closed"


def _command(value: Any, where: tuple[Any, ...], mended: str) -> str:
    """Return what to type, as far as the mended text, at its place in the whole value of a key, is YAML."""
    if len(where) > 1:
        mended = yaml.safe_dump(_with(value, where[1:], mended), default_flow_style=True, width=10_000).strip()
    with suppress(yaml.YAMLError):
        if isinstance(yaml.safe_load(mended), dict | list):
            return f"Type: --config {shlex.quote(f'{where[0]}={mended}')}"
    return "Mend it."


def _with(value: Any, where: tuple[Any, ...], text: str) -> Any:
    """Return a copy of a value with `text`, or the number that it spells, at these keys."""
    if not where:
        return yaml.safe_load(text)
    parts = dict(value) if isinstance(value, Mapping) else list(value)
    parts[where[0]] = _with(parts[where[0]], where[1:], text)
    return parts
