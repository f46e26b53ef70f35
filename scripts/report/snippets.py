"""The program behind a result, as its run's record holds it, and the files of feedrate that such programs import."""

import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.common.files import PROJECT

COMPANIONS = PROJECT / "scripts" / "loaders" / "_ring"
WIDTH = 118  # of the comments, in columns


def snippet(row: Mapping[str, Any]) -> str:
    """Return the program of a result, a row of `best` or `ranking` with a speed.

    Of a loader in a file of the user's own, or one without `make_loader`, it is a comment that says so.
    """
    declared = row["declared"]
    if not declared["program"]:
        own = declared.get("own_file")
        text = f"{row['loader']} is your own loader: {own} is its program."
        text = text if own else f"{row['loader']} has no program that stands alone: see scripts/loaders."
        return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ") + "\n"
    return declared["program"]


def placed_program(row: Mapping[str, Any], tiers: Iterable[Mapping[str, Any]]) -> str:
    """Return the `snippet` of a result below a comment that says where its data was.

    The workflow's copies on a tier need not last.
    """
    path = next((tier["path"] for tier in tiers if tier["tier"] == row["tier"]), None)
    where = " ".join(f"tier {row['tier']}{f', {path}' if path else ''}".split())  # one line, whatever the path
    return f"# Measured on {where}: copy the folder that `data` names there, and name the copy.\n{snippet(row)}"


def companions(program: str) -> list[Path]:
    """Return the files of feedrate that a program imports, each of which stands alone and may be copied."""
    names = re.findall(r"^(?:from|import) (\w+)", program, flags=re.MULTILINE)
    return [path for name in dict.fromkeys(names) if (path := COMPANIONS / f"{name}.py").is_file()]
