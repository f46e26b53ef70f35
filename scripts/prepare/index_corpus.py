"""Joins the shards of a corpus into its manifest: order of the items, split, class numbers, and what was left out."""

import argparse
import csv
import json
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from scripts.common import plugins
from scripts.common.corpus import MANIFEST_COLUMNS, SPLITS
from scripts.common.errors import UserError, reading, run_main
from scripts.common.files import whole_file, write_json
from scripts.prepare.arguments import add_kind_arguments, load_kind

VERSION = 3
NO_RECORDING = ("no audio stream", "not decodable", "no row in the labels file")  # why a file beside them is left out


class Rejections(NamedTuple):
    """What the shards left out."""

    rejected: int  # what came cannot be used
    unavailable: int  # permanently unavailable
    failed: int  # did not come this time
    kinds: Counter[str]  # how often each reason, its details left away
    beside: int = 0  # files that are no recordings, by their endings: covers, playlists


@contextmanager
def gathered(shards: list[Path], folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield a table `items` (id, frames, hash, path, labels as JSON) of all items, on disk in `folder` meanwhile.

    So memory does not grow with the number of items. Raises UserError for an id that occurs twice.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".index-") as place:
        table = sqlite3.connect(Path(place, "items.sqlite"), isolation_level=None)
        table.execute("PRAGMA journal_mode = OFF")  # it is removed, however this ends
        table.execute("PRAGMA synchronous = OFF")
        table.execute("CREATE TABLE items (id TEXT PRIMARY KEY, frames INT, hash TEXT, path TEXT, labels TEXT)")
        table.execute("BEGIN")
        try:
            for shard in shards:
                _add(table, shard)
            yield table
        finally:
            table.close()


def _add(table: sqlite3.Connection, shard: Path) -> None:
    path = shard / "items.csv"
    if not path.is_file():
        raise UserError(
            f"{path}: not found; needed is one folder per shard. Type the same command again, which makes it."
        )
    with reading(path, "build_corpus", shard), open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = row["id"], int(row["frames"]), row["hash"], row["path"], row["labels"]
            _labels(row["labels"])  # which must be JSON
            try:
                table.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?)", values)
            except sqlite3.IntegrityError:
                other = table.execute("SELECT path FROM items WHERE id = ?", (row["id"],)).fetchone()
                if other is None:
                    raise ValueError(f"the row of item {row['id']} is cut") from None
                raise UserError(
                    f"found the id {row['id']!r} twice, in {other[0]} and {row['path']}; every item needs an id of its "
                    "own. Rename one of the recordings, or delete the shards' folders if the data set changed, and "
                    "run again."
                ) from None


@lru_cache(maxsize=100_000)
def _labels(text: str) -> tuple[str, ...]:
    """Return the names that a row's labels are, each once; the first is the target."""
    return tuple(dict.fromkeys(json.loads(text)))


def split_of(item_id: str, validation: float, seed: int) -> str:
    """Return the split of an item: decided by its recording's id and the seed alone.

    The hash, as a fraction of 2**64, is uniform on [0, 1): the items below `validation` are that share of all.
    """
    recording = item_id.split("#")[0]
    fraction = xxhash.xxh3_64_intdigest(f"{seed}:{recording}".encode()) / 2**64
    return "validation" if fraction < validation else "train"


def rows_of(shards: Iterable[Path], name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table that each shard has, shard by shard. Raises UserError for one that is absent."""
    for shard in shards:
        path = shard / name
        with reading(path, "build_corpus", shard), open(path, encoding="utf-8", newline="") as rows:
            yield from csv.DictReader(rows)


def write_rejected(shards: list[Path], path: Path, beside: Collection[str] = ()) -> Rejections:
    """Write what all shards left out to `path` in the shards' order, and return how much of what kind it was.

    Items that nobody has asked for yet (`waiting`, `stopped`) are no part of it. Files with an ending of `beside` that
    are no recordings are counted in one row.
    """
    statuses: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    others: Counter[str] = Counter()
    known = {ending.lower() for ending in beside}
    with whole_file(path) as file:
        table = csv.writer(file)
        table.writerow(("id", "reason"))
        for row in rows_of(shards, "rejected.csv"):
            if row["status"] in ("waiting", "stopped"):
                continue
            reason, ending = row["reason"].split(":")[0], row["id"].rpartition(".")[2].lower()
            if reason in NO_RECORDING and ending in known:
                others[f".{ending}"] += 1
                continue
            table.writerow((row["id"], row["reason"]))
            statuses[row["status"]] += 1
            kinds[reason] += 1
        if others:
            kinds["no recordings"] = others.total()
            endings = ", ".join(f"{count} {ending}" for ending, count in sorted(others.items()))
            table.writerow((f"{others.total()} files", f"no recordings: {endings}"))
    return Rejections(statuses["rejected"], statuses["unavailable"], statuses["failed"], kinds, others.total())


def write_remarks(shards: list[Path], path: Path) -> Counter[str]:
    """Write what is to be said of items that are taken to `path`, and return how often each kind of remark."""
    kinds: Counter[str] = Counter()
    with whole_file(path) as file:
        table = csv.writer(file)
        table.writerow(("id", "remark"))
        for row in rows_of(shards, "remarks.csv"):
            table.writerow((row["id"], row["remark"]))
            kinds[row["remark"].split(":")[0]] += 1
    return kinds


def check_train(counts: Mapping[str, int], rejections: Rejections, validation: float) -> None:
    """Raise UserError where no item is left to train on, with the most common reasons."""
    if counts["train"]:
        return
    left_out = rejections.rejected + rejections.unavailable + rejections.failed + rejections.beside
    common = "; ".join(f"{reason} ({count})" for reason, count in rejections.kinds.most_common(3)) or "none"
    hint = (
        f"lower the validation fraction ({validation:g})"
        if counts["validation"]
        else "put vanished files back and type the same command with --forcerun fetch_clips at its end"
    )
    raise UserError(
        f"found no item for the split train: {counts['validation']} in validation, {left_out} rejected. Most common "
        f"reasons: {common}. Needed is at least one item. Look into rejected.csv, fix the data set, or {hint}, and run "
        "again."
    )


def write_index(
    table: sqlite3.Connection,
    split: Callable[[str], str],
    rejections: Rejections,
    remarks: Mapping[str, int],
    validation: float,
    kind: Any,
    out: Path,
) -> Counter[str]:
    """Write classes.csv, corpus.json and, last, manifest.csv, each whole; return the items of each split.

    Items are in order of their ids, code point by code point. Raises UserError where none is left to train on.
    """
    names = {name for (text,) in table.execute("SELECT DISTINCT labels FROM items") for name in _labels(text)}
    number = {name: position for position, name in enumerate(sorted(names))}
    counts, frames, ids = Counter(dict.fromkeys(SPLITS, 0)), 0, xxhash.xxh3_64()
    for item, length in table.execute("SELECT id, frames FROM items ORDER BY id"):
        counts[split(item)] += 1
        frames += length
        ids.update(f"{item}\n".encode())
    check_train(counts, rejections, validation)
    with whole_file(out / "classes.csv") as file:
        rows = csv.writer(file)
        rows.writerow(("index", "name"))
        rows.writerows((position, name) for name, position in number.items())
    corpus = {
        **kind.about(frames),
        "sample": kind.sample.as_json(),
        "classes": len(number),
        "items": {one: counts[one] for one in SPLITS},
        "rejected": rejections.rejected,
        "unavailable": rejections.unavailable,
        "failed": rejections.failed,
        "beside": rejections.beside,
        "remarks": dict(sorted(remarks.items())),
        "ids_hash": ids.hexdigest(),
    }
    write_json(out / "corpus.json", corpus)
    with whole_file(out / "manifest.csv") as file:
        rows = csv.writer(file)
        rows.writerow(MANIFEST_COLUMNS)
        every = table.execute("SELECT id, frames, hash, path, labels FROM items ORDER BY id")
        for index, (item, length, hash_, path, labels) in enumerate(every):
            numbers = " ".join(str(number[name]) for name in _labels(labels))
            rows.writerow((index, item, split(item), numbers, length, hash_, path))
    return counts


def main() -> None:
    """Write the corpus's five files and print how many items each split has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--shards-dir", type=Path, required=True, help="folder with 0000, 0001, ...")
    parser.add_argument("--count", type=int, required=True, help="number of shards")
    parser.add_argument("--validation", type=float, default=0.1, help="share of the recordings in the validation split")
    parser.add_argument("--split-seed", type=int, default=0, help="another seed splits otherwise")
    add_kind_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, help="corpus folder: the five files are written there")
    arguments = parser.parse_args()
    if not 0 <= arguments.validation < 1:
        raise UserError(f"--validation: found {arguments.validation:g}; allowed is 0 to below 1. Try: --validation 0.1")
    if arguments.count < 1:
        raise UserError(f"--count: found {arguments.count}; allowed is 1 or more. Try: --count 1")
    kind = load_kind(arguments)
    shards = [arguments.shards_dir / f"{shard:04d}" for shard in range(arguments.count)]
    # The manifest says that all else is there, so that an older one must not stand while the rest is replaced.
    (arguments.out / "manifest.csv").unlink(missing_ok=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with gathered(shards, arguments.out) as table:
        beside = getattr(plugins.load("kinds", arguments.kind), "BESIDE", ())
        rejections = write_rejected(shards, arguments.out / "rejected.csv", beside)
        remarks = write_remarks(shards, arguments.out / "remarks.csv")
        split = partial(split_of, validation=arguments.validation, seed=arguments.split_seed)
        counts = write_index(table, split, rejections, remarks, arguments.validation, kind, arguments.out)
    print(
        ", ".join(f"{counts[split]} {split}" for split in SPLITS) + f", {rejections.rejected} rejected, "
        f"{rejections.unavailable} unavailable, {rejections.failed} failed"
    )
    if rejections.beside:
        print(f"{rejections.beside} files beside the recordings are none, such as covers and playlists")
    for remark, count in remarks.most_common():
        named = f"{arguments.out / 'remarks.csv'} names them, docs/odd_files.md explains it."
        print(f"warning: {count} {'item' if count == 1 else 'items'}: {remark}. {named}")


if __name__ == "__main__":
    run_main(main)
