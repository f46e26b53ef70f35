"""The sources: synthetic audio that depends on seed and number alone, and folders with every name people use."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.ledger import SourceRequest, read_ledger
from scripts.sources import _synthetic, folder, synthetic
from tests.support.programs import PROJECT, program_line


def request_of(options, store, shard=0, shards=1):
    return SourceRequest(options, 10.0, shard, shards, store)


def fetch_folder(root, **options):
    """Return the rows of all shards of a folder by id."""
    options = {"path": str(root), "shards": 1, "labels": "labels.csv"} | options
    rows = []
    for shard in range(options["shards"]):
        rows += folder.fetch(request_of(options, root / "unused", shard, options["shards"]))
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row for row in rows}


def touch(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", plugins.names("sources"))
def test_source_is_a_plug_in(name):
    module = plugins.load("sources", name)
    assert plugins.describe(module)
    for schema in module.OPTIONS.values():
        assert schema["description"] and "type" in schema
    assert set(getattr(module, "FETCH_OPTIONS", ())) <= set(module.OPTIONS)


def test_sources_import_only_what_the_plan_has():
    program = "import sys; from scripts.sources import audioset, folder, synthetic; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, cwd=PROJECT, env={}
    )
    assert not {"numpy", "torch", "xxhash", "tqdm", "av", "yt_dlp"} & set(done.stdout.split())


@pytest.mark.parametrize(("clips", "count"), [(1, 1), (128, 1), (129, 2), (128_000, 1000), (2_041_789, 1000)])
def test_synthetic_shards_grow_with_the_set(clips, count):
    assert synthetic.shards({"clips": clips, "seed": 7}) == count


def test_synthetic_recipes_are_varied():
    recipes = [_synthetic.draw_recipe(7, number, None)[0] for number in range(512)]
    assert {recipe.ending for recipe in recipes} == {"m4a", "opus", "flac", "mp3", "wav"}
    assert {recipe.sample_rate for recipe in recipes} == {44_100, 48_000}
    assert {recipe.channels for recipe in recipes} == {1, 2}
    assert {len(recipe.labels) for recipe in recipes} == {1, 2, 3}
    assert {label for recipe in recipes for label in recipe.labels} == set(_synthetic.SIGNALS)
    seconds = [recipe.frames / recipe.sample_rate for recipe in recipes]
    assert 1.5 <= min(seconds) < 2
    assert 9 < max(seconds) <= 10


@pytest.mark.parametrize("seconds", [0.6, 10.0])
def test_a_synthetic_clip_fills_an_item_in_each_codec(tmp_path, seconds):
    """Unless lengths are to vary: what a demo measures is no zeros."""
    kind = plugins.kind_of(plugins.load("kinds", "audio"), {"seconds": seconds})
    request = SourceRequest({"clips": 10, "seed": 7, "varying": False}, seconds, 0, 1, tmp_path)
    for row in synthetic.fetch(request):
        [pcm] = kind.pieces(row, tmp_path / row.path)
        assert len(pcm) == kind.samples, row.path


@pytest.mark.parametrize("number", range(5))
def test_synthetic_signal_is_audio(number):
    recipe, rng = _synthetic.draw_recipe(3, number, 1.5)
    audio = _synthetic.synthesize(recipe, rng)
    assert audio.shape == (recipe.channels, recipe.frames)
    assert audio.dtype == np.float32
    assert 0.25 < np.abs(audio).max() < 0.85
    assert (audio.std(axis=1) > 0.01).all()


def test_synthetic_clip_depends_on_seed_and_number_alone(tmp_path):
    from torchcodec.decoders import AudioDecoder

    def decoded(clips, seed, name, shard=0, shards=1):
        store = tmp_path / name
        rows = synthetic.fetch(request_of({"clips": clips, "seed": seed, "varying": True}, store, shard, shards))
        return {row.id: (row.labels, AudioDecoder(store / row.path).get_all_samples().data.numpy()) for row in rows}

    whole = decoded(7, 5, "whole")
    parts = decoded(7, 5, "parts", 0, 2) | decoded(7, 5, "parts", 1, 2)
    fewer, other = decoded(5, 5, "fewer"), decoded(5, 6, "other")
    assert list(whole) == list(parts) == [f"synthetic-5-{number:06d}" for number in range(7)]
    assert list(fewer) == list(whole)[:5]
    assert not set(whole) & set(other)
    for clip_id, (labels, audio) in whole.items():
        for again in [parts, fewer] if clip_id in fewer else [parts]:
            assert again[clip_id][0] == labels
            assert np.array_equal(again[clip_id][1], audio)
    for one, two in zip(
        sorted((tmp_path / "whole").rglob("*.*")), sorted((tmp_path / "parts").rglob("*.*")), strict=True
    ):
        assert one.read_bytes() == two.read_bytes()
    first, otherwise = whole["synthetic-5-000000"][1], other["synthetic-6-000000"][1]
    assert first.shape != otherwise.shape or not np.array_equal(first, otherwise)


def test_synthetic_keeps_what_the_store_holds(tmp_path):
    request = request_of({"clips": 3, "seed": 7, "varying": False}, tmp_path)
    paths = [tmp_path / row.path for row in synthetic.fetch(request)]
    before = [path.stat().st_mtime_ns for path in paths]
    paths[1].unlink()
    assert [tmp_path / row.path for row in synthetic.fetch(request)] == paths
    after = [path.stat().st_mtime_ns for path in paths]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert not list(tmp_path.rglob(".*"))


NAMES = ["a b.wav", 'it\'s "so".mp3', "two\nlines.flac", "carriage\rreturn.wav", "größe/日本語.opus", "-dash.wav"]


def test_folder_takes_every_name(tmp_path):
    for name in [*NAMES, "deep/er/x.wav"]:
        touch(tmp_path / "set" / name)
    rows = fetch_folder(tmp_path / "set")
    assert set(rows) == {*NAMES, "deep/er/x.wav"}
    for clip_id, row in rows.items():
        assert row.status == "fetched"
        assert row.cut
        assert row.path == str(tmp_path / "set" / clip_id)
    assert rows["a b.wav"].labels == ["set"]
    assert rows["größe/日本語.opus"].labels == ["größe"]
    assert rows["deep/er/x.wav"].labels == ["er"]


def test_folder_counts_its_files_up_to_a_limit(tmp_path, monkeypatch):
    for number in range(7):
        (tmp_path / f"{number}.wav").write_bytes(b"x")
    assert folder.at_least({"path": str(tmp_path)}) == 7
    monkeypatch.setattr(folder, "COUNTED", 5)
    assert folder.at_least({"path": str(tmp_path)}) == 5


def test_folder_escapes_what_ids_cannot_hold(tmp_path):
    touch(tmp_path / "a#1%23.wav")
    touch(tmp_path / "c" / "d.wav")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.wav")).write_bytes(b"x")
    rows = fetch_folder(tmp_path)
    assert rows["a%231%2523.wav"].path == str(tmp_path / "a#1%23.wav")
    assert rows["bad%FF.wav"].status == "unavailable"
    assert "UTF-8" in rows["bad%FF.wav"].reason
    assert len(rows) == 3


def test_folder_follows_links_but_no_loop(tmp_path):
    touch(tmp_path / "elsewhere" / "song.wav")
    touch(tmp_path / "set" / "own" / "a.wav")
    (tmp_path / "set" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "file.wav").symlink_to(tmp_path / "elsewhere" / "song.wav")
    (tmp_path / "set" / "own" / "up").symlink_to(tmp_path / "set")
    (tmp_path / "elsewhere" / "self").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "broken.wav").symlink_to(tmp_path / "nowhere")
    (tmp_path / "set" / "round.wav").symlink_to("round.wav")
    (tmp_path / "root").symlink_to(tmp_path / "set")
    rows = fetch_folder(tmp_path / "root")
    fetched = {clip_id for clip_id, row in rows.items() if row.status == "fetched"}
    assert fetched == {"linked/song.wav", "file.wav", "own/a.wav"}
    assert rows["broken.wav"].status == rows["round.wav"].status == "unavailable"
    assert "link" in rows["broken.wav"].reason


def test_folder_skips_hidden_files_and_names_special_ones(tmp_path):
    for name in [".hidden.wav", ".folder/a.wav", "b/.c.wav", "b/d.wav"]:
        touch(tmp_path / name)
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "device.wav").symlink_to("/dev/zero")
    (tmp_path / "linked_pipe.wav").symlink_to("pipe.wav")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        rows = fetch_folder(tmp_path)
    assert {clip_id: (row.status, row.reason) for clip_id, row in rows.items()} == {
        "b/d.wav": ("fetched", ""),
        "device.wav": ("unavailable", "not a regular file: device"),
        "linked_pipe.wav": ("unavailable", "not a regular file: named pipe"),
        "pipe.wav": ("unavailable", "not a regular file: named pipe"),
        "s": ("unavailable", "not a regular file: socket"),
    }


def test_folder_opens_no_labels_file_that_is_no_file(tmp_path):
    """In a process of its own, which is killed where it waits for somebody to write into the pipe."""
    os.mkfifo(tmp_path / "labels.csv")
    program = (
        "import sys; from scripts.sources import folder; folder.check({'path': sys.argv[1], 'labels': 'labels.csv'})"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert "labels.csv: found what is not a regular file" in done.stderr


def test_folder_of_any_depth(tmp_path):
    """Below 4,096 bytes of path a file is found; what is deeper is named as what cannot be read."""
    inner, handle = "", os.open(tmp_path, os.O_RDONLY)
    try:
        for depth in range(2500):
            if depth == 1100:
                os.close(os.open("a.wav", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
            os.mkdir("d", dir_fd=handle)
            inner, below = f"{inner}d/", os.open("d", os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = below
        rows = fetch_folder(tmp_path)
    finally:
        os.close(handle)
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # rmtree calls itself for each folder
    assert rows.pop(f"{inner[:2200]}a.wav").status == "fetched"
    ((found, row),) = rows.items()
    assert inner.startswith(found) and row.reason == "folder cannot be read: File name too long"


def test_folder_labels_file(tmp_path):
    for name in ["a.wav", "b/c, d.wav", "none.wav", "blank.wav"]:
        touch(tmp_path / name)
    table = 'file,labels,more\na.wav, dog ; cat;dog,1\n"b/c, d.wav",cat,2\na.wav,rain,3\ngone.wav,dog,4\nblank.wav,,5\n'
    (tmp_path / "labels.csv").write_text(table, encoding="utf-8-sig")
    rows = fetch_folder(tmp_path)
    assert rows["a.wav"].labels == ["dog", "cat", "rain"]
    assert rows["b/c, d.wav"].labels == ["cat"]
    assert rows["blank.wav"].labels == []
    assert (rows["none.wav"].status, rows["none.wav"].reason) == ("unavailable", "no row in the labels file")
    assert rows["gone.wav"].status == "unavailable"
    assert "does not hold it" in rows["gone.wav"].reason
    assert len(rows) == 5


def test_folder_shards_share_the_files(tmp_path):
    for number in range(60):
        touch(tmp_path / f"{number}.wav")
    (tmp_path / "labels.csv").write_text("file,labels\n" + "".join(f"{number}.wav,x\n" for number in range(70)))
    whole, parts = fetch_folder(tmp_path), fetch_folder(tmp_path, shards=3)
    assert {clip_id: row.status for clip_id, row in whole.items()} == {
        clip_id: r.status for clip_id, r in parts.items()
    }
    assert Counter(row.status for row in whole.values()) == {"fetched": 60, "unavailable": 10}


def test_folder_without_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    with pytest.raises(UserError, match="may not read"):
        folder.check({"path": str(tmp_path), "labels": "labels.csv"})


@pytest.mark.parametrize("content", [b"file,labels\n\xff\xfe,x\n", b"", b"\x00\x01"])
def test_folder_labels_file_of_another_form(tmp_path, content):
    (tmp_path / "labels.csv").write_bytes(content)
    with pytest.raises(UserError, match=r"labels\.csv"):
        fetch_folder(tmp_path)


def run_fetch(*arguments):
    command = [*program_line("fetch_clips"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_fetch_clips_writes_the_ledger(tmp_path):
    touch(tmp_path / "set" / "two\nlines.wav")
    (tmp_path / "set" / "broken.wav").symlink_to("nowhere")
    options = json.dumps({"source": "folder", "path": str(tmp_path / "set")})
    ledger = tmp_path / "ledger.csv"
    done = run_fetch("--source", "folder", "--options", options, "--store", tmp_path / "store", "--ledger", ledger)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 fetched, 1 unavailable, 0 failed\n"
    rows = {row.id: row for row in read_ledger(ledger)}
    assert rows["two\nlines.wav"].labels == ["set"]


def test_a_source_that_prepares_says_so_where_that_is_missing(tmp_path):
    common = ["--source", "audioset", "--store", tmp_path / "store"]
    done = run_fetch(*common, "--ledger", tmp_path / "ledger.csv")
    assert done.returncode == 2 and "prepare_clips.py" in done.stderr and "Traceback" not in done.stderr
    command = [*program_line("prepare_clips"), "--source", "synthetic", "--store", tmp_path / "store"]
    done = subprocess.run([*command, "--out", tmp_path / "out"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "needs no preparation" in done.stderr
    assert list(tmp_path.iterdir()) == []
