"""Selects the part of a corpus that is measured first: a corpus of its own, whose files are those of the whole.

python -m scripts.prepare.select_part --corpus results/corpus/demo --items 1000 --out results/corpus/demo/part
"""

import argparse
import csv
import heapq
import os
from collections import Counter
from pathlib import Path

import xxhash

from scripts.common.corpus import MANIFEST_COLUMNS, SPLITS, read_manifest
from scripts.common.errors import UserError, run_main
from scripts.common.files import read_json, whole_file, write_json

VERSION = 1


def chosen_of(manifest: Path, wanted: dict[str, int]) -> set[int]:
    """Return the indices of so many items of each split: those whose ids have the least hashes. Keeps no others."""
    least: dict[str, list[tuple[int, int]]] = {split: [] for split in wanted}
    for item in read_manifest(manifest):
        heap, entry = least[item.split], (-xxhash.xxh3_64_intdigest(item.id.encode()), item.index)
        if len(heap) < wanted[item.split]:
            heapq.heappush(heap, entry)
        elif entry > heap[0]:
            heapq.heapreplace(heap, entry)
    return {index for heap in least.values() for _, index in heap}


def select(corpus: Path, items: int, out: Path) -> dict[str, int]:
    """Write the part of about `items` of the corpus, in the same order, to the folder `out`; return them by split.

    Each split has its share, and at least one item where it has any.
    """
    info = read_json(corpus / "corpus.json")
    total = sum(info["items"].values())
    shares = {split: max(1, round(items * count / total)) for split, count in info["items"].items() if count}
    chosen = chosen_of(corpus / "manifest.csv", {split: min(shares[split], info["items"][split]) for split in shares})
    above, rows, counts, ids = os.path.relpath(corpus, out), [], Counter(), xxhash.xxh3_64()
    for item in read_manifest(corpus / "manifest.csv"):
        if item.index in chosen:
            counts[item.split] += 1
            ids.update(f"{item.id}\n".encode())
            numbers = " ".join(map(str, item.classes))
            rows.append((len(rows), item.id, item.split, numbers, item.frames, item.hash, f"{above}/{item.path}"))
    changed = {"items": {split: counts[split] for split in SPLITS}, "ids_hash": ids.hexdigest()}
    if "audio_seconds" in info:
        changed["audio_seconds"] = sum(row[4] for row in rows) / info["sample_rate"]
    out.mkdir(parents=True, exist_ok=True)
    (out / "manifest.csv").unlink(missing_ok=True)  # it says that all else is there
    write_json(out / "corpus.json", info | changed)
    with whole_file(out / "classes.csv") as file:
        file.write((corpus / "classes.csv").read_text(encoding="utf-8"))
    with whole_file(out / "manifest.csv") as file:
        table = csv.writer(file)
        table.writerow(MANIFEST_COLUMNS)
        table.writerows(rows)
    return changed["items"]


def main() -> None:
    """Select the part and print how many items each of its splits has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, type=Path, help="folder with corpus.json and manifest.csv")
    parser.add_argument("--items", required=True, type=int, help="about how many items")
    parser.add_argument("--out", required=True, type=Path, help="folder of the part, to write")
    arguments = parser.parse_args()
    if arguments.items < 1:
        raise UserError(f"--items: found {arguments.items}; allowed is 1 or more. Try: --items 1000")
    if not (arguments.corpus / "corpus.json").is_file():
        raise UserError(
            f"--corpus {arguments.corpus}: found no corpus.json. Name a folder that index_corpus has written."
        )
    counts = select(arguments.corpus, arguments.items, arguments.out)
    print(", ".join(f"{count} {split}" for split, count in counts.items()))


if __name__ == "__main__":
    run_main(main)
