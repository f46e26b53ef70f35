"""Writes the corpus in one format: both splits, whole or not at all, and a record of what it cost.

    python -m scripts.prepare.write_format --format npy --corpus results/corpus/demo --readers 2 \\
        --out results/formats/demo/npy --record results/formats/demo/npy.json

The record's `seconds` run from before the first item is read until all bytes have reached the device (`syncfs` on the
file system, see `machine.copies.flush_tree`); the libraries that the format needs are imported before. Pages of the
corpus that the page cache holds are not dropped first.
"""

import argparse
import errno
import importlib
import sys
import time
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tqdm import tqdm

from scripts.common import isolated, plugins
from scripts.common.corpus import SPLITS, Corpus, Item
from scripts.common.errors import UserError, run_main
from scripts.common.files import tree_size, whole_directory, write_json
from scripts.common.progress import progress_bar
from scripts.common.vocabulary import CROPS, SPLIT
from scripts.formats import _users
from scripts.machine.copies import NO_ROOM, flush_tree, free_bytes, room_for

VERSION = 2
LONGER = 64  # samples that a codec with loss may add at the end
READ_BACK = 8  # items of each split, which are compared with the corpus before the format counts as written


def open_corpus(path: Path) -> Corpus:
    """Return the corpus in `path`. Raises UserError where there is none."""
    if not (path / "corpus.json").is_file():
        raise UserError(
            f"--corpus {path}: found no corpus.json; allowed is a folder that index_corpus has written. "
            "Type `snakemake results/corpus/DATASET/corpus.json --config dataset=DATASET` to make it."
        )
    return Corpus(path)


def not_installed(name: str, module: ModuleType) -> str | None:
    """Import what the format's `write` will import: its REQUIRES. Return why one of an isolated environment cannot be.

    Such a library is not in the main environment, and may have none for this machine (`scripts/common/isolated.py`).
    Raises UserError where another library is absent.
    """
    for library in getattr(module, "REQUIRES", ()):
        try:
            importlib.import_module(library)
        except ImportError as error:
            if isolated.lock(isolated.env_of(module)).is_file():
                return f"not installed: {library} ({error})"
            raise UserError(
                f"format {name!r} needs {library}, which cannot be imported ({error}). "
                "Use the project's environments: type the same command with --use-conda at its end."
            ) from error
    return None


def without_data(name: str, corpus: Corpus, out: Path, reason: str) -> dict[str, Any]:
    """Leave two empty splits in `out` and return the record that says why: nothing is written, and nobody reads it.

    Its loaders need the same library, so that each of their runs is a row "not installed".
    """
    with whole_directory(out) as aside:
        for split in SPLITS:
            (aside / split).mkdir()
    item_bytes = plugins.load("formats", name).BYTES_PER_ITEM(corpus.sample)
    none = dict.fromkeys(("seconds", "bytes", "files", "items", "items_per_second"))
    return {"record": "format", "format": name, "reason": reason, "item_bytes": item_bytes, **none}


def write_format(name: str, corpus: Corpus, readers: int, out: Path) -> dict[str, Any]:
    """Write both splits of `corpus` in format `name` to the folder `out`, replacing it, and return the record.

    Raises UserError where the format is unknown, the file system has too little room, a file that the
    manifest names is absent, or the format does not give back the items that it was given.
    """
    module = plugins.load("formats", name)
    items = sum(corpus.counts.values())
    item_bytes = module.BYTES_PER_ITEM(corpus.sample)
    with (
        room_for(out, round(items * plugins.takes(module, corpus.sample) / corpus.delivered_share)),
        progress_bar(total=items, name=name, unit="item") as bar,
        whole_directory(out) as aside,
    ):
        start = time.perf_counter()
        for split in SPLITS:
            (aside / split).mkdir()
            if corpus.counts[split]:
                _write_split(module, corpus, split, aside / split, readers, bar)
        flush_tree(aside)
        seconds = time.perf_counter() - start
        for split in SPLITS:
            if corpus.counts[split]:
                check_read_back(name, corpus, split, aside / split)
    size, files = tree_size(out)
    if corpus.sample.kind == CROPS:  # how many bytes a piece has in an encoded format, nobody knows before
        item_bytes = round(size * corpus.delivered_share / items)
    return {
        "record": "format",
        "format": name,
        "seconds": seconds,
        "bytes": size,
        "files": files,
        "items": items,
        "item_bytes": item_bytes,
        "items_per_second": items / seconds,
    }


def link_files(name: str, patterns: list[str], out: Path) -> dict[str, Any]:
    """Give files of the user's own second names below `out`, in the split that is measured; return the record.

    Raises UserError for a pattern that matches nothing.
    """
    start = time.perf_counter()
    with whole_directory(out) as aside:
        for split in SPLITS:
            (aside / split).mkdir()
        size, files = _users.write(patterns, aside / SPLIT)
    none = dict.fromkeys(("items", "item_bytes", "items_per_second"))
    record = {"record": "format", "format": name, "seconds": time.perf_counter() - start, "bytes": size, "files": files}
    return record | none


def _write_split(module: ModuleType, corpus: Corpus, split: str, out: Path, readers: int, bar: tqdm) -> None:
    written = 0

    def progress(items: int) -> None:
        nonlocal written
        written += items
        bar.update(items)

    try:
        module.write(corpus, split, out, readers, progress)
    except FileNotFoundError as error:
        if not Path(error.filename or "").is_relative_to(corpus.root):
            raise
        raise UserError(
            f"{error.filename}: the manifest names this file, and it is absent. A corpus must be complete: "
            f"delete {corpus.root} and make it again."
        ) from error
    except Exception as error:
        full = free_bytes(out) < module.BYTES_PER_ITEM(corpus.sample)
        if not full or isinstance(error, UserError) or getattr(error, "errno", None) in NO_ROOM:
            raise
        raise OSError(errno.ENOSPC, f"{type(error).__name__}: {error}") from error  # a library's own error: `room_for`
    if written != corpus.counts[split]:
        raise UserError(
            f"{corpus.root}/manifest.csv: found {written} items of {split}, corpus.json has {corpus.counts[split]}. "
            "Delete the manifest, then type the same command again."
        )


def bits(values: np.ndarray) -> np.ndarray:
    """Return the values as unsigned integers of their width: two NaNs of the same bits are the same."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def check_read_back(name: str, corpus: Corpus, split: str, out: Path) -> None:
    """Raise UserError where the format's own `read` does not give back, bit for bit, the first items that it yields."""
    found = {index: values for index, values, _ in islice(plugins.load("formats", name).read(out, corpus), READ_BACK)}
    told = f"format {name!r} does not give back the corpus: "
    advice = (
        f"Allowed is what gives {corpus.sample.stored} back as {corpus.sample.dtype} {corpus.sample.shape}, without "
        f"loss (docs/extending.md). Correct write or read in scripts/formats/{name}.py."
    )
    if len(found) != min(READ_BACK, corpus.counts[split]):
        raise UserError(f"{told}{len(found)} of the first {READ_BACK} items of {split} can be read. {advice}")
    for item in corpus.items(split):
        if not found:
            return
        if item.index not in found:
            continue
        values, expected = np.asarray(found.pop(item.index)), corpus.delivered(item)
        if hasattr(plugins.load("formats", name), "truth"):
            _check_aligned(values, item, corpus, f"{told}item {item.index} {{}}. {advice}")
            continue
        if values.dtype != expected.dtype or values.shape != expected.shape:
            raise UserError(f"{told}item {item.index} is {values.dtype} {values.shape}. {advice}")
        differing = int(np.count_nonzero(bits(values) != bits(expected)))
        if differing:
            raise UserError(f"{told}item {item.index} differs at {differing:,} of {values.size:,} values. {advice}")
    if found:
        raise UserError(f"{told}item {min(found)} is not in {split}. {advice}")


def _check_aligned(values: np.ndarray, item: Item, corpus: Corpus, told: str) -> None:
    """Raise UserError where a codec with loss gives a recording in another length, or shifted in time."""
    if values.shape[0] != corpus.sample.shape[0] or not 0 <= values.shape[1] - item.frames <= LONGER:
        raise UserError(told.format(f"is {values.shape[1]:,} samples, of {item.frames:,}"))
    pcm = corpus.stored(item)
    start = max(0, item.frames - corpus.samples) // 2
    piece = values[:, start : start + min(corpus.samples, item.frames)]
    if pcm.any() and (found := corpus.kind.shift_of(piece, pcm, start)):
        raise UserError(told.format(f"is {found[0]:+d} samples off in time"))


def main() -> None:
    """Read the command line, write the format, then the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", required=True, help=f"one of {', '.join(plugins.names('formats'))}")
    parser.add_argument("--corpus", required=True, type=Path, help="folder with corpus.json and manifest.csv")
    parser.add_argument("--readers", type=int, default=1, help="most parallel readers of a run (default: 1)")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; it is replaced")
    parser.add_argument("--record", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--files", nargs="*", help="files of the user's own, folders and patterns: linked, not written")
    args = parser.parse_args()
    if args.files is not None:
        write_json(args.record, link_files(args.format, args.files, args.out))
        return
    module = plugins.load("formats", args.format)
    isolated.enter(isolated.env_of(module))
    if args.readers < 1:
        raise UserError(f"--readers {args.readers}: allowed is 1 or more. Type the largest number of workers, or 1.")
    corpus = open_corpus(args.corpus)
    if reason := not_installed(args.format, module):
        print(f"format {args.format}: {reason}: its loaders will be rows with this reason", file=sys.stderr)
        record = without_data(args.format, corpus, args.out, reason)
    else:
        record = write_format(args.format, corpus, args.readers, args.out)
    write_json(args.record, record)


if __name__ == "__main__":
    run_main(main)
