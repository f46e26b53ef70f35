"""HDF5, Arrow, LMDB and Zarr: what the contract suites do not show of files that many items share."""

import multiprocessing
import os
import wave
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from scripts.common import plugins
from scripts.common.corpus import Corpus, item_hash, to_float
from scripts.common.sample import audio
from scripts.loaders import _harness
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus

torch = pytest.importorskip("torch")
LIBRARIES = {"hdf5": "h5py", "arrow": "pyarrow", "lmdb": "lmdb", "zarr": "zarr"}
READERS = [(name, kind) for name in LIBRARIES for kind in ("ByBatch", "ByItem")]
every_reader = pytest.mark.parametrize(("name", "kind"), READERS)
methods = pytest.mark.parametrize("method", ["fork", "spawn"])


@pytest.fixture
def corpus(tmp_path) -> Corpus:
    return make_corpus(tmp_path / "corpus")


def placed(name, corpus, folder):
    """Write the corpus in format `name` and return the folder of the split `train`."""
    pytest.importorskip(LIBRARIES[name])
    write_format(corpus, name, folder / name, readers=1)
    return folder / name / "train"


def opened(name, kind, corpus, folder):
    """Write the corpus and return the loader's data set over it."""
    out = placed(name, corpus, folder)
    module, gather = import_module(f"scripts.loaders.{name}"), kind.removeprefix("By").lower()
    request = request_for(corpus, name, out.parent, options={"gather": gather})
    arguments = _harness.settings_of(module, request), request.sample, out, 0
    return module.make_loader(**_harness.arguments_of(_harness.names_of(module.make_loader), *arguments)).dataset


def audio_at(dataset, positions):
    """Return float32 (n, 1, samples) as the data set gives it, in one batch where it gives batches."""
    if hasattr(dataset, "__getitems__"):
        return dataset.__getitems__(positions)["audio"].numpy()
    return np.stack([np.asarray(dataset[position]["audio"]) for position in positions])


def expected(corpus):
    """Return float32 (n, 1, samples): the split `train` of the corpus itself."""
    return np.stack([to_float(corpus.padded(item))[None] for item in corpus.items("train")])


class Opening:
    """The items of another data set, with the process that reads and the one that opened what it reads from."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, position):
        audio = audio_at(self.dataset, [position])[0]
        return torch.from_numpy(audio), os.getpid(), getattr(self.dataset, "opened_by", None)


@methods
@every_reader
def test_workers_read_right_values_through_what_they_opened_themselves(corpus, tmp_path, name, kind, method):
    """The parent has read before, so that a fork inherits its open file, and reads on while the workers live."""
    dataset = opened(name, kind, corpus, tmp_path)
    wanted = expected(corpus)
    try:
        assert audio_at(dataset, [3, 1]).tobytes() == wanted[[3, 1]].tobytes()
        loader = torch.utils.data.DataLoader(
            Opening(dataset), num_workers=1, batch_size=None, multiprocessing_context=method
        )
        for position, (audio, reader, opener) in enumerate(loader):
            assert audio.numpy().tobytes() == wanted[position].tobytes()
            assert reader != os.getpid() and opener in (None, reader)
            assert audio_at(dataset, [position]).tobytes() == wanted[position].tobytes()
        assert getattr(dataset, "opened_by", None) in (None, os.getpid())
    finally:
        release(dataset)


def release(dataset):
    """Close what the data set holds open in this process."""
    getattr(dataset, "close", lambda: None)()


@pytest.mark.parametrize("name", ["hdf5", "lmdb"])
def test_a_child_ends_without_closing_the_file_of_its_parent(corpus, tmp_path, name):
    dataset = opened(name, "ByBatch", corpus, tmp_path)
    before = audio_at(dataset, [5])
    child = multiprocessing.get_context("fork").Process(target=audio_at, args=(dataset, [2]))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert audio_at(dataset, [5]).tobytes() == before.tobytes()
    release(dataset)


def test_arrow_is_bounded_batches_that_are_mapped_without_a_copy(corpus, tmp_path, monkeypatch):
    """Several record batches, the last one shorter."""
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(plugins.load("formats", "arrow"), "BATCH_BYTES", 5 * corpus.samples * 4)
    before = pa.total_allocated_bytes()
    dataset = opened("arrow", "ByBatch", corpus, tmp_path)
    assert [len(block) for block in dataset.blocks] == [5, 5, 5, 3]
    assert pa.total_allocated_bytes() == before
    everything = list(range(corpus.counts["train"]))[::-1]
    assert audio_at(dataset, everything).tobytes() == expected(corpus)[::-1].tobytes()
    assert dataset.column.type == pa.list_(pa.float32(), corpus.samples)


def test_lmdb_is_one_file_whose_keys_are_in_order(corpus, tmp_path, monkeypatch):
    """Written in several transactions; none is lost, and no lock file is left."""
    lmdb = pytest.importorskip("lmdb")
    monkeypatch.setattr(plugins.load("formats", "lmdb"), "COMMIT_BYTES", 5 * corpus.samples * 4)
    out = placed("lmdb", corpus, tmp_path)
    assert sorted(path.name for path in out.iterdir()) == ["item.npy", "items.mdb", "labels.npy", "target.npy"]
    with lmdb.open(str(out / "items.mdb"), subdir=False, readonly=True, lock=False) as environment:
        assert environment.info()["last_txnid"] == 4
        with environment.begin() as transaction:
            keys, values = zip(*transaction.cursor(), strict=True)
    assert [int.from_bytes(key, "big") for key in keys] == list(range(corpus.counts["train"]))
    assert b"".join(values) == expected(corpus).tobytes()


def test_lmdb_map_is_large_enough_for_items_of_any_length(tmp_path, monkeypatch):
    """Values that share a page, that fill one and a bit, and that are committed one at a time."""
    lmdb = pytest.importorskip("lmdb")
    write = plugins.load("formats", "lmdb").write
    monkeypatch.setattr("scripts.common.labels.write_labels", lambda *_: None)
    for samples in (1, 400, 505, 1021, 1500):
        rows = np.arange(samples, dtype=np.float32)[None]
        monkeypatch.setattr("scripts.common.arrays.delivered_items", lambda *_, rows=rows: iter([rows] * 3000))
        out = tmp_path / str(samples)
        out.mkdir()
        write(SimpleNamespace(counts={"train": 3000}, sample=audio(samples)), "train", out, 1, lambda _: None)
        with lmdb.open(str(out / "items.mdb"), subdir=False, readonly=True, lock=False) as environment:
            assert environment.stat()["entries"] == 3000


def test_zarr_keeps_a_file_for_a_silent_item(corpus, tmp_path):
    """A chunk of zeros is left out by Zarr unless told: nothing would be read for it."""
    silent = next(corpus.items("train"))
    with wave.open(str(corpus.root / silent.path), "wb") as file:
        file.setparams((1, 2, corpus.sample_rate, 0, "NONE", ""))
        file.writeframes(bytes(2 * corpus.samples))
    manifest, silence = corpus.root / "manifest.csv", item_hash(np.zeros(corpus.samples, "<i2"))
    manifest.write_text(manifest.read_text().replace(silent.hash, silence))
    out = placed("zarr", corpus, tmp_path)
    chunks = [out / "items.zarr" / "c" / str(number) / "0" / "0" for number in range(corpus.counts["train"])]
    assert [path.stat().st_size for path in chunks] == [4 * corpus.samples] * corpus.counts["train"]
    assert not any(chunks[0].read_bytes())
