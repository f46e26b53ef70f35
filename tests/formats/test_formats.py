"""Every format in scripts/formats gives back what the corpus holds; a contract suite over the folder."""

import json
import os
import pickletools
import signal
import subprocess
import sys
import tarfile
import time
import zipfile

import numpy as np
import pytest

from scripts.common import plugins, sample
from scripts.common.corpus import SPLITS, item_hash, to_float
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.kinds import crops, image
from scripts.machine import copies
from scripts.prepare import write_format as write_format_program
from scripts.prepare.write_format import write_format
from tests.support import small_disks
from tests.support.format_program import command, peak_bytes
from tests.support.isolated_cases import can_be_tested
from tests.support.made_corpus import SAMPLE_RATE, make_corpus
from tests.support.programs import PROJECT

# The others: tests/common/test_isolated.py, and, of codecs with loss, test_encoded.py and tests/loaders/test_crops.py.
FORMATS = [name for name in can_be_tested("formats") if not hasattr(plugins.load("formats", name), "truth")]
every_format = pytest.mark.parametrize("name", FORMATS)


def written(name, corpus, out, readers=2):
    """Write `corpus` in format `name` to `out` and return (plug-in, record)."""
    return plugins.load("formats", name), write_format(name, corpus, readers, out)


def corpus_for(name, root, seconds=0.05, **kwargs):
    """Make a corpus that a format is for: of audio, of recordings, else of images of about as many bytes."""
    if "audio" in plugins.kinds(plugins.load("formats", name)):
        return make_corpus(root, seconds=seconds, **kwargs)
    if "crops" in plugins.kinds(plugins.load("formats", name)):
        return make_corpus(root, kind=crops.Kind(SAMPLE_RATE, seconds / 3, 0.0, items="crops"), **kwargs)
    side = round((seconds * 2 * SAMPLE_RATE / 3) ** 0.5)
    return make_corpus(root, kind=image.Kind((side, side), quality=100), **kwargs)


@every_format
@pytest.mark.parametrize(
    ("items", "validation"), [(24, 6), (24, 0), (1, 0), (1, 1), (7, 7)], ids=lambda number: str(number)
)
def test_round_trip_is_bit_identical(name, tmp_path, items, validation):
    corpus = corpus_for(name, tmp_path / "corpus", items=items, validation=validation)
    module, record = written(name, corpus, tmp_path / "out")
    for split in SPLITS:
        expected = {item.index: item for item in corpus.items(split)}
        seen = []
        rows = [*module.read(tmp_path / "out" / split, corpus)] if expected else ()  # kept, they do not change
        for index, audio, classes in rows:
            item = expected[index]
            whole = (corpus.sample.shape[0], item.frames) if corpus.sample.kind == "crops" else corpus.sample.shape
            assert (audio.dtype, audio.shape) == (corpus.sample.dtype, whole)
            assert audio.tobytes() == corpus.delivered(item).tobytes()
            assert item_hash(np.round(audio / (corpus.sample.scale or 1)).astype(corpus.sample.stored)) == item.hash
            assert classes[0] == item.classes[0] and sorted(classes) == sorted(item.classes)
            seen.append(index)
        assert seen == sorted(expected)
        assert bool(seen) == any((tmp_path / "out" / split).iterdir())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(SPLITS)
    assert record["items"] == items
    assert record["files"] == sum(1 for path in (tmp_path / "out").rglob("*") if path.is_file())


@every_format
def test_nothing_written_is_a_pickle(name, tmp_path):
    corpus = corpus_for(name, tmp_path / "corpus")
    written(name, corpus, tmp_path / "out")
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.suffix not in (".pkl", ".pickle", ".pt", ".pth"), path
        if path.suffix == ".tar":
            with tarfile.open(path) as tar:
                contents = {member.name: tar.extractfile(member).read() for member in tar}
        elif path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                contents = {name: archive.read(name) for name in archive.namelist()}
        else:
            contents = {str(path): path.read_bytes()}
        for label, content in contents.items():
            assert not is_pickle(content), label
            if content[:6] == b"\x93NUMPY":
                assert b"'O'" not in content[:128] and b"|O" not in content[:128], label


def is_pickle(content: bytes) -> bool:
    """Return whether pickle's own disassembler can walk `content` from its start to a STOP opcode."""
    try:
        opcodes = [code.name for code, _, _ in pickletools.genops(content)]
    except Exception:
        return False
    return bool(opcodes) and opcodes[-1] == "STOP"


def test_writing_again_replaces(tmp_path):
    old = make_corpus(tmp_path / "old", items=40)
    new = make_corpus(tmp_path / "new", items=8, seed=1)
    written("npy", old, tmp_path / "out")
    module, _ = written("npy", new, tmp_path / "out")
    assert sum(1 for _ in module.read(tmp_path / "out" / "train", new)) == new.counts["train"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old", "out"]


def test_program_leaves_output_and_record(tmp_path):
    name, corpus = "webdataset", make_corpus(tmp_path / "corpus")
    done = subprocess.run(command(name, corpus, tmp_path), capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == "", "what takes less than 10 s says nothing"
    record = read_json(tmp_path / "out.json")
    assert record["record"] == "format" and record["format"] == name
    assert record["items"] == 24 and record["seconds"] > 0
    assert record["bytes"] == sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert record["bytes"] > 0.5 * 24 * record["item_bytes"]


@pytest.mark.parametrize("name", [name for name in ("npy", "tensordict", "lmdb", "ffcv") if name in FORMATS])
def test_killed_in_the_middle_leaves_nothing_and_can_run_again(name, tmp_path):
    corpus = corpus_for(name, tmp_path / "corpus")
    blocking = corpus.root / list(corpus.items("train"))[10].path
    content = blocking.read_bytes()
    blocking.unlink()
    os.mkfifo(blocking)  # the program waits here for a writer that never comes
    process = subprocess.Popen(command(name, corpus, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not any(tmp_path.glob(".out.partial-*/train/*")) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert any(tmp_path.glob(".out.partial-*/train/*"))
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.json").exists()

    blocking.unlink()
    blocking.write_bytes(content)
    module, _ = written(name, corpus, tmp_path / "out")
    assert sum(1 for _ in module.read(tmp_path / "out" / "train", corpus)) == corpus.counts["train"]
    assert not any(tmp_path.glob(".out.partial-*"))


@every_format
def test_memory_does_not_grow_with_the_corpus(name, tmp_path):
    """Of a format that is written or read block by block, the smaller corpus too fills two blocks."""
    module, peaks = plugins.load("formats", name), []
    block = getattr(module, "BLOCK_BYTES", 0) or getattr(module, "BATCH_BYTES", 0)
    few, many = (64, 192) if block else (64, 640)
    seconds = max(1.0, 3 * block / few / module.BYTES_PER_ITEM(sample.audio(16_000)))
    for items in (few, many):
        corpus = corpus_for(name, tmp_path / str(items) / "corpus", items=items, seconds=seconds, validation=4)
        peaks.append(peak_bytes(name, corpus, tmp_path / str(items)))
    payload = (many - few) * module.BYTES_PER_ITEM(corpus.sample) / corpus.delivered_share
    assert peaks[1] - peaks[0] < payload / 2, peaks


@every_format
def test_full_disk_is_told_and_leaves_nothing(name, tmp_path, small_disk, monkeypatch):
    corpus = corpus_for(name, tmp_path / "corpus", items=400, seconds=1.0)
    needed = round(400 * plugins.takes(plugins.load("formats", name), corpus.sample) / corpus.delivered_share)
    with pytest.raises(UserError, match=f"needs {needed:,} bytes") as told:
        written(name, corpus, small_disk / "out")
    assert str(small_disk) in str(told.value) and "are free" in str(told.value)
    monkeypatch.setattr(copies, "free_bytes", lambda path: 10**12)  # noqa: ARG005
    with pytest.raises(UserError, match="ran full"):
        written(name, corpus, small_disk / "out")
    assert list(small_disk.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    folder = tmp_path / "small"
    with small_disks.or_skip(folder, "2m"):
        yield folder


@pytest.mark.parametrize(("free", "raised"), [(0, UserError), (10**9, RuntimeError)])
def test_an_error_of_a_library_on_a_full_disk_is_told_as_that(tmp_path, monkeypatch, free, raised):
    """libsndfile's, for one, has no errno. Where there is room it is what it is."""
    corpus = make_corpus(tmp_path / "corpus")

    def write(*_arguments):
        raise RuntimeError("System error.")

    monkeypatch.setattr(plugins.load("formats", "npy"), "write", write)
    monkeypatch.setattr(write_format_program, "free_bytes", lambda path: free)  # noqa: ARG005
    with pytest.raises(raised, match="System error") as told:
        written("npy", corpus, tmp_path / "out")
    assert ("ran full (RuntimeError: System error.)" in str(told.value)) == (free == 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            lambda index, audio: (index, audio.astype(np.float16).astype(np.float32)),
            r"item \d+ differs at [\d,]+ of 8,000 values.*without loss.*scripts/formats/npy\.py",
        ),
        (lambda index, audio: (index + 1000, audio), r"item \d+ is not in train"),
        (lambda index, audio: (index, audio.astype(np.float64)), r"item \d+ is float64 \(1, 8000\)"),
        (None, r"1 of the first 8 items of train can be read"),
    ],
)
def test_a_format_that_does_not_give_back_the_corpus_is_refused(tmp_path, monkeypatch, fault, words):
    corpus = make_corpus(tmp_path / "corpus", seconds=0.5)
    module = plugins.load("formats", "npy")
    read = module.read

    def faulty(out, corpus):
        for index, audio, classes in read(out, corpus) if fault else [next(read(out, corpus))]:
            yield *(fault(index, audio) if fault else (index, audio)), classes

    monkeypatch.setattr(module, "read", faulty)
    with pytest.raises(UserError, match=f"format 'npy' does not give back the corpus: {words}"):
        written("npy", corpus, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"]


@every_format
def test_absent_item_is_told(name, tmp_path):
    corpus = corpus_for(name, tmp_path / "corpus")
    absent = corpus.root / next(corpus.items("validation")).path
    absent.unlink()
    with pytest.raises(UserError, match="the manifest names this file"):
        written(name, corpus, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"]


@pytest.mark.parametrize(("items", "readers", "shards"), [(24, 1, 1), (23, 4, 4), (3, 8, 3)])
def test_webdataset_has_a_shard_for_each_reader_evenly_filled(tmp_path, items, readers, shards):
    corpus = make_corpus(tmp_path / "corpus", items=items, validation=0)
    written("webdataset", corpus, tmp_path / "out", readers=readers)
    counts = []
    for path in sorted((tmp_path / "out" / "train").iterdir()):
        with tarfile.open(path) as tar:
            members = tar.getmembers()
        assert all((member.mtime, member.uid, member.gid) == (0, 0, 0) for member in members)
        counts.append(len(members) / 2)
    assert len(counts) == shards and max(counts) - min(counts) <= 1 and sum(counts) == items


def test_webdataset_shards_stay_below_their_largest_size():
    shard_count = plugins.load("formats", "webdataset").shard_count
    assert shard_count(items=16_000, item_bytes=320_000, readers=4) == 12
    assert shard_count(items=0, item_bytes=320_000, readers=4) == 0


def test_webdataset_keeps_the_order_of_classes_and_the_bytes(tmp_path):
    corpus = make_corpus(tmp_path / "corpus", validation=0)
    module, _ = written("webdataset", corpus, tmp_path / "out", readers=1)
    read = [classes for _, _, classes in module.read(tmp_path / "out" / "train", corpus)]
    assert read == [list(item.classes) for item in corpus.items("train")]
    with tarfile.open(tmp_path / "out" / "train" / "shard-000000.tar") as tar:
        for position, item in enumerate(corpus.items("train")):
            assert tar.extractfile(f"{position:09}.wav").read() == (corpus.root / item.path).read_bytes()
            assert json.loads(tar.extractfile(f"{position:09}.json").read())["item"] == item.index


def test_tensordict_reopens_as_a_lazy_memmap_storage_without_copying(tmp_path):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torchrl.data")
    corpus = make_corpus(tmp_path / "corpus")
    written("tensordict", corpus, tmp_path / "out")
    folder = tmp_path / "out" / "train"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    opened = data.LazyMemmapStorage(corpus.counts["train"], scratch_dir=folder, existsok=True, auto_cleanup=False)
    opened.loads(folder)
    items = list(corpus.items("train"))
    batch = opened.get(torch.tensor([7, 3]))
    assert len(opened) == len(items)
    assert batch["item"].tolist() == [items[7].index, items[3].index]
    assert batch["target"].tolist() == [items[7].classes[0], items[3].classes[0]]
    assert batch["audio"].numpy().tobytes() == b"".join(to_float(corpus.padded(items[i])).tobytes() for i in (7, 3))
    assert batch["audio"].dtype == torch.float32 and batch["labels"].shape == (2, corpus.classes)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_formats_are_named_without_their_libraries():
    code = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r}); from scripts.common import plugins; "
        "[plugins.load('formats', name) for name in plugins.names('formats')]; "
        "heavy = 'numpy torch tensordict webdataset soundfile h5py pyarrow lmdb zarr litdata streaming ffcv'.split(); "
        "print(sorted(set(heavy) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
