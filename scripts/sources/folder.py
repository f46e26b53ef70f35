"""A folder of the user's own recordings, read where they lie: anything that FFmpeg decodes, of any length."""

import csv
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common import plugins
from scripts.common.errors import UserError, nearest
from scripts.common.ledger import LedgerRow, SourceRequest
from scripts.sources._names import SHARDS, absolute, escape, is_ours, is_utf8

VERSION = 1
KINDS = plugins.every_kind()  # files are files
OPTIONS = {
    "path": {"type": "string", "minLength": 1, "description": "The folder; links are followed, hidden files skipped."},
    "shards": SHARDS,
    "labels": {
        "type": "string",
        "minLength": 1,
        "default": "labels.csv",
        "description": "CSV in the folder with the columns file and labels (several separated by ';'). "
        "Without such a file the name of a recording's folder is its label.",
    },
}

COLUMNS = ("file", "labels")
COUNTED = 100_000  # files, in half a second: the plan asks at each call


def check(options: Mapping[str, Any]) -> None:
    """Raise UserError where the folder is absent, is no folder or cannot be read, or its labels file is not usable."""
    root = absolute(options["path"])
    if not root.exists():
        raise UserError(f"path: found {str(root)!r}, which does not exist. Type the path of a folder of recordings.")
    if not root.is_dir():
        raise UserError(f"path: found {str(root)!r}, which is a file. Type the folder that holds it: {root.parent}")
    if not os.access(root, os.R_OK | os.X_OK):
        raise UserError(f"path: found {str(root)!r}, which you may not read. Try: chmod u+rx {str(root)!r}")
    for _ in _label_rows(root, options):
        break


def inputs(options: Mapping[str, Any]) -> list[str]:
    """Return the folder: Snakemake looks at its time stamp."""
    return [str(absolute(options["path"]))]


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards that the user asked for: counting the files first could take minutes."""
    return options["shards"]


def at_least(options: Mapping[str, Any]) -> int:
    """Return how many files there are, of which a long recording gives several items; of very many only COUNTED."""
    return sum(1 for _ in islice(_walk(str(absolute(options["path"]))), COUNTED))


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield a row per file of this shard, then a row per labelled file that the folder does not hold.

    Nothing is copied.
    """

    def ours(relative: str) -> bool:
        return is_ours(escape(relative), request)

    check(request.options)
    root = absolute(request.options["path"])
    labels = _read_labels(root, request.options, ours)
    labels_file = posixpath.normpath(request.options["labels"])
    for found in _walk(str(root)):
        if found.relative != labels_file and ours(found.relative):
            yield _row(root, found, labels)
    if labels is not None:
        reason = "the labels file names it, the folder does not hold it (hidden files are not looked at)"
        for relative in sorted(labels):
            yield LedgerRow(escape(relative), "unavailable", reason)


class _Found(NamedTuple):
    """A file below the folder."""

    relative: str  # path relative to the folder, with /
    problem: str  # why it cannot be read, else empty


def _walk(root: str) -> Iterator[_Found]:
    """Yield the files below `root`, and the folders that nobody can read.

    A link back to a folder above itself is not entered. Nothing calls itself: folders may be thousands deep.
    """
    waiting: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [(root, "", ())]  # path, relative, what is above it
    while waiting:
        folder, relative, above = waiting.pop()
        try:
            status = os.stat(folder)
            with os.scandir(folder) as scan:
                entries = [entry for entry in scan if not entry.name.startswith(".")]
        except OSError as error:
            yield _Found(relative, f"folder cannot be read: {error.strerror}")
            continue
        identity = status.st_dev, status.st_ino
        for entry in entries if identity not in above else ():
            below = f"{relative}/{entry.name}" if relative else entry.name
            try:
                if entry.is_dir():
                    waiting.append((entry.path, below, (*above, identity)))
                else:
                    yield _Found(below, _problem(entry))
            except OSError as error:  # a link to itself
                yield _Found(below, f"link that leads nowhere: {error.strerror}")


def _problem(entry: os.DirEntry) -> str:
    """Return why what is no folder is no file to read, else an empty text. Nothing is opened: a pipe would wait."""
    if entry.is_file():
        return ""
    if entry.is_symlink() and not os.path.exists(entry.path):
        return "link to a file that does not exist"
    kinds = {stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    return f"not a regular file: {kinds.get(stat.S_IFMT(entry.stat().st_mode), 'of an unknown kind')}"


def _row(root: Path, found: _Found, labels: dict[str, list[str]] | None) -> LedgerRow:
    """Return the ledger row of one file, and take it out of `labels`."""
    if not is_utf8(found.relative):
        return LedgerRow(escape(found.relative), "unavailable", "the file name is not valid UTF-8: rename the file")
    clip_id = escape(found.relative)
    if labels is None:
        names = [posixpath.basename(posixpath.dirname(found.relative)) or root.name or "folder"]
    else:
        names = labels.pop(found.relative, None)
    if found.problem:
        return LedgerRow(clip_id, "unavailable", found.problem)
    if names is None:
        return LedgerRow(clip_id, "unavailable", "no row in the labels file")
    return LedgerRow(clip_id, "fetched", path=f"{root}/{found.relative}", cut=True, labels=names)


def _read_labels(root: Path, options: Mapping[str, Any], ours: Callable[[str], bool]) -> dict[str, list[str]] | None:
    """Return {path relative to the folder: labels} for the files that are `ours`, or None without a labels file.

    A file may have several rows: their labels are joined, in order.
    """
    if not (root / options["labels"]).exists():
        return None
    table: dict[str, list[str]] = {}
    for file, names in _label_rows(root, options):
        relative = posixpath.normpath(file) if file else ""
        if relative and ours(relative):
            known = table.setdefault(relative, [])
            known += [name for name in dict.fromkeys(names) if name not in known]
    return table


def _label_rows(root: Path, options: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield (file, labels) of each row of the labels file, if there is one; UserError for one of another form."""
    path = root / options["labels"]
    if not path.exists():
        if options["labels"] != OPTIONS["labels"]["default"]:
            raise UserError(
                f"labels: found {options['labels']!r}, and no such file in {str(root)!r}. Allowed is the name of a "
                f"CSV file in the folder.{nearest(options['labels'], os.listdir(root))} "
                "Leave the option out to label recordings by their folder."
            )
        return
    if not path.is_file():  # asked first: opening a named pipe would wait for ever
        raise UserError(f"{path}: found what is not a regular file. Make it a CSV file, or name another in labels.")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, restval="")
            missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
            if missing:
                found = ", ".join(rows.fieldnames or ["(none)"])
                raise UserError(
                    f"{path}: found the columns {found}; needed are file and labels. Make the first line: file,labels"
                )
            for row in rows:
                yield row["file"], [name.strip() for name in row["labels"].split(";") if name.strip()]
    except (csv.Error, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error}). Save it as CSV in UTF-8.") from None
