"""The names, paths and keys of a config: what Snakemake or the file system would take wrong is refused here, once."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from scripts.common.errors import UserError
from scripts.common.schema import key_path

NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
NAMED = ("datasets", "storage")  # whose keys are names, as those of `loaders` are by their key `name`
TAKEN = {"storage": ("bounds", "broken", "moves", "tensors")}  # folders of their own among the runs, today or once
PERIODIC = re.compile(r"(.+)\1{19}\Z")  # Snakemake takes such a wildcard for an endless recursion
READ_BY_SNAKEMAKE = re.compile(r"[{}]|<[a-z][a-z0-9_]*>")  # wildcards and path variables
LONGEST_PART, LONGEST_PATH = 255, 4000  # bytes of a path; the latter leaves room for what is added to it


def check(value: Any, where: tuple[Any, ...] = ()) -> None:
    """Raise UserError for the first name, key or text in a config (or below its keys `where`) that is not allowed."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if not isinstance(key, str):
                found = f"found the key {key!r}, allowed is text. Quote it."
                raise UserError(f"config: {key_path(where) or 'top'}: {found}")
            _check_text(key, where)
            if len(where) == 1 and where[0] in NAMED:
                _check_name(key, where)
            check(part, (*where, key))
    elif isinstance(value, list):
        for position, part in enumerate(value):
            check(part, (*where, position))
    elif isinstance(value, str):
        _check_text(value, where)
        if where[:1] == ("loaders",) and (len(where) == 2 or (len(where) == 3 and where[2] == "name")):
            _check_name(value, where)


def _check_name(name: str, where: tuple[Any, ...]) -> None:
    taken = TAKEN.get(str(where[0]), ())
    if not NAME.fullmatch(name) or PERIODIC.search(name) or name in taken:
        but = f"; but not {', '.join(taken)}, which are feedrate's folders" if name in taken else ""
        raise UserError(
            f"config: {key_path(where)}: found the name {name!r}, allowed are up to 64 letters, digits and "
            f"underscores, without twenty repeats of a part at the end{but}. Rename it."
        )


def _check_text(text: str, where: tuple[Any, ...]) -> None:
    shown = text if len(text) < 80 else f"{text[:80]}..."
    if READ_BY_SNAKEMAKE.search(text):
        raise UserError(
            f"config: {key_path(where)}: found {shown!r}, allowed is text without braces and <words>, which Snakemake "
            "reads as wildcards and variables. Choose another name."
        )
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise UserError(
            f"config: {key_path(where)}: found {shown!r}, allowed is text without line ends, other control characters "
            "and bytes that are not UTF-8. Choose another name."
        )
    path = text.encode()
    if len(path) > LONGEST_PATH or (where[-1:] == ("path",) and max(map(len, path.split(b"/"))) > LONGEST_PART):
        raise UserError(
            f"config: {key_path(where)}: found {shown!r} of {len(path):,} bytes, allowed are {LONGEST_PATH:,}, and "
            f"{LONGEST_PART} in each part of a path. Choose a shorter one."
        )
