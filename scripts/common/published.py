"""Tables that others published, as files in workflow/published (or of the user's own), to stand beside results.

A file is YAML: `title`, `source` (an address), `hardware`, `settings`, `differs` (from what is measured here) and
`corrected` (what was wrong, empty for nothing) in words; `item`, what was loaded, in the plural; `kind`, of data that
the table is for, by default any; and `rows`, each with `name`, as it stands there, and either `lacking` (why nothing
here is like it) or `loader` and, where they matter, `task` (by default read), `tier` and `settings`, of which all must
be a result's. Its speed is `per_second`, or `seconds` of all of the file's `epochs` over its `items`; `printed` is the
number as it stands there, where that is another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scripts.common.errors import UserError, nearest
from scripts.common.files import PROJECT
from scripts.common.schema import problems

FOLDER = PROJECT / "workflow" / "published"
SCHEMA = PROJECT / "workflow" / "schemas" / "published.schema.yaml"
NUMBERS = ("items", "epochs")


@dataclass(frozen=True)
class PublishedRow:
    """One published result, and which result here is like it."""

    name: str
    speed: float  # items per second
    loader: str | None = None
    task: str = "read"
    tier: str | None = None  # None: any
    settings: Mapping[str, Any] = field(default_factory=dict)
    lacking: str = ""
    seconds: float | None = None
    deviation_seconds: float | None = None
    printed: float | None = None


@dataclass(frozen=True)
class Published:
    """A published table."""

    title: str
    source: str
    hardware: str
    settings: str
    differs: str
    corrected: str
    item: str
    rows: tuple[PublishedRow, ...]
    kind: str | None = None  # of data; None: any


def published_names(given: str | Sequence[str] | None) -> list[str]:
    """Return what `report.published` names: nothing, one table, or several, of which those of the data's kind count."""
    return [given] if isinstance(given, str) else list(given or ())


def published_file(name: str) -> Path:
    """Return the file that `report.published` names. Raises UserError for a name that is neither ours nor a file."""
    known = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
    if name in known:
        return known[name]
    if Path(name).is_file():
        return Path(name)
    raise UserError(
        f"report.published: found {name!r}, allowed are null, {', '.join(known)} and the path of a file like those in "
        f"workflow/published.{nearest(name, known)} Name one of them."
    )


def read_published(name: str) -> Published:
    """Return the table that `report.published` names. Raises UserError where it is absent or of another form."""
    path = published_file(name)
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: found invalid YAML: {' '.join(str(error).split())}. Correct it.") from None
    wrong = problems(found, yaml.safe_load(SCHEMA.read_text(encoding="utf-8")))
    if wrong:
        raise UserError("\n".join(f"{path}: {one}" for one in wrong))
    rows = []
    for number, row in enumerate(found["rows"]):
        where = f"rows[{number}]"
        if ("loader" in row) == ("lacking" in row):
            raise UserError(f"{path}: {where}: found both or none of loader and lacking; allowed is one. Write one.")
        speed = _speed(path, where, row, found)
        rows.append(PublishedRow(speed=speed, **{key: row[key] for key in row if key != "per_second"}))
    words = {name: found[name] for name in found if name not in ("rows", *NUMBERS)}
    return Published(rows=tuple(rows), **words)


def _speed(path: Path, where: str, row: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """Return items per second."""
    if ("per_second" in row) == ("seconds" in row):
        raise UserError(f"{path}: {where}: found both or none of per_second and seconds; allowed is one. Write one.")
    if "per_second" in row:
        return row["per_second"]
    if any(name not in found for name in NUMBERS):
        raise UserError(f"{path}: {where}.seconds: found seconds without {' and '.join(NUMBERS)}. Add them.")
    return found["items"] * found["epochs"] / row["seconds"]
