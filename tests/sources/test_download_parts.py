"""The parts of the download: cutting, reading ranges, pacing, faults, yt-dlp's options, and what is checked first."""

import email.utils
import functools
import io
import json
import multiprocessing
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import yt_dlp
from yt_dlp.extractor.youtube import YoutubeIE
from yt_dlp.networking.exceptions import HTTPError, TransportError
from yt_dlp.utils import DownloadError, ExtractorError, GeoRestrictedError

from scripts.common.decode import open_recording
from scripts.common.errors import UserError
from scripts.prepare.arguments import complete_options
from scripts.sources import audioset
from scripts.sources._audioset import client as download_client, preflight, ranged
from scripts.sources._audioset.client import SECRET_OPTIONS, check_options, secrets_of
from scripts.sources._audioset.cut import NotUsable, cut_segment
from scripts.sources._audioset.faults import (
    GONE,
    GONE_KINDS,
    LATER,
    LONGEST_REASON,
    STOP,
    _chain,
    one_line,
    retry_after,
    understand,
)
from scripts.sources._audioset.pace import HOUR, Pace
from scripts.sources._audioset.ranged import BLOCK_BYTES, NoRanges, RangedFile
from scripts.sources._audioset.videos import reachable
from tests.support import loopback_tube
from tests.support.loopback_tube import LONG, Fault, Recording, Tube

recordings = loopback_tube.recordings
tube = loopback_tube.tube

SECRET = "hunter22"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", SECRET_OPTIONS):
        monkeypatch.delenv(name, raising=False)


_opened: list[yt_dlp.YoutubeDL] = []


def open_client(*arguments: Any) -> yt_dlp.YoutubeDL:
    _opened.append(download_client.open_client(*arguments))
    return _opened[-1]


@pytest.fixture(autouse=True)
def close_clients() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def options(**given: object) -> dict[str, Any]:
    return complete_options(given, audioset)


# Cutting. EXACT: the source counts samples and its decoder gives the same samples wherever it begins. NOISE: FFmpeg's
# AAC encoder lets the decoder fill in noise, which is another each time. MS: time stamps are milliseconds.

EXACT, NOISE, MS = "exact", "noise", "milliseconds"
POOL = {
    "webm-opus": MS,
    "m4a-fragmented": NOISE,
    "m4a": NOISE,
    "mp3": EXACT,
    "flac": EXACT,
    "ogg-vorbis": EXACT,
    "ogg-opus": EXACT,
    "wav": EXACT,
    "mp4-video": NOISE,
}
MORE = {
    "vorbis.webm": ("ogg-vorbis", "-c copy", MS),
    "opus.mka": ("ogg-opus", "-c copy", MS),
    "flac.ogg": ("flac", "-c copy", EXACT),
    "44100.flac": ("flac", "-c:a flac -ar 44100", EXACT),
    "44100.ogg": ("flac", "-c:a libvorbis -ar 44100", EXACT),
    "22050.ogg": ("flac", "-c:a libvorbis -ar 22050", EXACT),
    "aac.m4a": ("m4a", "-c:a aac -aac_pns 0", EXACT),
    "aac.aac": ("m4a", "-c:a aac -aac_pns 0 -f adts", EXACT),
    "bare.mp3": ("mp3", "-c:a libmp3lame -q:a 4 -write_xing 0", EXACT),
    "alac.m4a": ("flac", "-c:a alac", EXACT),
    "24-bit.wav": ("wav", "-c:a pcm_s24le", EXACT),
    "float.wav": ("wav", "-c:a pcm_f32le", EXACT),
}
STARTS = ("0", "13", "29.987", "near the end")
ANNOUNCE = ("webm-opus", "m4a", "mp3", "flac", "wav", "vorbis.webm", "aac.m4a", "alac.m4a", "24-bit.wav", "mp4-video")


class Source:
    """One recording, whole and decoded."""

    def __init__(self, path: Path, precision: str) -> None:
        self.path = path
        self.precision = precision
        self.rate, self.samples = decoded(path)
        self.seconds = len(self.samples) / self.rate

    def part(self, start: float, stop: float) -> np.ndarray:
        return self.samples[round(start * self.rate) : round(stop * self.rate)]


@pytest.fixture(scope="module")
def source_of(recordings: dict[str, Recording], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Source]:
    folder = tmp_path_factory.mktemp("more")

    @functools.cache
    def get(name: str) -> Source:
        if name in POOL:
            return Source(recordings[name].path, POOL[name])
        origin, words, precision = MORE[name]
        command = ["ffmpeg", "-v", "error", "-i", recordings[origin].path, *words.split(), folder / name]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        return Source(folder / name, precision)

    return get


def decoded(path: Path, start: float = 0.0, stop: float | None = None) -> tuple[int, np.ndarray]:
    recording = open_recording(path, start, stop)
    return recording.sample_rate, np.concatenate(list(recording.blocks))


def packets_of(path: Path) -> tuple[str, list[bytes]]:
    with av.open(f"file:{path}") as container:
        stream = container.streams.best("audio")
        return stream.codec_context.codec.canonical_name, [bytes(packet) for packet in container.demux(stream)]


def lag_of(part: np.ndarray, expected: np.ndarray, rate: int) -> tuple[float, float]:
    """Return by how many seconds `part` is late, found by correlation, and the largest difference without the lag."""
    count = min(len(part), len(expected), 2 * rate)
    a, b = part[:count], expected[:count]
    correlation = np.fft.irfft(np.fft.rfft(a, 2 * count) * np.conj(np.fft.rfft(b, 2 * count)))
    lag = int(np.argmax(correlation))
    lag -= 2 * count if lag > count else 0
    a, b = a[max(0, lag) :], b[max(0, -lag) :]
    count = min(len(a), len(b))
    return lag / rate, float(np.abs(a[:count] - b[:count]).max())


def ranged_file(data: bytes) -> RangedFile:
    return RangedFile(lambda first, last: (data[first : last + 1], len(data)))


class TestCut:
    @pytest.mark.parametrize("start", STARTS)
    @pytest.mark.parametrize("name", [*POOL, *MORE])
    def test_part_is_that_of_the_whole(self, name: str, start: str, source_of: Callable[[str], Source], tmp_path: Path):
        source = source_of(name)
        begin = source.seconds // 1 - 6 if start == "near the end" else float(start)
        if begin >= source.seconds:
            return  # `test_beyond_the_end_is_gone`
        made = cut_segment(source.path, begin, begin + 10, tmp_path / "-_x")
        expected = source.part(begin, begin + 10)
        assert made.path.parent == tmp_path and made.path.stem == "-_x"
        # What an encoder adds at the end is left out only where the new file can say so.
        assert -0.001 < made.seconds - len(expected) / source.rate < 0.025
        if begin + 10 < source.seconds:
            assert made.seconds == 10
        rate, part = decoded(made.path, made.start_seconds, made.start_seconds + made.seconds)
        assert rate == source.rate
        if source.precision == EXACT:
            assert np.abs(part[: len(expected)] - expected[: len(part)]).max() < 1e-6
            assert abs(len(part) - len(expected)) <= (1 if begin + 10 < source.seconds else 0.025 * rate)
        else:
            lag, difference = lag_of(part, expected, rate)
            assert abs(lag) <= (0.001 if source.precision == MS else 0)
            assert difference < (1e-4 if source.precision == MS else 0.02)

        codec, packets = packets_of(source.path)
        assert made.codec == codec == packets_of(made.path)[0]
        copied = packets_of(made.path)[1]
        if name.endswith(".aac"):  # whose packets carry headers, here only
            assert {packet for packet in copied if packet} <= {packet[7:] for packet in packets}
        else:
            assert b"".join(copied) in b"".join(packets)

        data = source.path.read_bytes()
        again = cut_segment(ranged_file(data), begin, begin + 10, tmp_path / "again")
        assert again.path.read_bytes() == made.path.read_bytes() and again[1:] == made[1:]

    def test_segment_of_a_long_recording_costs_its_own_bytes(self, recordings: dict[str, Recording], tmp_path: Path):
        data = recordings[LONG].path.read_bytes()
        file = ranged_file(data)
        made = cut_segment(file, 600, 610, tmp_path / "x")
        assert made.seconds == 10 and file.fetched_bytes <= 3 * BLOCK_BYTES < len(data) / 3
        assert made.path.stat().st_size < 60_000

    @pytest.mark.parametrize("name", [*POOL, *MORE])
    def test_beyond_the_end_is_gone(self, name: str, source_of: Callable[[str], Source], tmp_path: Path):
        for start in (source_of(name).seconds + 1, 5000.0):
            for source in (source_of(name).path, ranged_file(source_of(name).path.read_bytes())):
                with pytest.raises(NotUsable, match="too short") as error:
                    cut_segment(source, start, start + 10, tmp_path / "x")
                assert error.value.gone

    @pytest.mark.parametrize("name", ANNOUNCE)
    def test_truncated_file_is_not_gone(self, name: str, source_of: Callable[[str], Source], tmp_path: Path):
        data = source_of(name).path.read_bytes()
        half = tmp_path / "half"
        half.write_bytes(data[: len(data) // 2])
        start = source_of(name).seconds / 2
        for begin in (start - 4, start + 4):
            with pytest.raises(NotUsable, match=r"truncated|damaged") as error:
                cut_segment(half, begin, begin + 10, tmp_path / "x")
            assert not error.value.gone

    def test_length_that_is_guessed_is_not_held_against_a_file(
        self, source_of: Callable[[str], Source], tmp_path: Path
    ):
        """FFmpeg reckons the length of bare AAC and MP3 from their first bit rate, loud here and silent later."""
        words = "-f lavfi -i anoisesrc=d=5:r=44100:s=1,apad=pad_dur=25 -c:a libmp3lame -q:a 2 -write_xing 0"
        for name, encode in (("x.mp3", words), ("x.aac", words.replace("libmp3lame -q:a 2 -write_xing 0", "aac"))):
            command = ["ffmpeg", "-v", "error", *encode.split(), tmp_path / name]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
            made = cut_segment(tmp_path / name, 24, 34, tmp_path / "part")
            assert made.seconds == pytest.approx(6, abs=0.1)
        assert cut_segment(source_of("aac.aac").path, 39, 49, tmp_path / "part").seconds == pytest.approx(6, abs=0.1)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"x",
            b"<!DOCTYPE html><html><head><title>Sorry</title></head><body>Sorry.</body></html>",
            random.Random(0).randbytes(100_000),
            b"ID3\x04\x00\x00\x00\x00\x00\x00" + bytes(5000),
            b"OggS" + bytes(3000),
            bytes(4) + b"ftypM4A " + bytes(3000),
            b"RIFF\xff\xff\xff\xffWAVEfmt ",
        ],
        ids=["empty", "one byte", "page", "garbage", "ID3", "Ogg", "MP4", "WAV"],
    )
    def test_what_is_no_audio_is_not_gone(self, content: bytes, tmp_path: Path):
        path = tmp_path / "x.webm"
        path.write_bytes(content)
        for source in (path, ranged_file(content)):
            with pytest.raises(NotUsable) as error:
                cut_segment(source, 0, 10, tmp_path / "part")
            assert not error.value.gone and "\n" not in str(error.value)

    def test_video_without_audio(self, tmp_path: Path):
        path = tmp_path / "silent.mp4"
        command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=black:s=32x32:d=2", "-c:v", "mpeg4", path]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        with pytest.raises(NotUsable, match="no audio: ") as error:
            cut_segment(path, 0, 10, tmp_path / "part")
        assert error.value.gone

    def test_ogg_that_broke_off_is_known_by_what_the_page_tells(self, recordings: dict[str, Recording], tmp_path: Path):
        """Ogg announces no length: what the server says of the recording decides."""
        path = tmp_path / "broken.ogg"
        whole = recordings["ogg-opus"]
        path.write_bytes(whole.path.read_bytes()[: whole.path.stat().st_size // 2])
        for start, gone in ((2, None), (15, False)):
            try:
                cut_segment(path, start, start + 4, tmp_path / "part", whole.seconds)
                assert gone is None
            except NotUsable as fault:
                assert fault.gone is gone and str(fault).startswith("truncated: ")

    @pytest.mark.parametrize("name", ["webm-opus", "m4a", "ogg-opus"])
    @pytest.mark.parametrize("fault", [NoRanges(), ConnectionError("gone away"), OSError(28, "No space left")])
    def test_what_reading_raises_arrives(
        self,
        name: str,
        fault: Exception,
        source_of: Callable[[str], Source],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture,
    ):
        """FFmpeg takes a failed read for the end of the file; PyAV hands an exception on now, later, or not at all."""
        monkeypatch.setattr(ranged, "BLOCK_BYTES", 1 << 14)
        data = source_of(name).path.read_bytes()
        whole = ranged_file(data)
        needed = cut_segment(whole, 5, 15, tmp_path / "whole")
        blocks = whole.fetched_bytes // (1 << 14)
        for fails_at in {1, 2, 3, blocks // 2, blocks - 1}:
            for once in (True, False):
                reads = iter(range(10**6))

                def read_range(first: int, last: int) -> tuple[bytes, int]:
                    number = next(reads)  # noqa: B023
                    if number == fails_at or (number > fails_at and not once):  # noqa: B023
                        raise fault
                    return data[first : last + 1], len(data)

                with pytest.raises(type(fault)) as error:
                    cut_segment(RangedFile(read_range), 5, 15, tmp_path / "part")
                assert error.value is fault
        assert cut_segment(source_of(name).path, 5, 15, tmp_path / "part")[1:] == needed[1:]  # nothing is left behind
        assert "Traceback" not in capfd.readouterr().err


class TestRanged:
    @pytest.mark.parametrize("seed", range(5))
    def test_any_seeks_and_reads_are_the_files(self, seed: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(ranged, "BLOCK_BYTES", 1000)
        source = random.Random(seed)
        data = source.randbytes(source.choice([1, 999, 1000, 1001, 10_000, 54_321]))
        asked = []

        def read_range(first: int, last: int) -> tuple[bytes, int]:
            assert 0 <= first <= last
            assert last < len(data) or first == 0
            asked.append(first)
            return data[first : last + 1], len(data)

        file, true = RangedFile(read_range), io.BytesIO(data)
        for _ in range(300):
            whence = source.choice([io.SEEK_SET, io.SEEK_CUR, io.SEEK_END])
            offset = source.randint(-len(data), len(data) + 500) if whence else source.randint(0, len(data) + 500)
            target = offset + {io.SEEK_SET: 0, io.SEEK_CUR: true.tell(), io.SEEK_END: len(data)}[whence]
            assert file.seek(offset, whence) == true.seek(max(0, target)) == file.tell()
            size = source.choice([-1, 0, 1, 10, 1000, 4000])
            assert file.read(size) == true.read(size)
            assert file.tell() == true.tell()
        assert file.readable() and file.seekable() and file.size == len(data)

    def test_blocks_are_fetched_once_while_they_are_kept(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(ranged, "BLOCK_BYTES", 1000)
        file = ranged_file(bytes(10_500))
        for _ in range(3):
            file.seek(0)
            assert len(file.read()) == 10_500
        assert file.fetched_bytes == 10_500

    @pytest.mark.parametrize("sent", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES + 1])
    def test_server_that_sends_another_number_of_bytes(self, sent: int):
        with pytest.raises(ConnectionError, match=f"sent {sent} bytes"):
            RangedFile(lambda *_: (bytes(sent), 10 * BLOCK_BYTES))

    def test_last_block_is_as_long_as_it_should_be(self):
        data = bytes(BLOCK_BYTES + 100)
        file = RangedFile(lambda first, last: (data[first : last + 1][: BLOCK_BYTES if first == 0 else 50], len(data)))
        assert not file.read() and "sent 50 bytes" in str(file.fault)

    def test_file_that_changes_meanwhile(self):
        sizes = iter([2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 1])
        file = RangedFile(lambda first, last: (bytes(last + 1 - first), next(sizes)))
        assert not file.read() and "now has" in str(file.fault)


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 1
        self.slept.append(seconds)
        self.now += seconds


def most_in(times: list[float], window: float) -> int:
    return max(sum(first <= other < first + window for other in times) for first in times)


def noted(pace: Pace) -> int:
    return len(json.loads(pace.path.read_text())["asked"]) if pace.path.exists() else 0


class TestPace:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    def pace(self, tmp_path: Path, clock: Clock, per_hour: float = 300, pause: tuple[float, float] = (4, 20)) -> Pace:
        return Pace(tmp_path / "deep" / "pace.json", per_hour, pause, clock, clock.sleep)

    def times(self, pace: Pace, clock: Clock, count: int) -> list[float]:
        times = []
        for _ in range(count):
            assert pace.wait()
            times.append(clock.now)
        return times

    @pytest.mark.parametrize("per_hour", [1, 2, 20, 300])
    @pytest.mark.parametrize("pause", [(0, 0), (4, 20)])
    def test_no_hour_holds_more(self, per_hour: int, pause: tuple[float, float], tmp_path: Path, clock: Clock):
        times = self.times(self.pace(tmp_path, clock, per_hour, pause), clock, 3 * per_hour if per_hour < 300 else 320)
        assert most_in(times, HOUR) <= per_hour

    @pytest.mark.parametrize(("per_hour", "pause"), [(150, (0.5, 2)), (2000, (0.5, 2)), (300, (0, 0)), (60, (4, 20))])
    def test_requests_come_evenly(self, per_hour: int, pause: tuple[float, float], tmp_path: Path, clock: Clock):
        """From the first on at about the limit, not all of an hour's in its first minutes."""
        pace = self.pace(tmp_path, clock, per_hour, pause)
        times = self.times(pace, clock, 60)
        assert np.diff(times).mean() == pytest.approx(HOUR / per_hour, rel=0.25)
        assert np.diff(times).std() > 0.1 * HOUR / per_hour, "pauses are random"

    def test_pauses_lie_in_the_range_and_differ(self, tmp_path: Path, clock: Clock):
        times = self.times(self.pace(tmp_path, clock, 0), clock, 200)
        pauses = np.diff(times)
        assert pauses.min() >= 4 and pauses.max() <= 20 + 1e-3
        assert pauses.min() < 6 and pauses.max() > 18 and 10 < pauses.mean() < 14

    @pytest.mark.parametrize(("per_hour", "window", "most"), [(2.5, HOUR, 2), (0.5, 2 * HOUR, 1), (1.9, HOUR, 1)])
    def test_fractions_of_a_request(self, per_hour: float, window: float, most: int, tmp_path: Path, clock: Clock):
        times = self.times(self.pace(tmp_path, clock, per_hour, (0, 0)), clock, 6)
        assert most_in(times, window) == most

    def test_next_start_knows_the_last_ones_requests(self, tmp_path: Path, clock: Clock):
        each_by_its_own = [self.times(self.pace(tmp_path, clock, 5, (0, 0)), clock, 1) for _ in range(12)]
        assert most_in([time for [time] in each_by_its_own], HOUR) <= 5

    def test_hold_delays_everybody(self, tmp_path: Path, clock: Clock):
        one, other = self.pace(tmp_path, clock), self.pace(tmp_path, clock)
        one.hold(500)
        other.hold(100)  # a shorter one takes nothing back
        before = clock.now
        assert other.wait()
        assert clock.now - before == pytest.approx(500, abs=1e-3)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b'{"asked": [1, 2], "ne',
            b"\xff\xfe",
            b"[]",
            b'{"asked": ["x"], "next": 0}',
            b'{"asked": [], "next": null}',
        ],
    )
    def test_torn_file_starts_anew(self, content: bytes, tmp_path: Path, clock: Clock):
        pace = self.pace(tmp_path, clock)
        pace.path.parent.mkdir()
        pace.path.write_bytes(content)
        before = clock.now
        assert pace.wait()
        assert clock.now - before == pytest.approx(20 if content else 0, abs=1e-3)
        assert noted(pace) == 1

    @pytest.mark.parametrize("back", [5, 1000, 10 * HOUR, 10_000 * HOUR])
    def test_clock_that_was_set_back(self, back: float, tmp_path: Path, clock: Clock):
        pace = self.pace(tmp_path, clock, 300, (4, 20))
        self.times(pace, clock, 3)
        clock.now -= back
        before = clock.now
        times = self.times(pace, clock, 297)
        assert times[0] - before <= 20 + 1e-3  # no longer than the pause
        self.times(pace, clock, 10)
        assert most_in(times, HOUR) <= 300  # those before count, as sent at the latest when it was set back
        assert clock.now - before <= 1.3 * HOUR

    def test_interrupted_wait_takes_no_place(self, tmp_path: Path, clock: Clock):
        pace = self.pace(tmp_path, clock, 1, (0, 0))
        assert not pace.wait(lambda: True) and noted(pace) == 0
        assert pace.wait()
        assert not pace.wait(lambda: len(clock.slept) > 30)
        assert noted(pace) == 1 and len(clock.slept) == 31

    def test_file_stays_small(self, tmp_path: Path, clock: Clock):
        pace = self.pace(tmp_path, clock, 50, (0, 0))
        self.times(pace, clock, 400)
        assert noted(pace) <= 50

    def test_processes_share_the_limit(self, tmp_path: Path):
        context = multiprocessing.get_context("spawn")
        queue, together = context.Queue(), context.Barrier(2)
        arguments = (tmp_path / "pace.json", together, queue)
        processes = [context.Process(target=ask_for_places, args=arguments) for _ in range(2)]
        for process in processes:
            process.start()
        times = sorted(time for _ in processes for time in queue.get(timeout=PATIENCE))
        for process in processes:
            process.join()
        noted = json.loads((tmp_path / "pace.json").read_text())["asked"]
        assert len(noted) == len(times) == 2 * PLACES
        assert np.diff(noted).min() >= 0.05 - 1e-6, "of all processes together"
        assert all(sent >= place for sent, place in zip(times, noted, strict=True)), "sent before its place was due"
        queue.close()


PLACES, PATIENCE = 12, 300  # that each process takes; seconds to wait for it


def ask_for_places(path: Path, together: Any, queue: Any) -> None:
    """Take places, which all processes together may take 0.05 to 0.06 s apart."""
    pace, times = Pace(path, 0, (0.05, 0.06)), []
    together.wait(PATIENCE)
    while len(times) < PLACES and pace.wait():
        times.append(time.time())
    queue.put(times)


# Faults. The texts are those of YouTube as yt-dlp 2026.10.26 passes them on.

HINT = YoutubeIE()._youtube_login_hint
REPORT = ExtractorError("x").args[0][1:]
LIMITED = (
    "This content isn't available. The current session has been rate-limited by YouTube for up to an hour. "
    "It is recommended to use `-t sleep` to add a delay between video requests to avoid exceeding the rate limit. "
    "For more information, refer to  "
    "https://github.com/yt-dlp/yt-dlp/wiki/Extractors#this-content-isnt-available-try-again-later"
)
TRUE_TEXTS = [
    (f"Sign in to confirm you\u2019re not a bot. {HINT}", STOP, "bot check"),
    ("Video unavailable. YouTube is requiring a captcha challenge before playback", STOP, "bot check"),
    ("Our systems have detected unusual traffic from your computer network", STOP, "bot check"),
    (LIMITED, STOP, "rate limit"),
    (f"Sign in to confirm your age. This video may be inappropriate for some users. {HINT}", GONE, "age"),
    (
        "The uploader has not made this video available in your country\nThis video is available in Germany, France.\n"
        "You might want to use a VPN or a proxy server (with --proxy) to workaround.",
        GONE,
        "country",
    ),
    (
        "Video unavailable. This video contains content from SME, who has blocked it in your country on copyright "
        "grounds",
        GONE,
        "country",
    ),
    ("This video is not available from your location due to geo restriction", GONE, "country"),
    (
        "Video unavailable. This video contains content from SME, who has blocked it on copyright grounds",
        GONE,
        "copyright",
    ),
    ("Video unavailable. This video is no longer available due to a copyright claim by X", GONE, "copyright"),
    (f"Private video. Sign in if you've been granted access to this video. {HINT}", GONE, "private"),
    (
        "Join this channel to get access to members-only content like this video, and other exclusive perks.",
        GONE,
        "members only",
    ),
    ("This video requires payment to watch.", GONE, "members only"),
    ("This video is only available to Music Premium members", GONE, "members only"),
    ("Video unavailable. This video has been removed by the uploader", GONE, "removed"),
    (
        "Video unavailable. This video is no longer available because the YouTube account associated with this video "
        "has been terminated.",
        GONE,
        "removed",
    ),
    ("This video does not exist.", GONE, "removed"),
    ("This live event will begin in 3 hours.", GONE, "not broadcast"),
    ("Premieres in 5 hours", GONE, "not broadcast"),
    ("Video unavailable", GONE, "unavailable"),
    ("This video is DRM protected", GONE, "protected"),
    ("All player responses are invalid. Your IP is likely being blocked by Youtube", STOP, "bot check"),
    ("This video is not available", GONE, "unavailable"),
    ("Incomplete YouTube ID abc. URL https://www.youtube.com/watch?v=abc looks truncated.", GONE, "unavailable"),
    ("We're processing this video. Check back later.", LATER, "yt-dlp"),
    (f"Failed to extract any player response{REPORT}", LATER, "yt-dlp"),
    ("Requested format is not available. Use --list-formats for a list of available formats", LATER, "yt-dlp"),
    ("Unable to download webpage: HTTP Error 403: Forbidden", LATER, "http"),
    ("Unable to download webpage: HTTP Error 404: Not Found", GONE, "not found"),
    ("unable to download video data: HTTP Error 404: Not Found", LATER, "http"),
    ("Got error: 1024 bytes read, 500 more expected", LATER, "broken off"),
    ("Did not get any data blocks", LATER, "broken off"),
    ("The downloaded file is empty", LATER, "broken off"),
    ("Unable to download webpage: The read operation timed out", LATER, "network"),
    ("Unable to download webpage: [Errno -3] Temporary failure in name resolution", LATER, "network"),
    ("unable to open for writing: [Errno 28] No space left on device", STOP, "disk full"),
    ("Unable to download video: [Errno 122] Disk quota exceeded", STOP, "disk full"),
]
MISLEADING = [  # words in addresses, of the network, of single videos
    ("Unsupported URL: http://mirror.example/removed/audio/x", LATER, "yt-dlp"),
    ("Unable to download webpage: The TLS connection was non-properly terminated", LATER, "network"),
    ("Unable to download webpage: Failed to resolve 'captcha.example' (name resolution)", LATER, "network"),
    ("Unable to download webpage: HTTP Error 503: Try again later", LATER, "http"),
    (
        "This video has been removed for violating YouTube's policy on hate speech. Learn more about combating hate "
        "speech in your country.",
        *(GONE, "removed"),
    ),
]


def as_yt_dlp_raises(text: str, cause: Exception | None = None) -> DownloadError:
    information = (type(cause), cause, None) if cause else None
    return DownloadError(f"\x1b[0;31mERROR:\x1b[0m [youtube] -Video_id-0: {text}", information)


class TestFaults:
    @pytest.mark.parametrize(("text", "verdict", "kind"), [*TRUE_TEXTS, *MISLEADING])
    def test_true_texts(self, text: str, verdict: str, kind: str):
        fault = understand(as_yt_dlp_raises(text))
        assert (fault.verdict, fault.kind) == (verdict, kind)
        assert "\n" not in fault.reason and "http" not in fault.detail.replace("HTTP", "").lower().split("url")[0]
        assert verdict != GONE or kind in GONE_KINDS
        assert "-Video_id-0" not in fault.detail and "ERROR" not in fault.detail

    @pytest.mark.parametrize("word", ["captcha", "removed", "private"])
    def test_ids_do_not_decide(self, word: str):
        fault = understand(DownloadError(f"ERROR: [youtube] {word}: Unable to download webpage: timed out"))
        assert (fault.verdict, fault.kind) == (LATER, "network")

    def test_title_is_no_part_of_a_message(self, tube: Tube, tmp_path: Path):
        """The title comes in the page of the extractor; what it raises names the id alone."""
        title = "I am not a bot: captcha removed, private video, no longer available"
        original = tube._page
        tube._page = lambda video_id: {**original(video_id), "title": title}
        tube.faults["media", "-video_id-0"] = Fault.status(403)
        client = open_client(options(), tmp_path, tmp_path)
        with pytest.raises(DownloadError) as error:
            client.extract_info(tube.watch_url % {"id": "-video_id-0"})
        assert "captcha" not in str(error.value)
        assert understand(error.value)[:3] == (LATER, "http", "HTTP status 403")
        for part in _chain(error.value):
            if isinstance(part, HTTPError):
                part.close()

    def test_country_by_type_alone(self):
        fault = understand(as_yt_dlp_raises("Not for you", GeoRestrictedError("Not for you")))
        assert (fault.verdict, fault.kind) == (GONE, "country")

    @pytest.mark.parametrize(
        ("status", "verdict", "throttled"),
        [(404, GONE, False), (410, GONE, False), (429, LATER, True), (500, LATER, False)],
    )
    def test_status_and_retry_after(self, status: int, verdict: str, throttled: bool):
        response = SimpleNamespace(status=status, reason="x", headers={"Retry-After": "17"}, close=lambda: None)
        response.url = "http://127.0.0.1/"
        inner = HTTPError(response)
        try:
            try:
                raise inner
            except HTTPError as cause:
                raise ExtractorError("Unable to download webpage", cause=cause) from cause
        except ExtractorError as outer:
            fault = understand(as_yt_dlp_raises(str(outer), outer))
        assert (fault.verdict, fault.throttled) == (verdict, throttled)
        assert fault.retry_after == (None if verdict == GONE else 17)

    def test_network_by_type_alone(self):
        assert understand(as_yt_dlp_raises("odd", TransportError("odd")))[:2] == (LATER, "network")
        assert understand(ConnectionResetError("odd"))[:2] == (LATER, "network")
        assert understand(OSError(28, "odd"))[:2] == (STOP, "disk full")
        assert understand(ZeroDivisionError("odd"))[:2] == (LATER, "yt-dlp")

    def test_ring_of_causes_ends(self):
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        assert understand(one).verdict == LATER

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("\x1b[0;31mERROR:\x1b[0m [youtube] -Video_id-0: Gone.", "Gone."),
            ("ERROR: [youtube:tab] abc: Gone", "Gone"),
            ("ERROR: unable to write", "unable to write"),
            ("one\r\ntwo\n\n three", "one two three"),
            (f"Odd thing{REPORT}", "Odd thing"),
            (f"Sign in. {HINT}", "Sign in"),
            ("Odd thing. See  https://example.org/x for more", "Odd thing"),
            ("No page (caused by <HTTPError 404: Not Found>)", "No page"),
            ("with secretsecret in it, secretsecret", "with *** in it, ***"),
            ("x" * 500, "x" * (LONGEST_REASON - 3) + "..."),
            ("x" * LONGEST_REASON, "x" * LONGEST_REASON),
            ("", ""),
        ],
    )
    def test_one_line(self, text: str, line: str):
        assert one_line(text, ["secretsecret"]) == line

    def test_secret_at_the_end_of_a_long_text(self):
        for pad in range(180, 205):
            assert "secr" not in one_line("x" * pad + "secretsecret", ["secretsecret"])

    def test_retry_after(self):
        now = 1_700_000_000.0
        assert retry_after("120") == 120 and retry_after(" 5 ") == 5 and retry_after("0") == 0
        assert retry_after(email.utils.formatdate(now + 90, usegmt=True), now) == 90
        assert retry_after(email.utils.formatdate(now - 90, usegmt=True), now) == 0
        for garbage in (None, "", "soon", "-5", "1.5", "Wed, 99 Xxx 2015 07:28:00 GMT", "\x00"):
            assert retry_after(garbage) is None


class TestOptions:
    @pytest.mark.parametrize(
        "words",
        [
            ["-p", SECRET],
            [f"-p{SECRET}"],
            ["-u", SECRET],
            [f"-u{SECRET}"],
            ["--password", SECRET],
            [f"--passw={SECRET}"],
            [f"--twofactor={SECRET}"],
            [f"--client-certificate-password={SECRET}"],
            ["--add-headers", f"Authorization:Bearer {SECRET}"],
            ["--extractor-args", f"youtube:po_token=web.gvs+{SECRET}"],
            ["--proxy", f"http://user:{SECRET}@proxy.example"],
            ["--proxy", f"socks5://{SECRET}@proxy.example:1080"],
        ],
    )
    def test_secret_in_the_config_is_refused_and_not_shown(self, words: list[str]):
        with pytest.raises(
            UserError, match=f"^yt_dlp: found an option that holds a secret; .*export {SECRET_OPTIONS}"
        ) as error:
            check_options(options(yt_dlp=["--limit-rate", "1M", *words]))
        assert SECRET not in str(error.value)

    @pytest.mark.parametrize("word", ["--client-certificate-pas", "--video-pas", "--ap-user", "--twof"])
    def test_shortened_ones_are_found_when_yt_dlp_reads_them(self, word: str, tmp_path: Path):
        given = options(yt_dlp=[f"{word}={SECRET}"])
        with pytest.raises(UserError) as error:
            check_options(given)
            open_client(given, tmp_path, tmp_path)
        assert SECRET not in str(error.value)

    @pytest.mark.parametrize(
        ("key", "address"),
        [
            ("proxy", f"http://user:{SECRET}@proxy.example:3128"),
            ("proxy", f"socks5h://{SECRET}@proxy.example"),
            ("url", f"https://user:{SECRET}@mirror.example/%(id)s"),
            ("lists_url", f"https://user:{SECRET}@mirror.example/"),
        ],
    )
    def test_secret_in_an_address(self, key: str, address: str):
        with pytest.raises(UserError, match=f"^{key}: found an address with a user name or password; allowed") as error:
            check_options(options(**{key: address}))
        assert SECRET not in str(error.value) and "user:" not in str(error.value)

    @pytest.mark.parametrize("key", ["cookies", "netrc"])
    def test_folder_is_no_file_of_secrets(self, key: str, tmp_path: Path):
        with pytest.raises(UserError, match=f"{key}: found"):
            check_options(options(**{key: str(tmp_path)}))

    def test_plain_ones_are_right(self, tmp_path: Path):
        given = options(
            yt_dlp=[
                "--limit-rate",
                "1M",
                "-4",
                "--extractor-args",
                "youtube:player_client=web",
                "--no-check-certificates",
            ],
            proxy="socks5://proxy.example:1080",
            url="https://mirror.example/@channel/%(id)s",
        )
        check_options(given)
        parameters = open_client(given, tmp_path, tmp_path).params
        assert parameters["ratelimit"] == 1 << 20 and parameters["nocheckcertificate"]
        assert parameters["extractor_args"] == {"youtube": {"player_client": ["web"]}}
        assert parameters["proxy"] == "socks5://proxy.example:1080"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--nonsense"], "no such option: --nonsense"),
            (["--concurrent-fragments", "many"], "option --concurrent-fragments: invalid integer value: 'many'"),
            (["--limit-rate"], "--limit-rate option requires 1 argument"),
            (["--version"], "prints something"),
            (["https://www.youtube.com/"], "neither an option nor its value"),
        ],
    )
    def test_what_yt_dlp_refuses(self, words: list[str], said: str, tmp_path: Path):
        with pytest.raises(UserError, match=r"^yt_dlp: ") as error:
            open_client(options(yt_dlp=words), tmp_path, tmp_path)
        assert said in str(error.value)

    @pytest.mark.parametrize(
        ("words", "parameter"),
        [
            ("-f 140", "format"),
            ("-P /tmp", "paths"),
            ("-x", "postprocessors"),
            ("--download-sections *0-10", "download_ranges"),
            ("--cookies x", "cookiefile"),
            ("--retries 5", "retries"),
            ("--socket-timeout 3", "socket_timeout"),
            ("--simulate", "simulate"),
            ("--print id", "forceprint"),
            ("--write-info-json", "writeinfojson"),
        ],
    )
    def test_what_the_download_decides(self, words: str, parameter: str, tmp_path: Path):
        with pytest.raises(UserError, match=rf"\b{parameter}\b"):
            open_client(options(yt_dlp=words.split()), tmp_path, tmp_path)

    def test_options_in_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv(SECRET_OPTIONS, f"--limit-rate 2M -u somebody -p{SECRET} --add-headers 'X-Key:very secret1'")
        parameters = open_client(options(yt_dlp=["--limit-rate", "1M"]), tmp_path, tmp_path).params
        assert parameters["ratelimit"] == 2 << 20
        assert (parameters["username"], parameters["password"]) == ("somebody", SECRET)
        found = secrets_of(options())
        assert {"somebody", SECRET, "secret1", "very secret1"} <= {*found}
        assert found == sorted(found, key=len, reverse=True)

    @pytest.mark.parametrize(
        "words",
        [f"--nonsense {SECRET}", f"--password '{SECRET}", f"-u x -p x {SECRET}", f"-u {SECRET}"],
    )
    def test_environment_is_never_shown(self, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv(SECRET_OPTIONS, words)
        with pytest.raises(UserError) as error:
            open_client(options(), tmp_path, tmp_path)
        assert SECRET not in str(error.value)

    @pytest.mark.parametrize("word", [f"--password={SECRET}", f"-p{SECRET}", f"--password {SECRET}"])
    def test_every_spelling_is_masked(self, word: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv(SECRET_OPTIONS, f"-u somebody {word}")
        assert one_line(f"found {SECRET} of somebody", secrets_of(options())) == "found *** of ***"

    @pytest.mark.parametrize(
        "address", ["http://some%40body:hunt%3Aer22@proxy.example", "some%40body:hunt%3Aer22@proxy:1"]
    )
    def test_proxys_password_is_masked(self, address: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("https_proxy", address)
        assert {"some@body", "some%40body", "hunt:er22", "hunt%3Aer22"} <= {*secrets_of(options())}

    def test_users_own_configuration_has_no_influence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "yt-dlp").mkdir()
        (tmp_path / "yt-dlp" / "config").write_text(
            "--retries 77\n--limit-rate 1K\n-f 140\n--proxy http://127.0.0.1:1\n"
        )
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        assert yt_dlp.parse_options([]).ydl_opts.get("ratelimit") is None
        for words in ([], ["-4"]):
            parameters = open_client(options(yt_dlp=words), tmp_path, tmp_path).params
            assert parameters["retries"] == 0 and "ratelimit" not in parameters and not parameters["proxy"]

    def test_work_folder_may_have_any_name(self, tmp_path: Path):
        client = open_client(options(), tmp_path / "100%", tmp_path)
        name = client.prepare_filename({"id": "-x", "ext": "webm", "title": "../../x"})
        assert name == str(tmp_path / "100%" / "audio.webm")


NETSCAPE = "# Netscape HTTP Cookie File\n\n.example.org\tTRUE\t/\tFALSE\t4102444800\tSID\tvery-secret-value\n"


class TestCookies:
    @pytest.mark.parametrize(
        "content", [b'[{"name": "SID"}]', b"", b"\xff\xfeSQLite format 3\x00", b"SID=very-secret-value"]
    )
    def test_another_format(self, content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture):
        path = tmp_path / "cookies"
        path.write_bytes(content)
        with pytest.raises(UserError, match="cookies: "):
            open_client(options(cookies=str(path)), tmp_path, tmp_path)
        assert secrets_of(options(cookies=str(path))) is not None
        assert "secret" not in capfd.readouterr().err

    def test_line_that_cannot_be_read_is_not_shown(self, tmp_path: Path, capfd: pytest.CaptureFixture):
        path = tmp_path / "cookies"
        path.write_text(f"{NETSCAPE}.example.org\tTRUE\tanother-secret\n")
        client = open_client(options(cookies=str(path)), tmp_path, tmp_path)
        assert [cookie.value for cookie in client.cookiejar] == ["very-secret-value"]
        said = capfd.readouterr()
        assert "secret" not in said.err + said.out

    def test_netrc_is_masked(self, tmp_path: Path):
        path = tmp_path / "netrc"
        path.write_text("machine youtube login somebody password very-secret-value\n")
        path.chmod(0o600)
        assert {"somebody", "very-secret-value"} <= {*secrets_of(options(netrc=str(path)))}
        path.write_text("nonsense\n")
        assert secrets_of(options(netrc=str(path))) == []


YOUTUBE = audioset.YOUTUBE
MIRROR = "https://mirror.example/%(id)s"


class TestPrograms:
    def client(self, runtimes: dict[str, dict]) -> Any:
        return SimpleNamespace(params={"js_runtimes": runtimes})

    def fake_deno(self, tmp_path: Path, version: str) -> dict[str, dict]:
        program = tmp_path / "deno"
        program.write_text(f"#!/bin/sh\necho 'deno {version} (stable, release, x86_64-unknown-linux-gnu)'\n")
        program.chmod(0o755)
        return {"deno": {"path": str(program)}}

    def test_true_ones(self, tmp_path: Path):
        said = preflight.check_programs(open_client(options(), tmp_path, tmp_path), MIRROR)
        assert "yt-dlp 20" in said and "libavcodec" in said

    @pytest.mark.parametrize(
        ("version", "right"),
        [
            ("2025.11.11", False),
            ("2025.11.12.231415", True),
        ],
    )
    def test_version_of_yt_dlp(self, version: str, right: bool, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("yt_dlp.version.__version__", version)
        if right:
            assert version in preflight.check_programs(self.client({}), MIRROR)
        else:
            with pytest.raises(UserError, match=version):
                preflight.check_programs(self.client({}), MIRROR)

    def test_decoder_that_is_missing(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(av, "codecs_available", {"aac", "vorbis"})
        with pytest.raises(UserError, match="opus"):
            preflight.check_programs(self.client({}), MIRROR)

    @pytest.mark.parametrize("runtimes", [{}, {"deno": {"path": "/nowhere/deno"}}, {"unheard-of": {}}])
    def test_javascript_only_for_youtube(self, runtimes: dict):
        assert "deno" not in preflight.check_programs(self.client(runtimes), MIRROR)
        with pytest.raises(UserError, match="JavaScript"):
            preflight.check_programs(self.client(runtimes), YOUTUBE)

    def test_deno_that_is_too_old(self, tmp_path: Path):
        with pytest.raises(UserError, match=r"deno 1\.0\.0"):
            preflight.check_programs(self.client(self.fake_deno(tmp_path, "1.0.0")), YOUTUBE)

    def test_deno_that_is_new_enough(self, tmp_path: Path):
        assert "9.8.7" in preflight.check_programs(self.client(self.fake_deno(tmp_path, "9.8.7")), YOUTUBE)

    def test_solver_that_is_missing(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(__import__("sys").modules, "yt_dlp_ejs", None)
        with pytest.raises(UserError, match="yt-dlp-ejs: "):
            preflight.check_programs(self.client({}), YOUTUBE)


class TestRoom:
    def test_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=6_000_000_000))
        assert "5.1 GB" in preflight.check_room(tmp_path, 203_710)
        with pytest.raises(UserError, match=r"21\.1 GB .* 6\.0 GB"):
            preflight.check_room(tmp_path, 1_000_000)


class TestServer:
    @pytest.fixture
    def closed_port(self) -> Iterator[int]:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            yield taken.getsockname()[1]

    def test_unreachable(self, closed_port: int, tmp_path: Path):
        address = f"http://127.0.0.1:{closed_port}/%(id)s"
        problem = reachable(open_client(options(), tmp_path, tmp_path), address, [])
        assert "refused" in problem
        with pytest.raises(UserError, match=r"YouTube .*refused"):
            preflight.check_server(problem, "YouTube")

    @pytest.mark.parametrize("fault", [None, Fault.status(503), Fault.html()])
    def test_server_that_answers_whatever(self, fault: Fault | None, tube: Tube, tmp_path: Path):
        if fault:
            tube.faults["root", ""] = fault
        assert reachable(open_client(options(), tmp_path, tmp_path), tube.watch_url, []) == ""
        preflight.check_server("", "YouTube")
        assert [asked[1:3] for asked in tube.requests] == [("HEAD", "root")]

    def test_silent_server_is_given_up(self, tube: Tube, tmp_path: Path):
        tube.faults["root", ""] = Fault.slow(30)
        assert "timed out" in reachable(
            open_client(options(timeout_seconds=0.3), tmp_path, tmp_path), tube.watch_url, []
        )
