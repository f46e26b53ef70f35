"""Images and arrays from their source to a corpus and a format, by the programs that the workflow runs."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from scripts.common.corpus import Corpus
from tests.support.programs import PROJECT

CASES = {
    "image": ("synthetic_images", {"images": 60, "side": 40}, {"size": [24, 32]}, "files"),
    "array": ("synthetic_arrays", {"arrays": 60}, {"shape": [3, 4], "dtype": "int32"}, "npy"),
}


def run(program, *arguments) -> str:
    """Run a program of the room prepare; return what it printed."""
    words = [sys.executable, "-m", f"scripts.prepare.{program}", *map(str, arguments)]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def corpus_of(folder, kind, source, options, of_kind) -> Corpus:
    """Take a source to a corpus below `folder`."""
    ledger, store, kinds = folder / "ledger.csv", folder / "store", ["--kind-options", json.dumps(of_kind)]
    asked = ["--source", source, "--options", json.dumps(options), "--store", store, *kinds]
    run("fetch_clips", *asked, "--shard", 0, "--ledger", ledger)
    kinds += ["--kind", kind]
    shard = folder / "corpus" / "shards" / "0000"
    run("build_corpus", "--ledger", ledger, "--store", store, *kinds, "--jobs", 2, "--out", shard)
    run("index_corpus", "--shards-dir", shard.parent, "--count", 1, *kinds, "--out", folder / "corpus")
    return Corpus(folder / "corpus")


@pytest.mark.parametrize("kind", CASES)
def test_from_a_source_to_a_format(tmp_path, kind):
    source, options, of_kind, name = CASES[kind]
    corpus = corpus_of(tmp_path, kind, source, options, of_kind)
    assert sum(corpus.counts.values()) == 60 and corpus.counts["validation"] and corpus.sample.kind == kind
    written = ["--format", name, "--corpus", corpus.root, "--out", tmp_path / name, "--record", tmp_path / "r.json"]
    run("write_format", *written)
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["items"] == 60 and record["item_bytes"] == corpus.sample.bytes
    found = sorted((tmp_path / name / "train").glob(f"0*.{corpus.sample.ending}"))
    assert len(found) == corpus.counts["train"]
    for path, item in zip(found, corpus.items("train"), strict=True):
        values = np.load(path) if kind == "array" else np.asarray(Image.open(path)).transpose(2, 0, 1)
        assert np.array_equal(values, corpus.delivered(item))


def test_bad_images_of_a_folder_are_named_and_the_rest_goes_on(tmp_path):
    for label in ("cats", "dogs"):
        (tmp_path / "files" / label).mkdir(parents=True)
        for number in range(8):
            pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "files" / label / f"{number}.jpg")
    broken = tmp_path / "files" / "cats" / "cut.jpg"
    broken.write_bytes((tmp_path / "files" / "cats" / "0.jpg").read_bytes()[:900])
    (tmp_path / "files" / "dogs" / "text.png").write_text("no image")
    Image.new("RGB", (50, 4)).save(tmp_path / "files" / "dogs" / "flat.png")
    options = {"path": str(tmp_path / "files")}
    corpus = corpus_of(tmp_path, "image", "folder", options, {"size": [16, 16]})
    assert sum(corpus.counts.values()) == 16 and corpus.classes == 2
    with open(corpus.root / "rejected.csv", encoding="utf-8") as file:
        rejected = {row["id"]: row["reason"].split(":")[0] for row in csv.DictReader(file)}
    unknown = rejected.pop("dogs/text.png")
    assert unknown.startswith("no JPEG, PNG")
    assert rejected == {"cats/cut.jpg": "truncated", "dogs/flat.png": "too small"}
