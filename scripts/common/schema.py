"""Holds what a user wrote against a JSON schema, and says in words what is wrong and what to type."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

import jsonschema

from scripts.common.errors import nearest

TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),  # 3.0 is none
        "number": lambda _, value: isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value),
    }
)
VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=TYPES)
CHANGE = "Change it."

Advice = Callable[[jsonschema.ValidationError], str]  # what to type instead of a value that is not allowed


def problems(found: Any, schema: Mapping[str, Any], advice: Advice = lambda _error: CHANGE) -> list[str]:
    """Return what is wrong, in the order of the keys: the key's path, what was found, is allowed, and what to type."""
    errors = sorted(VALIDATOR(schema).iter_errors(found), key=lambda error: [str(part) for part in error.path])
    return [_explain(error, advice) for error in errors]


def key_path(parts: Iterable[Any]) -> str:
    """Return ``sweep.workers[1]`` for ("sweep", "workers", 1)."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _explain(error: jsonschema.ValidationError, advice: Advice) -> str:
    """Return what was found, what is allowed and what to type, for one error of the schema."""
    where = key_path(error.absolute_path)
    schema = error.schema
    if error.validator == "additionalProperties":
        allowed = sorted(schema.get("properties", {}))
        unknown = [key for key in error.instance if key not in allowed]
        return "; ".join(
            f"{key_path([*error.absolute_path, key])}: found an unknown key, allowed are "
            f"{', '.join(allowed) or 'none'}.{nearest(key, allowed)} Rename or remove it."
            for key in unknown
        )
    if error.validator == "required":
        missing = [key for key in schema["required"] if key not in error.instance]
        return "; ".join(
            f"{key_path([*error.absolute_path, key])}: found nothing, allowed is "
            f"{_allowed(schema['properties'][key])}. Add a line {key}: ..."
            for key in missing
        )
    if error.validator in ("minItems", "maxItems") and error.instance:
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        count = f"{most}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        return f"{where}: found {show(error.instance)}, allowed is a list of {count} entries. Change it."
    if error.validator in ("minItems", "minProperties"):
        kind = "list" if error.validator == "minItems" else "mapping"
        return f"{where}: found an empty {kind}, allowed is one with at least one entry. Add one."
    if error.validator == "uniqueItems":
        return f"{where}: found {show(error.instance)}, allowed is each value once. Remove the duplicate."
    guess = nearest(error.instance, map(str, schema["enum"])) if "enum" in schema else ""
    if error.validator == "pattern" and (words := _words(schema)):
        guess = nearest(error.instance, words)
    return f"{where}: found {show(error.instance)}, allowed is {_allowed(schema)}.{guess} {advice(error)}"


def _words(schema: Mapping[str, Any]) -> list[str]:
    """Return the words that a schema fragment allows by its pattern, such as ``^(auto|none)$``."""
    found = re.fullmatch(r"\^\(?(\w+(?:\|\w+)*)\)?\$", schema.get("pattern", ""))
    return found[1].split("|") if found else []


def show(value: Any) -> str:
    """Return a value as one writes it in YAML or JSON."""
    return json.dumps(value, default=str, ensure_ascii=False)


def _allowed(schema: Mapping[str, Any]) -> str:
    """Return in words what a schema fragment allows."""
    if "enum" in schema:
        return "one of " + ", ".join(show(value) for value in schema["enum"])
    kinds = schema.get("type", "any value")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = {"array": "a list", "object": "a mapping", "string": "text", "boolean": "true or false"}
    texts = []
    for kind in kinds:
        if kind == "string" and (alone := _words(schema)):
            texts += alone
        elif kind in ("integer", "number"):
            limits = [
                f"{sign} {schema[key]}"
                for key, sign in (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="))
                if key in schema
            ]
            texts.append(" ".join([f"a{'n' if kind == 'integer' else ''} {kind}", " and ".join(limits)]).strip())
        else:
            texts.append(words.get(kind, kind))
    items = f" of {_allowed(schema['items'])}" if "array" in kinds and isinstance(schema.get("items"), Mapping) else ""
    about = f" ({schema['description']})" if "description" in schema else ""
    return " or ".join(texts) + items + about
