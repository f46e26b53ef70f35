"""A part of a corpus is a corpus: some items of the whole, in the same order and with the same data."""

from pathlib import Path

import numpy as np
import pytest

from scripts.common.corpus import SPLITS, Corpus, read_manifest
from scripts.common.files import read_json
from scripts.prepare.select_part import select
from scripts.prepare.write_format import check_read_back, write_format
from tests.support.made_corpus import make_corpus


@pytest.fixture
def whole(tmp_path) -> Corpus:
    return make_corpus(tmp_path / "corpus", items=60, validation=12)


def test_a_part_has_its_share_of_each_split_in_the_same_order_with_the_same_data(whole):
    counts = select(whole.root, 20, whole.root / "part")
    part = Corpus(whole.root / "part")
    assert part.counts == counts == {"train": 16, "validation": 4} and part.sample == whole.sample
    rows = {item.id: item for item in read_manifest(whole.root / "manifest.csv")}
    found = list(read_manifest(part.root / "manifest.csv"))
    assert [item.index for item in found] == list(range(20))
    assert [item.id for item in found] == [name for name in rows if name in {item.id for item in found}]
    for item in found:
        assert (item.split, item.classes, item.frames, item.hash) == rows[item.id][2:6]
        assert np.array_equal(part.stored(item), whole.stored(rows[item.id]))
    info = read_json(part.root / "corpus.json")
    assert info["audio_seconds"] == pytest.approx(sum(item.frames for item in found) / info["sample_rate"])
    assert info["ids_hash"] != read_json(whole.root / "corpus.json")["ids_hash"]


def test_it_is_the_same_each_time_and_a_larger_one_holds_a_smaller_one(whole, tmp_path):
    ids = []
    for number, items in enumerate((10, 10, 30)):
        select(whole.root, items, tmp_path / f"part-{number}")
        ids.append([item.id for item in read_manifest(tmp_path / f"part-{number}" / "manifest.csv")])
    assert ids[0] == ids[1] and set(ids[0]) < set(ids[2])


@pytest.mark.parametrize(("items", "train", "validation"), [(1, 1, 1), (60, 48, 12), (10**6, 48, 12)])
def test_each_split_has_an_item_and_no_more_than_there_are(whole, items, train, validation):
    assert select(whole.root, items, whole.root / "part") == {"train": train, "validation": validation}


def test_formats_are_written_of_a_part_as_of_any_corpus(whole, tmp_path):
    select(whole.root, 20, whole.root / "part")
    part = Corpus(whole.root / "part")
    for name in ("wav", "memmap", "webdataset"):
        record = write_format(name, part, 1, tmp_path / name)
        assert record["items"] == 20
        for split in SPLITS:
            check_read_back(name, part, split, tmp_path / name / split)


def test_wav_files_are_those_of_the_corpus_under_another_name(whole, tmp_path):
    write_format("wav", whole, 1, tmp_path / "wav")
    files = sorted(Path(tmp_path / "wav").rglob("*.wav"))
    assert len(files) == 60 and all(file.stat().st_nlink == 2 for file in files)
