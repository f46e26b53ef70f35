"""Outputs that appear whole or not at all: written aside, flushed, then renamed."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
PAGE = 4096  # bytes that a device reads at least


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Yield where to write what becomes `path`, in a folder that is there; errors of writing say where they were."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield path.with_name(f".{path.name}.partial-{os.getpid()}")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):  # of which the kernel does not say it
            error.filename = error.filename or str(path)
        raise


@contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[Any]:
    """Yield an open file that becomes `path` when the block ends without an error.

    Text is UTF-8 without newline translation, as the csv module asks for.
    """
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    with _aside(path) as aside:
        try:
            with open(aside, mode, **text) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` that replaces `path` when the block ends without an error."""
    with _aside(path) as aside:
        remove_leftovers(path)
        aside.mkdir()
        try:
            yield aside
            if path.exists():
                shutil.rmtree(path)
            os.replace(aside, path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def remove_leftovers(path: Path) -> None:
    """Remove what calls that were killed have left beside the folder `path`, which they were writing."""
    for leftover in path.parent.glob(f".{path.name}.partial-*"):
        shutil.rmtree(leftover)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON to `path`, whole or not at all. NaN and infinity raise ValueError."""
    with whole_file(path) as file:
        json.dump(value, file, indent=1, allow_nan=False)
        file.write("\n")


def _refused(constant: str) -> None:
    raise json.JSONDecodeError(f"found {constant}, which is not a JSON number", constant, 0)


def read_json(path: Path) -> Any:
    """Return what the JSON file `path` holds. NaN and infinity raise JSONDecodeError: `write_json` writes none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused)
    except OSError as error:
        error.filename = error.filename or str(path)  # a read that fails does not say where
        raise


def tree_size(path: Path) -> tuple[int, int]:
    """Return (bytes, files) of all regular files below `path`."""
    total = files = 0
    for folder, _, names in os.walk(path):
        for name in names:
            total += os.lstat(os.path.join(folder, name)).st_size
            files += 1
    return total, files


def block_of(item_bytes: int) -> int:
    """Return the bytes that a read of an item takes from a device: `item_bytes` rounded up to whole pages of 4096."""
    return -(-item_bytes // PAGE) * PAGE
