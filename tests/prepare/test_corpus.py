"""The corpus stage: what the audio keeps, what is left out and why, and that nothing depends on the machine."""

import csv
import hashlib
import json
import os
import signal
import subprocess
import time
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile
import torch
from torchcodec.encoders import AudioEncoder

from scripts.common.corpus import Corpus, item_hash, pad_or_cut, read_manifest
from scripts.common.errors import UserError
from scripts.common.ledger import LedgerRow, write_ledger
from scripts.kinds import array
from scripts.kinds.audio import Kind
from scripts.prepare import build_corpus, index_corpus
from tests.support.programs import program_line

SETTINGS = Kind(16_000, 10.0, 0.5)
RATE = 44_100


def run(program, *arguments):
    """Run one of the project's programs and return what it said."""
    command = [*program_line(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def encode(path, audio, rate=RATE):
    """Write float32 (n,) or (channels, n) in the codec of the path's ending."""
    AudioEncoder(torch.from_numpy(np.asarray(audio, np.float32)), sample_rate=rate).to_file(path)
    return path


def tone(hertz, seconds, rate=RATE, level=0.5):
    return (level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def row(path, item_id=None, **fields):
    return LedgerRow(item_id or path.name, "fetched", path=str(path), **{"labels": ["x"]} | fields)


def build(rows, out, jobs=1, settings=SETTINGS):
    """Build a shard in this process and return its items and its rejections as dictionaries by id."""
    ledger = out.with_name(f"{out.name}-ledger.csv")
    write_ledger(ledger, rows)
    build_corpus.build(ledger, settings, jobs, out.parent, out)
    return read_rows(out / "items.csv"), read_rows(out / "rejected.csv")


def read_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return {found["id"]: found for found in csv.DictReader(file)}


def read_wav(path):
    """Return float64 (n,) of a mono 16 kHz 16-bit WAV file."""
    with wave.open(str(path), "rb") as file:
        assert file.getparams()[:3] == (1, 2, 16_000)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def built_audio(path, tmp_path, **fields):
    items, rejected = build([row(path, **fields)], tmp_path / "0000")
    assert not rejected
    (item,) = items.values()
    audio = read_wav(tmp_path / item["path"].removeprefix("shards/"))
    assert len(audio) == int(item["frames"])
    return audio


def level_db(audio, reference):
    """Return the level of `audio` over `reference` in dB, away from the edges."""
    power, reference_power = (np.mean(signal[4000:-4000].astype(float) ** 2) for signal in (audio, reference))
    return 10 * np.log10(max(power, 1e-20) / reference_power)  # silence: -200 dB of full scale


# Quality ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "encoder_scale"), [("wav", 1), ("flac", 1), ("m4a", 1), ("mp3", 0.95)])
def test_a_tone_keeps_its_level(tmp_path, ending, encoder_scale):
    """LAME, the MP3 encoder, scales what it encodes by 0.95."""
    audio = built_audio(encode(tmp_path / f"a.{ending}", tone(1000, 4)), tmp_path)
    assert abs(level_db(audio, tone(1000, 4, 16_000, level=0.5 * encoder_scale))) < 0.1


def test_a_tone_above_the_band_is_gone(tmp_path):
    audio = built_audio(encode(tmp_path / "a.wav", tone(10_000, 4, level=0.9)), tmp_path)
    assert level_db(audio, tone(1000, 4, 16_000, level=0.9)) < -80


@pytest.mark.parametrize("rate", [8000, 44_100, 96_000])
def test_length_and_place_survive_resampling(tmp_path, rate):
    assert shift_of(tmp_path, "a.wav", rate) == 0


@pytest.mark.parametrize(("ending", "most"), [("flac", 0), ("m4a", 1), ("mp3", 1), ("opus", 1), ("ogg", 1)])
def test_no_codec_shifts_the_audio(tmp_path, ending, most):
    assert abs(shift_of(tmp_path, f"a.{ending}", 48_000 if ending in ("opus", "ogg") else RATE)) <= most


def shift_of(tmp_path, name, rate):
    """Return by how many samples at 16 kHz a sweep comes later than it should, from 500 Hz to 3 kHz over 3 s."""

    def sweep(rate):
        seconds = np.arange(3 * rate) / rate
        return 0.5 * np.sin(2 * np.pi * (500 * seconds + 2500 / 6 * seconds**2))

    audio = built_audio(encode(tmp_path / name, sweep(rate), rate), tmp_path)
    assert abs(len(audio) - 48_000) <= (1024 * 16_000 / rate if name.endswith(("m4a", "mp3")) else 1)
    heard, meant = (np.fft.rfft(signal[4000:44_000], 1 << 16) for signal in (audio, sweep(16_000)))
    correlation = np.fft.irfft(heard * meant.conj())
    lag = int(np.argmax(correlation))
    return lag if lag < 1 << 15 else lag - (1 << 16)


def test_channels_are_averaged_before_resampling(tmp_path):
    left, right = tone(440, 2), tone(700, 2, level=0.3)
    stereo = built_audio(encode(tmp_path / "a.wav", np.stack([left, right])), tmp_path)
    seconds = np.arange(len(stereo)) / 16_000
    expected = (0.5 * np.sin(2 * np.pi * 440 * seconds) + 0.3 * np.sin(2 * np.pi * 700 * seconds)) / 2
    assert np.abs(stereo - expected)[1000:-1000].max() < 2e-4
    against = built_audio(encode(tmp_path / "b.wav", np.stack([left, -left])), tmp_path)
    assert np.abs(against).max() <= 1 / 32768


def test_16_khz_pcm_comes_through_bit_by_bit(tmp_path):
    pcm = np.random.default_rng(0).integers(-32768, 32768, 20_000).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", pcm, 16_000, subtype="PCM_16")
    items, _ = build([row(tmp_path / "a.wav")], tmp_path / "0000")
    assert np.array_equal(read_wav(tmp_path / "0000" / "000000.wav") * 32768, pcm)
    assert items["a.wav"]["hash"] == item_hash(pad_or_cut(pcm, SETTINGS.samples))


def test_what_is_beyond_full_scale_saturates(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(100, 1, 16_000, level=3), 16_000, subtype="FLOAT")
    audio = built_audio(tmp_path / "a.wav", tmp_path)
    assert audio.max() == 32767 / 32768
    assert audio.min() == -1


@pytest.mark.parametrize(("subtype", "channels"), [("PCM_24", 1), ("FLOAT", 6), ("PCM_U8", 2)])
def test_any_wav_will_do(tmp_path, subtype, channels):
    soundfile.write(tmp_path / "a.wav", np.tile(tone(300, 1)[:, None], channels), RATE, subtype=subtype)
    assert abs(level_db(built_audio(tmp_path / "a.wav", tmp_path), tone(300, 1, 16_000))) < 0.1


# Cutting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["flac", "m4a", "mp3", "webm"])
def test_a_long_recording_is_cut_without_a_seam(tmp_path, ending):
    """Every container steps forward piece by piece; rounded time stamps (WebM) must repeat or lose nothing."""
    noise = 0.1 * np.random.default_rng(0).standard_normal(48_000 * 33, dtype=np.float32)
    source = encode(tmp_path / "a.flac", noise, 48_000)
    if ending != "flac":
        command = ["ffmpeg", "-v", "error", "-i", source, *(["-c:a", "libopus"] if ending == "webm" else [])]
        subprocess.run([*command, tmp_path / f"a.{ending}"], check=True)
        source = tmp_path / f"a.{ending}"
    cut, _ = build([row(source, cut=True)], tmp_path / "0000")
    assert list(cut) == [f"{source.name}#{start:09.3f}" for start in (0, 10, 20, 30)]
    pieces = np.concatenate([read_wav(tmp_path / "0000" / f"{number:06d}.wav") for number in range(4)])
    whole = Kind(16_000, 60.0, 0.5)
    build([row(source)], tmp_path / "whole", settings=whole)
    assert np.array_equal(pieces, read_wav(tmp_path / "whole" / "000000.wav"))
    assert abs(len(pieces) - 33 * 16_000) <= 1024


@pytest.mark.parametrize(
    ("seconds", "ids"),
    [(9.9, ["a"]), (10.0, ["a"]), (10.3, ["a"]), (10.6, ["a#00000.000", "a#00010.000"]), (0.5, ["a"])],
)
def test_ids_of_cut_recordings(tmp_path, seconds, ids):
    source = encode(tmp_path / "a.flac", tone(300, seconds))
    items, rejected = build([row(source, "a", cut=True)], tmp_path / "0000")
    assert list(items) == ids
    assert not rejected
    assert sum(int(item["frames"]) for item in items.values()) == min(round(seconds * 16_000), len(ids) * 160_000)


def test_a_segment_of_a_recording(tmp_path):
    source = encode(tmp_path / "a.flac", np.concatenate([tone(300, 4), tone(900, 3), tone(300, 20)]))
    rows = [
        row(source, "part", start_seconds=4.0, stop_seconds=7.0),
        row(source, "first", start_seconds=4.0),
        row(source, "parts", start_seconds=4.0, stop_seconds=26.0, cut=True),
        row(source, "late", start_seconds=40.0, stop_seconds=50.0),
    ]
    items, rejected = build(rows, tmp_path / "0000")
    frames = {item_id: int(item["frames"]) for item_id, item in items.items()}
    assert frames == {
        "part": 48_000,
        "first": 160_000,
        "parts#00004.000": 160_000,
        "parts#00014.000": 160_000,
        "parts#00024.000": 32_000,
    }
    part = read_wav(tmp_path / "0000" / "000000.wav")
    assert abs(level_db(part, tone(900, 3, 16_000))) < 0.1
    assert np.abs(np.fft.rfft(part))[: 3 * 600].max() < 0.02 * np.abs(np.fft.rfft(part)).max()
    assert "shorter than" in rejected["late"]["reason"] or "truncated" in rejected["late"]["reason"]


@dataclass(frozen=True)
class Halves(array.Kind):
    """A kind that cuts each recording into two pieces, and does not say what they are called."""

    def pieces(self, row, path):
        """Yield both halves."""
        for item in super().pieces(row, path):
            yield from np.split(item, 2)


@pytest.mark.parametrize("named", [False, True])
def test_pieces_are_called_by_their_kind_or_by_their_number(tmp_path, monkeypatch, named):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32))
    if named:
        monkeypatch.setattr(Halves, "part", lambda _, start, number: f"{start:g}+{number}", raising=False)
    items, rejected = build([row(tmp_path / "a.npy", "a", start_seconds=2.0)], tmp_path / "0000", 1, Halves((6,)))
    assert list(items) == (["a#2+0", "a#2+1"] if named else ["a#000000", "a#000001"]) and not rejected


def test_a_fault_costs_what_follows_it(tmp_path):
    source = encode(tmp_path / "a.flac", 0.3 * np.random.default_rng(0).standard_normal(RATE * 25))
    content = bytearray(source.read_bytes())
    place = len(content) * 23 // 25
    content[place : place + 500] = bytes(500)
    source.write_bytes(content)
    items, rejected = build([row(source, "a", cut=True)], tmp_path / "0000")
    assert list(items) == ["a#00000.000", "a#00010.000"]
    assert list(rejected) == ["a#00020.000"]
    assert rejected["a#00020.000"]["reason"].startswith("decoding failed: at 2")


# Rejections ------------------------------------------------------------------------------------------------------


def truncated(path, share=0.6):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    return path


def make_bad_files(folder):
    """Return {path: how its reason begins} of files that are no items."""
    noise = 0.3 * np.random.default_rng(0).standard_normal(RATE * 5)
    bad = {}

    def add(path, reason):
        bad[path] = reason

    for name, content in [
        ("empty.wav", b""),
        ("text.mp3", b"not music\n" * 200),
        ("short.wav", b"RIFF"),
        ("0.mp3", b"\0" * 9999),
    ]:
        (folder / name).write_bytes(content)
        add(folder / name, "not decodable: " if content else "empty file")
    add(folder / "gone.wav", "file vanished")
    (folder / "folder.wav").mkdir()
    os.mkfifo(folder / "pipe.wav")
    for name in ("folder.wav", "pipe.wav"):
        add(folder / name, "not a regular file")
    for name, source in [("picture.png", "testsrc=d=0.04"), ("mute.mp4", "testsrc=d=1")]:
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, folder / name], check=True)
        add(folder / name, "no audio stream")
    for ending in ["wav", "mp3"]:
        add(truncated(encode(folder / f"cut.{ending}", noise)), "truncated: the header announces 5.0")
    add(truncated(encode(folder / "cut.flac", noise)), "truncated: the header announces 5.0")
    add(truncated(encode(folder / "cut.m4a", noise)), "not decodable: ")
    command = ["ffmpeg", "-v", "error", "-i", encode(folder / "a.wav", noise), "-movflags", "+faststart"]
    subprocess.run([*command, folder / "front.m4a"], check=True)
    add(truncated(folder / "front.m4a"), "truncated: the header announces 5.0")
    for ending in ["mp3", "m4a", "flac"]:
        path = encode(folder / f"holed.{ending}", noise)
        content = bytearray(path.read_bytes())
        content[len(content) // 2 : len(content) // 2 + 2000] = bytes(2000)
        path.write_bytes(content)
        add(path, "decoding failed: at 2.")
    for name, value in [("nan.wav", np.nan), ("inf.wav", -np.inf)]:
        audio = tone(300, 2)
        audio[50_000] = value
        soundfile.write(folder / name, audio, RATE, subtype="FLOAT")
        add(folder / name, "samples that are no numbers: NaN")
    add(encode(folder / "brief.flac", tone(300, 0.3)), "shorter than 0.5 s: 0.300 s")
    return bad


def test_every_rejection_has_its_reason(tmp_path):
    bad = make_bad_files(tmp_path)
    good = encode(tmp_path / "good.wav", tone(300, 1))
    rows = [row(path) for path in bad]
    rows += [
        row(good),
        row(good, "unlabelled", labels=[]),
        LedgerRow("private", "unavailable", "Video\nunavailable"),
        LedgerRow("odd", "failed"),
    ]
    items, rejected = build(rows, tmp_path / "0000", jobs=2)
    assert list(items) == ["good.wav"]
    for path, reason in bad.items():
        assert rejected[path.name]["reason"].startswith(reason), (path.name, rejected[path.name])
        assert rejected[path.name]["status"] == "rejected"
    for found in rejected.values():
        assert 0 < len(found["reason"]) < 200
        assert not any(word in found["reason"] for word in ("\n", "/", ".cpp", "0x", "Exception"))
    assert rejected["unlabelled"]["reason"] == "no labels"
    assert (rejected["private"]["status"], rejected["private"]["reason"]) == ("unavailable", "Video unavailable")
    assert rejected["odd"]["status"] == "failed"
    assert list(rejected) == [each.id for each in rows if each.id != "good.wav"]


def wav_of_rate(path, rate, frames=80_000):
    """Write silence as 16-bit WAV whose header says `rate` Hz."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, frames, "NONE", ""))
        file.writeframes(bytes(2 * frames))
    return path


@pytest.mark.parametrize("rate", [999, 2**31 - 1])
def test_a_rate_that_no_recorder_has_makes_no_thousands_of_items(tmp_path, rate):
    items, rejected = build([row(wav_of_rate(tmp_path / "a.wav", rate), cut=True)], tmp_path / "0000")
    assert not items
    assert rejected["a.wav"]["reason"].startswith(f"sample rate out of limits: {rate} Hz, allowed are audio.lowest")


@pytest.mark.parametrize(
    ("limit", "reason", "left"),
    [
        ({"items_per_file": 3}, "too many items: audio.items_per_file allows 3", 3),
        ({"growth": 4.0}, "grows too much: 3 items of 160044 bytes, audio.growth allows 4 times", 2),
    ],
)
def test_a_recording_grows_within_limits_and_what_is_whole_is_kept(tmp_path, limit, reason, left):
    source = wav_of_rate(tmp_path / "a.wav", 1000)  # 80 s
    assert len(build([row(source, cut=True)], tmp_path / "whole")[0]) == 8
    settings = Kind(16_000, 10.0, 0.5, **limit)
    items, rejected = build([row(source, cut=True)], tmp_path / "0000", settings=settings)
    assert list(items) == [f"a.wav#{10 * number:09.3f}" for number in range(left)]
    (found,) = rejected.values()
    assert found["reason"].startswith(reason)


def test_the_corpus_stops_before_the_disk_is_full(tmp_path, monkeypatch):
    usage = build_corpus.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(build_corpus.shutil, "disk_usage", lambda _path: usage._replace(total=2**40, free=2**27))
    with pytest.raises(UserError, match=r"the disk is full \(134,217,728 bytes are left\)"):
        build([row(wav_of_rate(tmp_path / "a.wav", 16_000))], tmp_path / "0000")
    assert not (tmp_path / "0000").exists(), "a half corpus"
    assert not list(tmp_path.glob(".0000.partial-*"))


def test_headers_without_a_length_are_no_truncation(tmp_path):
    """A WAV written into a pipe announces 4 GB, an MP3 without a Xing table is only estimated."""
    source = encode(
        tmp_path / "a.wav", np.concatenate([tone(300, 1, level=1e-4), np.random.default_rng(0).normal(0, 0.2, RATE)])
    )
    for name, options in [
        ("pipe.wav", ["-f", "wav"]),
        ("no.mp3", ["-write_xing", "0", "-q:a", "0", "-f", "mp3"]),
        ("a.aac", ["-f", "adts"]),
    ]:
        command = ["ffmpeg", "-v", "error", "-i", source, *options, "-"]
        (tmp_path / name).write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    items, rejected = build([row(tmp_path / name) for name in ("pipe.wav", "no.mp3", "a.aac")], tmp_path / "0000")
    assert len(items) == 3, rejected


@pytest.mark.parametrize(
    ("codec", "channels"), [("adpcm_ms", 1), ("adpcm_ms", 2), ("pcm_mulaw", 2), ("wmav2", 2), ("gsm_ms", 1)]
)
def test_a_compressed_wav_is_as_long_as_its_samples(tmp_path, codec, channels):
    """FFmpeg writes a byte rate that has nothing to do with the data's: 2.8 times too little for stereo ADPCM."""
    rate = 8000 if codec == "gsm_ms" else RATE
    encode(tmp_path / "noise.wav", 0.3 * np.random.default_rng(0).standard_normal((channels, rate * 5)), rate)
    command = ["ffmpeg", "-v", "error", "-i", tmp_path / "noise.wav", "-c:a", codec, tmp_path / "a.wav"]
    subprocess.run(command, check=True)
    (item,) = build([row(tmp_path / "a.wav")], tmp_path / "0000")[0].values()
    assert abs(int(item["frames"]) - 80_000) < 1600
    items, rejected = build([row(truncated(tmp_path / "a.wav"))], tmp_path / "cut")
    assert not items
    assert rejected["a.wav"]["reason"].startswith(("truncated: the header announces 5.0", "decoding failed: at "))


def test_only_what_is_needed_must_be_there(tmp_path):
    """The first ten seconds of a download that broke off later are as good as ever."""
    path = truncated(encode(tmp_path / "a.wav", tone(300, 20)), 0.7)
    items, rejected = build([row(path), row(path, "cut", cut=True)], tmp_path / "0000")
    assert list(items) == ["a.wav", "cut#00000.000"]
    assert list(rejected) == ["cut#00010.000"]


@pytest.mark.parametrize("ending", ["mka", "flac"])
def test_flac_of_every_kind_is_whole(tmp_path, ending):
    """Frames count as missing by their time stamps, which only FLAC files of their own have in samples."""
    noise = 0.3 * np.random.default_rng(0).standard_normal(RATE * 3)
    source = encode(tmp_path / "a.wav", noise)
    command = ["ffmpeg", "-v", "error", "-ss", "1", "-i", source, "-c:a", "flac", "-copyts", tmp_path / f"a.{ending}"]
    subprocess.run(command, check=True)
    assert len(built_audio(tmp_path / f"a.{ending}", tmp_path)) == 32_000


def test_channels_may_change_midway(tmp_path):
    """A broadcast goes from stereo to mono; each part is averaged by itself."""
    for name, channels in [("a.ts", 2), ("b.ts", 1)]:
        source = encode(tmp_path / "a.wav", np.tile(tone(300, 2), (channels, 1)))
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", source, "-c:a", "mp2", tmp_path / name], check=True)
    (tmp_path / "both.ts").write_bytes((tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes())
    audio = built_audio(tmp_path / "both.ts", tmp_path)
    assert abs(len(audio) - 64_000) < 1200
    for half in (audio[:30_000], audio[-30_000:]):
        assert abs(level_db(half, tone(300, 2, 16_000))) < 0.2


def test_a_rate_that_changes_midway_is_refused(tmp_path):
    for name, rate in [("a.aac", 44_100), ("b.aac", 22_050)]:
        source = encode(tmp_path / "a.wav", tone(300, 2, rate), rate)
        subprocess.run(["ffmpeg", "-v", "error", "-i", source, tmp_path / name], check=True)
    (tmp_path / "both.aac").write_bytes((tmp_path / "a.aac").read_bytes() + (tmp_path / "b.aac").read_bytes())
    _, rejected = build([row(tmp_path / "both.aac")], tmp_path / "0000")
    assert rejected["both.aac"]["reason"].startswith("sample rate changes: at 2.0")


def test_sound_beside_pictures(tmp_path):
    """Of a film the sound is taken, and a cover is no film. LAME takes half a dB."""
    source = encode(tmp_path / "a.wav", tone(300, 2))
    picture = ["-f", "lavfi", "-i", "testsrc=d=2"]
    film = ["ffmpeg", "-v", "error", *picture, "-i", source, tmp_path / "film.mp4"]
    cover = ["-map", "1", "-map", "0", "-frames:v", "1", "-c:v", "mjpeg", "-disposition:v", "attached_pic"]
    album = ["ffmpeg", "-v", "error", *picture, "-i", source, *cover, tmp_path / "album.mp3"]
    for command in (film, album):
        subprocess.run(command, check=True)
        assert abs(level_db(built_audio(command[-1], tmp_path), tone(300, 2, 16_000))) < 0.5


# Processes -------------------------------------------------------------------------------------------------------


def make_set(folder, count=24):
    """Return the rows of a small set: several codecs, a recording that is cut, rows that are rejected."""
    rows = []
    rng = np.random.default_rng(1)
    for number in range(count):
        path = folder / f"{number}.{('wav', 'flac', 'mp3', 'm4a')[number % 4]}"
        encode(path, 0.2 * rng.standard_normal((1 + number % 2, round(RATE * rng.uniform(0.6, 1.5)))))
        rows.append(row(path, f"item {number}", labels=[f"label {number % 5}"]))
    rows[3:3] = [row(encode(folder / "long.flac", tone(300, 25)), "long", cut=True), LedgerRow("no", "failed", "why")]
    rows[9:9] = [row(folder / "gone.wav", "gone")]
    return rows


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_order_and_bytes_do_not_depend_on_jobs(tmp_path):
    rows = make_set(tmp_path)
    write_ledger(tmp_path / "ledger.csv", rows)
    for name, jobs in [("one", 1), ("three", 3)]:
        out = tmp_path / name / "shards" / "0000"
        done = run(
            "build_corpus.py", "--ledger", tmp_path / "ledger.csv", "--store", tmp_path, "--jobs", jobs, "--out", out
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "27 items, 2 rejected\n"
        assert [path.name for path in out.parent.iterdir()] == ["0000"]
    one, three = (digests(tmp_path / name / "shards" / "0000") for name in ("one", "three"))
    assert one == three
    assert set(one) == {f"{number:06d}.wav" for number in range(27)} | {"items.csv", "rejected.csv", "remarks.csv"}
    items = read_rows(tmp_path / "one" / "shards" / "0000" / "items.csv")
    assert list(items)[:6] == ["item 0", "item 1", "item 2", "long#00000.000", "long#00010.000", "long#00020.000"]
    assert [item["path"] for item in items.values()] == [f"shards/0000/{number:06d}.wav" for number in range(27)]


def test_an_item_that_crashes_the_decoder_is_named(tmp_path, monkeypatch):
    cut_recording = build_corpus.cut_recording

    def crash(job):
        if job.row.id in ("item 4", "item 5", "item 20"):
            Path(f"{job.prefix}-0.wav").write_bytes(b"half a file")
            os._exit(9)
        return cut_recording(job)

    monkeypatch.setattr(build_corpus, "cut_recording", crash)
    items, rejected = build(make_set(tmp_path), tmp_path / "0000", jobs=2)
    assert list(rejected) == ["no", "item 4", "item 5", "gone", "item 20"]
    assert rejected["item 5"]["reason"] == build_corpus.CRASHED
    assert len(items) == 24
    assert len(list((tmp_path / "0000").iterdir())) == 24 + 3


def test_a_fault_of_ours_is_not_the_items(tmp_path, monkeypatch):
    def full_disk(_job):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build_corpus, "cut_recording", full_disk)
    with pytest.raises(UserError, match=r"the disk is full .No space left on device"):
        build(make_set(tmp_path, 2), tmp_path / "0000", jobs=2)
    assert not [path for path in tmp_path.iterdir() if "0000" in path.name and path.is_dir()]


def test_a_killed_build_leaves_nothing_that_looks_finished(tmp_path):
    source = encode(tmp_path / "a.flac", 0.2 * np.random.default_rng(0).standard_normal(RATE * 10))
    write_ledger(tmp_path / "ledger.csv", [row(source, f"item {number}") for number in range(3000)])
    out = tmp_path / "shards" / "0000"
    arguments = ["--ledger", tmp_path / "ledger.csv", "--store", tmp_path, "--jobs", "2", "--out", out]
    program = subprocess.Popen([*program_line("build_corpus"), *arguments], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(list(tmp_path.glob("shards/.0000.partial-*/0*.wav"))) > 10)
        workers = psutil.Process(program.pid).children(recursive=True)
        assert len(workers) >= 2
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert not out.exists()
    wait_for(lambda: not any(worker.is_running() and worker.status() != "zombie" for worker in workers))
    write_ledger(tmp_path / "ledger.csv", [row(source)])
    done = run("build_corpus.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in out.parent.iterdir()] == ["0000"]
    assert len(read_rows(out / "items.csv")) == 1


def wait_for(scenario, seconds=300):
    end = time.monotonic() + seconds
    while not scenario():
        assert time.monotonic() < end
        time.sleep(0.05)


# Index -----------------------------------------------------------------------------------------------------------


def write_shard(folder, ids, labels=("x",), rejected=()):
    folder.mkdir(parents=True)
    with open(folder / "items.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(build_corpus.ITEM_COLUMNS)
        for number, item_id in enumerate(ids):
            path = f"shards/{folder.name}/{number:06d}.wav"
            table.writerow([item_id, 16_000, f"{number:016x}", path, json.dumps(list(labels))])
    with open(folder / "rejected.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(build_corpus.REJECTED_COLUMNS)
        table.writerows(rejected)
    (folder / "remarks.csv").write_text("id,remark\n")


def index(out, count, **options):
    arguments = {"--validation": 0.1, "--split-seed": 0} | {
        f"--{name.replace('_', '-')}": v for name, v in options.items()
    }
    flat = [word for pair in arguments.items() for word in pair]
    return run("index_corpus.py", "--shards-dir", out / "shards", "--count", count, "--out", out, *flat)


def test_the_whole_way_from_files_to_a_corpus(tmp_path):
    corpus_dir = tmp_path / "corpus"
    rows = make_set(tmp_path)
    write_ledger(tmp_path / "ledger.csv", rows)
    arguments = ["--ledger", tmp_path / "ledger.csv", "--store", tmp_path, "--out", corpus_dir / "shards" / "0000"]
    assert run("build_corpus.py", *arguments).returncode == 0
    done = index(corpus_dir, 1, validation=0.3)
    assert done.returncode == 0, done.stderr
    corpus = Corpus(corpus_dir)
    items = list(read_manifest(corpus_dir / "manifest.csv"))
    assert [item.index for item in items] == list(range(27))
    assert [item.id for item in items] == sorted(item.id for item in items)
    for item in items:
        pcm = corpus.stored(item)
        assert len(pcm) == item.frames
        assert item_hash(corpus.padded(item)) == item.hash
    names = [found["name"] for found in csv.DictReader((corpus_dir / "classes.csv").read_text().splitlines())]
    assert names == sorted(names) == [*(f"label {number}" for number in range(5)), "x"]
    assert {names[item.classes[0]] for item in items if item.id.startswith("long#")} == {"x"}
    assert len({item.split for item in items if item.id.startswith("long#")}) == 1
    info = json.loads((corpus_dir / "corpus.json").read_text())
    assert (info["samples"], info["classes"]) == (160_000, 6)
    assert (info["rejected"], info["unavailable"], info["failed"]) == (1, 0, 1)
    assert sum(info["items"].values()) == 27
    assert info["audio_seconds"] == sum(item.frames for item in items) / 16_000
    assert (corpus_dir / "rejected.csv").read_text().splitlines() == ["id,reason", "no,why", "gone,file vanished"]


def test_split_has_its_share_and_adding_items_moves_none(tmp_path):
    ids = [f"item {number}" for number in range(4000)]
    write_shard(tmp_path / "few" / "shards" / "0000", ids[:1000])
    write_shard(tmp_path / "many" / "shards" / "0000", ids[500:])
    write_shard(tmp_path / "many" / "shards" / "0001", ids[:500])
    assert index(tmp_path / "few", 1).returncode == index(tmp_path / "many", 2).returncode == 0
    few, many = (
        {item.id: item.split for item in read_manifest(tmp_path / name / "manifest.csv")} for name in ("few", "many")
    )
    assert {item_id: many[item_id] for item_id in few} == few
    share = sum(split == "validation" for split in many.values()) / len(many)
    assert 0.08 < share < 0.12
    other = {item_id: index_corpus.split_of(item_id, 0.1, 1) for item_id in many}
    assert other != many


def test_parts_of_a_recording_stay_together():
    for number in range(200):
        parts = {index_corpus.split_of(f"r{number}{part}", 0.5, 0) for part in ("", "#00000.000", "#00010.000")}
        assert len(parts) == 1


def test_ids_in_code_point_order_and_the_hash_of_the_set(tmp_path):
    ids = ["b", "a#2", "a", "Z", "é", "a\nb", "\U0001f600", "\uffee"]
    for name, order in [("one", ids), ("two", ids[::-1])]:
        write_shard(tmp_path / name / "shards" / "0000", order)
        assert index(tmp_path / name, 1, validation=0).returncode == 0
    for name in ("one", "two"):
        assert [item.id for item in read_manifest(tmp_path / name / "manifest.csv")] == sorted(ids)
    one, two = (json.loads((tmp_path / name / "corpus.json").read_text()) for name in ("one", "two"))
    assert one["ids_hash"] == two["ids_hash"]


def test_a_duplicate_id_is_an_error(tmp_path):
    write_shard(tmp_path / "shards" / "0000", ["a", "b"])
    write_shard(tmp_path / "shards" / "0001", ["c", "a"])
    (tmp_path / "manifest.csv").write_text("old")
    done = index(tmp_path, 2)
    assert done.returncode == 2
    assert done.stderr.startswith("error: found the id 'a' twice, in shards/0000/000000.wav and shards/0001/000001.wav")
    assert not (tmp_path / "manifest.csv").exists()


def test_an_empty_train_split_is_an_error(tmp_path):
    reasons = ["truncated: 1 s", "truncated: 2 s", "no labels", "truncated: 3 s", "a: 1", "no labels", "b: 1", "b: 2"]
    rejected = [(str(number), reason, "rejected") for number, reason in enumerate(reasons)]
    write_shard(tmp_path / "shards" / "0000", [], rejected=[*rejected, ("u", "b", "unavailable")])
    done = index(tmp_path, 1)
    assert done.returncode == 2
    assert "9 rejected" in done.stderr
    assert "truncated (3); b (3); no labels (2)." in done.stderr
    assert not (tmp_path / "manifest.csv").exists()
