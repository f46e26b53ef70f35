"""Indexing and selecting keep no row in memory: ten times the items take no more of it."""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts.common.corpus import read_manifest
from scripts.common.files import read_json
from tests.support.programs import program_line

LABELS = [[f"class {number % 500}", f"class {number % 7}"] for number in range(3000)]
GROWTH = 1.15  # times the memory for ten times the items


def planted(folder: Path, items: int, shards: int) -> None:
    """Write the tables of shards with so many items in all, whose files nobody reads."""
    for shard in range(shards):
        place = folder / "shards" / f"{shard:04d}"
        place.mkdir(parents=True)
        (place / "rejected.csv").write_text("id,reason,status\r\n")
        (place / "remarks.csv").write_text("id,remark\r\n")
        with open(place / "items.csv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(("id", "frames", "hash", "path", "labels"))
            for number in range(shard, items, shards):
                path = f"shards/{place.name}/{number // shards:06d}.wav"
                labels = json.dumps(LABELS[number % len(LABELS)])
                table.writerow((f"{number * 7919 % items:08d}", 160_000, f"{number:016x}", path, labels))


def peak(*words: object) -> int:
    """Return the peak memory of a program in KB; it must end well."""
    with open(os.devnull, "w") as nothing:
        started = subprocess.Popen(list(map(str, words)), stdout=nothing)
        _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0
    return usage.ru_maxrss


@pytest.mark.parametrize("shards", [4])
def test_memory_does_not_grow_with_the_items(tmp_path, shards):
    used = {"index_corpus": [], "select_part": []}
    for items in (20_371, 203_710):
        folder = tmp_path / str(items)
        planted(folder, items, shards)
        index = [*program_line("index_corpus"), "--shards-dir", folder / "shards", "--count", shards, "--out", folder]
        used["index_corpus"].append(peak(*index))
        select = [*program_line("select_part"), "--corpus", folder, "--items", 1000, "--out", folder / "part"]
        used["select_part"].append(peak(*select))
        counts = read_json(folder / "corpus.json")["items"]
        assert sum(counts.values()) == items and read_json(folder / "corpus.json")["classes"] == 500
        rows = read_manifest(folder / "manifest.csv")
        assert all(item.id == f"{number:08d}" and item.index == number for number, item in enumerate(rows))
        assert sum(read_json(folder / "part" / "corpus.json")["items"].values()) == pytest.approx(1000, abs=1)
    for program, (small, large) in used.items():
        assert large <= GROWTH * small, (program, used)
