"""Joins the shards of a corpus into its manifest: order of the items, split, class numbers, and what was left out."""

import argparse
import csv
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from scripts.common.corpus import MANIFEST_COLUMNS, SPLITS
from scripts.common.errors import UserError, reading, run_main
from scripts.common.files import whole_file, write_json
from scripts.prepare.arguments import add_kind_arguments, load_kind

VERSION = 2


class ShardItem(NamedTuple):
    """One row of a shard's items.csv; sorts by id, code point by code point."""

    id: str
    frames: int
    hash: str
    path: str
    labels: tuple[str, ...]  # the first is the target


class Rejections(NamedTuple):
    """What the shards left out."""

    rejected: int  # what came cannot be used
    unavailable: int  # permanently unavailable
    failed: int  # did not come this time
    kinds: Counter[str]  # how often each reason, its details left away


def read_items(shards: list[Path]) -> list[ShardItem]:
    """Return all items in order of id. Raises UserError for an id that occurs twice."""
    known: dict[str, tuple[str, ...]] = {}  # many items share their labels: each list of names is kept once
    items = []
    for shard in shards:
        path = shard / "items.csv"
        if not path.is_file():
            raise UserError(
                f"{path}: not found; needed is one folder per shard. Type the same command again, which makes it."
            )
        with reading(path, "build_corpus", shard), open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                labels = row["labels"]
                if labels not in known:
                    known[labels] = tuple(dict.fromkeys(json.loads(labels)))
                items.append(ShardItem(row["id"], int(row["frames"]), row["hash"], row["path"], known[labels]))
    items.sort()
    for one, other in pairwise(items):
        if one.id == other.id:
            raise UserError(
                f"found the id {one.id!r} twice, in {one.path} and {other.path}; every item needs an id of its own. "
                "Rename one of the recordings, or delete the shards' folders if the data set changed, and run again."
            )
    return items


def split_of(item_id: str, validation: float, seed: int) -> str:
    """Return the split of an item: decided by its recording's id and the seed alone.

    The hash, as a fraction of 2**64, is uniform on [0, 1): the items below `validation` are that share of all.
    """
    recording = item_id.split("#")[0]
    fraction = xxhash.xxh3_64_intdigest(f"{seed}:{recording}".encode()) / 2**64
    return "validation" if fraction < validation else "train"


def write_rejected(shards: list[Path], path: Path) -> Rejections:
    """Write what all shards left out to `path` in the shards' order, and return how much of what kind it was.

    Items that nobody has asked for yet (`waiting`, `stopped`) are no part of it.
    """
    statuses: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    with whole_file(path) as file:
        table = csv.writer(file)
        table.writerow(("id", "reason"))
        for shard in shards:
            rejected = shard / "rejected.csv"
            with reading(rejected, "build_corpus", shard), open(rejected, encoding="utf-8", newline="") as rows:
                for row in csv.DictReader(rows):
                    if row["status"] in ("waiting", "stopped"):
                        continue
                    table.writerow((row["id"], row["reason"]))
                    statuses[row["status"]] += 1
                    kinds[row["reason"].split(":")[0]] += 1
    return Rejections(statuses["rejected"], statuses["unavailable"], statuses["failed"], kinds)


def check_train(splits: list[str], rejections: Rejections, validation: float) -> None:
    """Raise UserError where no item is left to train on, with the most common reasons."""
    if "train" in splits:
        return
    left_out = rejections.rejected + rejections.unavailable + rejections.failed
    common = "; ".join(f"{reason} ({count})" for reason, count in rejections.kinds.most_common(3)) or "none"
    hint = (
        f"lower the validation fraction ({validation:g})"
        if splits
        else "put vanished files back and type the same command with --forcerun fetch_clips at its end"
    )
    raise UserError(
        f"found no item for the split train: {len(splits)} in validation, {left_out} rejected. Most common reasons: "
        f"{common}. Needed is at least one item. Look into rejected.csv, fix the data set, or {hint}, and run again."
    )


def write_index(items: list[ShardItem], splits: list[str], rejections: Rejections, kind: Any, out: Path) -> None:
    """Write classes.csv, corpus.json and, last, manifest.csv, each whole."""
    classes = sorted({name for labels in {item.labels for item in items} for name in labels})
    number = {name: position for position, name in enumerate(classes)}
    with whole_file(out / "classes.csv") as file:
        table = csv.writer(file)
        table.writerow(("index", "name"))
        table.writerows(enumerate(classes))
    ids = xxhash.xxh3_64()
    for item in items:
        ids.update(f"{item.id}\n".encode())
    counts = Counter(splits)
    corpus = {
        **kind.about(sum(item.frames for item in items)),
        "sample": kind.sample.as_json(),
        "classes": len(classes),
        "items": {split: counts[split] for split in SPLITS},
        "rejected": rejections.rejected,
        "unavailable": rejections.unavailable,
        "failed": rejections.failed,
        "ids_hash": ids.hexdigest(),
    }
    write_json(out / "corpus.json", corpus)
    with whole_file(out / "manifest.csv") as file:
        table = csv.writer(file)
        table.writerow(MANIFEST_COLUMNS)
        for index, (item, split) in enumerate(zip(items, splits, strict=True)):
            numbers = " ".join(str(number[name]) for name in item.labels)
            table.writerow((index, item.id, split, numbers, item.frames, item.hash, item.path))


def main() -> None:
    """Write the corpus's four files and print how many items each split has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--shards-dir", type=Path, required=True, help="folder with 0000, 0001, ...")
    parser.add_argument("--count", type=int, required=True, help="number of shards")
    parser.add_argument("--validation", type=float, default=0.1, help="share of the recordings in the validation split")
    parser.add_argument("--split-seed", type=int, default=0, help="another seed splits otherwise")
    add_kind_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, help="corpus folder: the four files are written there")
    arguments = parser.parse_args()
    if not 0 <= arguments.validation < 1:
        raise UserError(f"--validation: found {arguments.validation:g}; allowed is 0 to below 1. Try: --validation 0.1")
    if arguments.count < 1:
        raise UserError(f"--count: found {arguments.count}; allowed is 1 or more. Try: --count 1")
    kind = load_kind(arguments)
    shards = [arguments.shards_dir / f"{shard:04d}" for shard in range(arguments.count)]
    # The manifest says that all else is there, so that an older one must not stand while the rest is replaced.
    (arguments.out / "manifest.csv").unlink(missing_ok=True)
    items = read_items(shards)
    splits = [split_of(item.id, arguments.validation, arguments.split_seed) for item in items]
    rejections = write_rejected(shards, arguments.out / "rejected.csv")
    check_train(splits, rejections, arguments.validation)
    write_index(items, splits, rejections, kind, arguments.out)
    counts = Counter(splits)
    print(
        ", ".join(f"{counts[split]} {split}" for split in SPLITS) + f", {rejections.rejected} rejected, "
        f"{rejections.unavailable} unavailable, {rejections.failed} failed"
    )


if __name__ == "__main__":
    run_main(main)
