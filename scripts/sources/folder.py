"""A folder of the user's own recordings, read where they lie: anything that FFmpeg decodes, of any length."""

import csv
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common import plugins
from scripts.common.errors import UserError, nearest
from scripts.common.ledger import LedgerRow, SourceRequest
from scripts.sources._names import escape, is_utf8

VERSION = 1
KINDS = plugins.every_kind()  # files are files
OPTIONS = {
    "path": {"type": "string", "minLength": 1, "description": "The folder; links are followed, hidden files skipped."},
    "shards": {
        "type": "integer",
        "minimum": 1,
        "maximum": 1000,
        "default": 1,
        "description": "Parts that are worked on as jobs of their own; one per few hundred recordings is plenty.",
    },
    "labels": {
        "type": "string",
        "minLength": 1,
        "default": "labels.csv",
        "description": "CSV in the folder with the columns file and labels (several separated by ';'). "
        "Without such a file the name of a recording's folder is its label.",
    },
}

COLUMNS = ("file", "labels")


def check(options: Mapping[str, Any]) -> None:
    """Raise UserError where the folder is absent, is no folder or cannot be read, or its labels file is not usable."""
    root = _root(options)
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
    return [str(_root(options))]


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards that the user asked for: counting the files first could take minutes."""
    return options["shards"]


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield a row per file of this shard, then a row per labelled file that the folder does not hold.

    Nothing is copied. A file belongs to the shard that the hash of its id names, so that adding files moves none.
    """
    import xxhash

    def ours(found: str) -> bool:
        return xxhash.xxh3_64_intdigest(escape(found).encode()) % request.shards == request.shard

    check(request.options)
    root = _root(request.options)
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


def _root(options: Mapping[str, Any]) -> Path:
    return Path(os.path.abspath(os.path.expanduser(options["path"])))


class _Folder(NamedTuple):
    """A folder that is being looked through."""

    entries: Iterator[os.DirEntry]  # those that are left
    relative: str
    identity: tuple[int, int]  # device and inode


def _walk(root: str) -> Iterator[_Found]:
    """Yield the files below `root` by name; a link back to a folder above itself is not entered."""
    above: list[_Folder] = []
    yield from _enter(above, root, "")
    while above:
        entry = next(above[-1].entries, None)
        if entry is None:
            above.pop()
        elif not entry.name.startswith("."):
            below = f"{above[-1].relative}/{entry.name}" if above[-1].relative else entry.name
            try:
                if entry.is_dir():
                    yield from _enter(above, entry.path, below)
                else:
                    yield _Found(below, _problem(entry))
            except OSError as error:  # a link to itself
                yield _Found(below, f"link that leads nowhere: {error.strerror}")


def _enter(above: list[_Folder], folder: str, relative: str) -> Iterator[_Found]:
    """Add a folder to those `above` what is looked at next, unless it is one of them; yield it where nobody can."""
    try:
        status = os.stat(folder)
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        yield _Found(relative, f"folder cannot be read: {error.strerror}")
        return
    identity = status.st_dev, status.st_ino
    if identity not in (one.identity for one in above):
        above.append(_Folder(iter(entries), relative, identity))


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
