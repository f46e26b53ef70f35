"""Odd files: each second of them is taken or named, as docs/odd_files.md says it."""

import csv
import json
import subprocess
import wave

import numpy as np
import pytest
import soundfile
from jinja2 import Environment, StrictUndefined

from scripts.common.decode import open_recording
from scripts.common.ledger import LedgerRow, write_ledger
from scripts.kinds.audio import Kind
from scripts.prepare import build_corpus
from tests.prepare.test_corpus import index, run
from tests.support import odd_files

KIND = Kind(16_000, 10.0, 0.5)
CASES = [pytest.param(odd, id=odd.name) for odd in odd_files.ODD]


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def built(tmp_path, *paths):
    """Return the items, rejections and remarks of recordings, as rows."""
    rows = [LedgerRow(path.name, "fetched", path=str(path), cut=True, labels=["x"]) for path in paths]
    write_ledger(tmp_path / "ledger.csv", rows)
    build_corpus.build(tmp_path / "ledger.csv", KIND, 1, tmp_path, tmp_path / "0000")
    return [rows_of(tmp_path / "0000" / f"{name}.csv") for name in ("items", "rejected", "remarks")]


def second_of(item_id):
    return int(float(item_id.partition("#")[2] or 0))


@pytest.mark.parametrize("odd", CASES)
def test_what_becomes_of_an_odd_file(tmp_path, odd):
    odd.make(tmp_path / odd.name)
    items, rejected, remarks = built(tmp_path, tmp_path / odd.name)
    assert tuple(second_of(item["id"]) for item in items) == odd.taken, rejected
    assert tuple((second_of(one["id"]), one["reason"].split(":")[0]) for one in rejected) == odd.left_out
    assert tuple(one["remark"].split(":")[0] for one in remarks) == odd.remarks
    assert all(len(one["reason"]) < 200 for one in rejected)
    for item in items[:-1]:
        assert int(item["frames"]) == 160_000


def test_the_page_has_the_table_of_these_tests():
    assert odd_files.PAGE.read_text(encoding="utf-8") == odd_files.page(), "type: python -m tests.support.odd_files"


@pytest.mark.parametrize(("name", "late"), [("a.aac", 1024), ("bare.mp3", 1105), ("a.mp3", 0), ("a.m4a", 0)])
def test_delays_that_a_file_does_not_tell_stay(tmp_path, name, late):
    (odd,) = (odd for odd in odd_files.ODD if odd.name == name)
    odd.make(tmp_path / name)
    source, _ = soundfile.read(odd_files.noise(tmp_path), dtype="float32")
    heard = np.concatenate(list(open_recording(tmp_path / name, 0, 2).blocks))
    count = 1 << 17
    product = np.fft.rfft(heard, count) * np.conj(np.fft.rfft(source[: len(heard)], count))
    assert int(np.argmax(np.fft.irfft(product))) == late


def test_a_whole_file_loses_nothing(tmp_path):
    """Vorbis has frames of two lengths: its time stamps are up to 10 ms ahead of what was decoded."""
    source = odd_files.noise(tmp_path, 150, channels=2)
    odd_files.ffmpeg("-i", source, "-c:a", "libvorbis", tmp_path / "a.ogg")
    recording = open_recording(tmp_path / "a.ogg", 0, None)
    assert sum(len(block) for block in recording.blocks) == 150 * odd_files.RATE
    assert not recording.lost and not recording.remarks


def test_a_segment_is_left_out_where_the_fault_touches_it(tmp_path):
    path = tmp_path / "a.flac"
    odd_files.holed(odd_files.encoded())(path)  # at 14.9 s
    rows = [
        LedgerRow(f"{start}", "fetched", path=str(path), start_seconds=start, stop_seconds=stop, labels=["x"])
        for start, stop in [(4, 14), (8, 18), (13, 14.5), (16, 24), (20, 30)]
    ]
    write_ledger(tmp_path / "ledger.csv", rows)
    build_corpus.build(tmp_path / "ledger.csv", KIND, 1, tmp_path, tmp_path / "0000")
    frames = {item["id"]: int(item["frames"]) for item in rows_of(tmp_path / "0000" / "items.csv")}
    assert frames == {"4": 160_000, "13": 24_000, "16": 128_000, "20": 80_000}
    assert [row["id"] for row in rows_of(tmp_path / "0000" / "rejected.csv")] == ["8"]


def test_faults_in_a_row_are_one_reason(tmp_path):
    """A hole of 20 s is one row, and what follows keeps its time."""
    path = tmp_path / "a.ogg"
    odd_files.encoded("-c:a", "libvorbis", seconds=60)(path)
    content = bytearray(path.read_bytes())
    begin, end = len(content) * 15 // 60, len(content) * 35 // 60
    path.write_bytes(content[:begin] + bytes(end - begin) + content[end:])
    items, rejected, _ = built(tmp_path, path)
    assert [second_of(item["id"]) for item in items] == [0, 40, 50]
    assert [second_of(one["id"]) for one in rejected] == [10]


@pytest.mark.parametrize("ending", ["flac", "ogg", "opus"])
def test_what_follows_a_fault_keeps_its_time(tmp_path, ending):
    """The item behind it is that of the whole file, but for the frames in which a codec settles."""
    whole, holed = tmp_path / f"whole.{ending}", tmp_path / f"holed.{ending}"
    odd_files.encoded()(whole)
    odd_files.holed(lambda path: path.write_bytes(whole.read_bytes()))(holed)
    tails = [np.concatenate(list(open_recording(path, 0, None).blocks))[-100_000:] for path in (whole, holed)]
    assert len(tails[0]) == len(tails[1]) and np.abs(tails[0] - tails[1]).max() < 1e-3


def test_layouts_are_mixed_as_ffmpeg_mixes_them(tmp_path):
    odd_files.wav_of(8, 0x63F)(tmp_path / "a.wav")
    mono = np.concatenate(list(open_recording(tmp_path / "a.wav", 0, None).blocks))
    odd_files.ffmpeg("-i", tmp_path / "a.wav", "-ac", "1", tmp_path / "mono.wav")
    theirs, _ = soundfile.read(tmp_path / "mono.wav", dtype="float32")
    assert np.abs(mono - theirs).max() < 2 / 32768
    mean = soundfile.read(tmp_path / "a.wav", dtype="float32")[0].mean(1)
    assert np.abs(mono - mean).max() > 0.05
    odd_files.wav_of(8, 0)(tmp_path / "b.wav")
    plain = np.concatenate(list(open_recording(tmp_path / "b.wav", 0, None).blocks))
    assert np.abs(plain - mean).max() < 1e-6


def test_files_beside_recordings_are_counted_in_one_line(tmp_path):
    folder, corpus = tmp_path / "music" / "album", tmp_path / "corpus"
    folder.mkdir(parents=True)
    for name in ("a.wav", "b.wav"):
        with wave.open(str(folder / name), "wb") as file:
            file.setparams((1, 2, 16_000, 16_000, "NONE", ""))
            file.writeframes(np.arange(16_000, dtype="<i2").tobytes())
    for name in ("cover.jpg", "back.JPG"):
        subprocess.run(
            ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=red:d=0.04", "-f", "mjpeg", folder / name], check=True
        )
    (folder / "all.m3u").write_text("a.wav\n")
    (folder / "broken.mp3").write_bytes(b"no music" * 99)
    ledger = tmp_path / "ledger.csv"
    options = json.dumps({"path": str(folder.parent)})
    places = ["--store", tmp_path, "--ledger", ledger]
    assert run("fetch_clips.py", "--source", "folder", "--options", options, *places).returncode == 0
    shard = corpus / "shards" / "0000"
    assert run("build_corpus.py", "--ledger", ledger, "--store", tmp_path, "--out", shard).returncode == 0
    done = index(corpus, 1, validation=0)
    assert done.returncode == 0, done.stderr
    rejected = {row["id"]: row["reason"] for row in rows_of(corpus / "rejected.csv")}
    assert set(rejected) == {"album/broken.mp3", "3 files"}
    assert rejected["3 files"] == "no recordings: 2 .jpg, 1 .m3u"
    info = json.loads((corpus / "corpus.json").read_text())
    assert (info["rejected"], info["beside"]) == (1, 3)


def test_silence_is_counted_and_named(tmp_path):
    (odd,) = (odd for odd in odd_files.ODD if odd.name == "anti.wav")
    odd.make(tmp_path / odd.name)
    items, _, _ = built(tmp_path, tmp_path / odd.name)
    corpus = tmp_path / "corpus"
    (corpus / "shards").mkdir(parents=True)
    (tmp_path / "0000").rename(corpus / "shards" / "0000")
    done = index(corpus, 1, validation=0)
    assert done.returncode == 0 and "warning: 3 items: digital silence after mixing down" in done.stdout
    assert json.loads((corpus / "corpus.json").read_text())["remarks"] == {"digital silence after mixing down": 3}
    assert [row["id"] for row in rows_of(corpus / "remarks.csv")] == [item["id"] for item in items]


def test_the_page_says_what_was_counted():
    """Of a corpus that has nothing to say it says nothing."""
    corpus = {"items": {"train": 9}, "audio_seconds": 90.0, "classes": 2, "seconds": 10, "sample_rate": 16_000}
    corpus |= {"samples": 160_000, "rejected": 1, "ids_hash": "0"}
    counted = {"beside": 4321, "remarks": {"digital silence after mixing down": 1234}}
    said = []
    for more in ({}, {"beside": 0, "remarks": {}}, counted):
        template = (odd_files.PROJECT / "report" / "template" / "machine.html.j2").read_text(encoding="utf-8")
        head, _, _ = template.partition("{% if dataset.rejected_reasons %}")
        environment = Environment(undefined=StrictUndefined)
        environment.filters["duration"] = str
        dataset = {"dataset": "a", "corpus": corpus | more, "clips": None}
        text = environment.from_string(head.partition("%}")[2]).render(dataset=dataset, source_text="")
        said.append([number in text for number in ("4,321", "1,234", "remarks.csv")])
    assert said == [[False] * 3, [False] * 3, [True] * 3]
