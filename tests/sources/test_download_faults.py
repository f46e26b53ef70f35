"""What a server, a disk and a user do to a download: each fault has its row, and the next call does the right thing.

Real yt-dlp, real audio, and the programs as Snakemake runs them, against a server on loopback.
"""

import http.cookiejar
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pytest

from scripts.common.decode import open_recording
from scripts.common.errors import UserError
from scripts.common.ledger import LedgerRow
from scripts.sources._audioset import preflight, shard
from scripts.sources._audioset.faults import GONE_KINDS
from scripts.sources._audioset.worker import Worker
from tests.support import loopback_tube, small_disks
from tests.support.download_program import PATIENCE, Done, Download, in_order, watched
from tests.support.loopback_tube import LONG, Asked, Fault, Recording, Tube, made_ids

recordings = loopback_tube.recordings
tube = loopback_tube.tube

BOT = "Sign in to confirm you\u2019re not a bot"
LIMITED = "This content isn't available, try again later."
PAUSE = 0.3


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process download as the programs do: without a proxy, as a call of its own."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("FEEDRATE_"):
            monkeypatch.delenv(name)


# Without faults


@pytest.fixture(scope="module")
def whole(recordings: dict[str, Recording], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Download]:
    """Yield a download of 60 segments by two jobs that has ended."""
    with Tube(recordings) as tube:
        download = Download(tmp_path_factory.mktemp("whole"), tube, made_ids(60, seed=3), shards=2)
        assert download.prepare().status == 0
        assert [done.status for done in download.fetch("first")] == [0, 0]
        yield download


def test_every_segment_is_fetched_by_one_request(whole: Download):
    rows = whole.rows()
    assert {row.status for row in rows.values()} == {"fetched"}
    assert watched(whole.tube) == Counter(dict.fromkeys(whole.ids, 1))
    assert all(whole.tube.count(video, "media") == 1 for video in whole.ids)
    assert whole.fetched() == set(whole.ids)
    records = whole.records()
    for video, row in rows.items():
        record = records[video]
        assert (row.path, row.bytes, row.sha256) == (record.path, record.bytes, record.sha256)
        assert row.codec == whole.tube.recording_of(video).acodec.replace("mp4a.40.2", "aac")
        assert row.duration_seconds == pytest.approx(10.0, abs=1e-3) == row.stop_seconds - row.start_seconds
    assert len({video.lower() for video in rows}) < len(rows), "no two ids that differ by case alone"
    times = [
        [asked.seconds for asked in whole.tube.requests if asked.kind == "watch" and asked.id in ids]
        for ids in (in_order(whole.ids)[:30], in_order(whole.ids)[30:])
    ]
    assert max(map(min, times)) < min(map(max, times)), "the jobs did not work side by side"
    assert whole.count().status == 0


def test_what_is_kept_is_the_right_part(whole: Download):
    rows = {whole.tube.recording_of(video).path: row for video, row in whole.rows().items()}
    assert len(rows) == 9, "each kind of recording"
    for path, row in rows.items():
        assert_same_audio(whole.store.root / row.path, row, path, 2.0)


def assert_same_audio(kept: Path, row: LedgerRow, recording: Path, start: float) -> None:
    """Assert that the kept file holds what the recording plays from `start` on, for ten seconds.

    By the sample, and where Matroska, which counts milliseconds, is the source or what is kept, by 1.5 ms. FFmpeg's AAC
    decoder fills gaps with noise of its own, which no two decodings share.
    """
    audio, right = samples(kept, row.start_seconds, row.stop_seconds), samples(recording, start, start + 10)
    assert len(audio) == len(right), recording
    most = 72 if kept.suffix == ".mka" or recording.suffix == ".webm" else 0
    inner = slice(72, -72)
    noise = min(np.std(audio[inner] - np.roll(right, shift)[inner]) for shift in range(-most, most + 1))
    assert noise < (0.03 if row.codec == "aac" else 1e-4) * np.std(right), recording


def samples(path: Path, start: float, stop: float) -> np.ndarray:
    """Return the decoded samples of a part of a recording."""
    return np.concatenate(list(open_recording(path, start, stop).blocks))


def test_nothing_is_asked_for_a_second_time(whole: Download):
    rows = whole.rows()
    whole.tube.clear()
    assert whole.prepare("second").status == 0
    assert [done.status for done in whole.fetch("second")] == [0, 0]
    assert {asked.kind for asked in whole.tube.requests} <= {"root"}
    assert whole.rows() == rows


# One fault each


class Case(NamedTuple):
    """A fault, where it lies, and what becomes of the segment in the first call."""

    name: str
    place: str  # kind of request that meets it
    fault: Fault | list[Fault]
    status: str
    kind: str = ""  # of the reason
    recording: str = ""  # served; empty: any


def at_date(seconds: float) -> Fault:
    """Return 429 with a Retry-After that names a time, after so many seconds at least."""

    def change(answer: loopback_tube.Answer) -> loopback_tube.Answer:
        date = formatdate(time.time() + seconds + 1, usegmt=True)
        return replace(answer, code=429, headers={"Retry-After": date}, body=b"")

    return Fault("retry after a date", change)


def unplayable(text: str, status: str = "ERROR", more: str | None = None) -> Fault:
    """Return a watch page that cannot be played, in YouTube's words."""
    return Fault.unplayable(status, text, more)


BROKEN_BODIES = (
    ("reset", Fault.reset(20_000), "network"),
    ("closed early", Fault.short(20_000), "broken off"),
    ("page that says it is audio", Fault.html(content_type="audio/webm"), "not audio, or damaged"),
    ("empty", Fault.empty(), "broken off"),
    ("garbage", Fault.garbage(50_000), "not audio, or damaged"),
    ("redirect loop", Fault.redirect_loop(), "http"),
)
ANNOUNCING = ("webm-opus", "mp3")  # of those whose headers tell their lengths
OUTSIDE = "/tmp/feedrate-x.sh"  # which a hostile name asks for
OF_THE_MIRROR = [
    *(Case(f"truncated {name}", "audio", Fault.truncated(0.15), "failed", "truncated", name) for name in ANNOUNCING),
    *(Case(str(code), "audio", Fault.status(code), "unavailable", "not found") for code in (404, 410)),
    *(Case(str(code), "audio", Fault.status(code), "failed", "http") for code in (403, 429, 500, 503)),
    *(Case(name, "audio", fault, "failed", kind, "m4a") for name, fault, kind in BROKEN_BODIES),
    Case("page", "audio", Fault.html(), "failed", "not audio"),
    Case("trickle", "audio", Fault.trickle(50), "failed", "too slow"),
    Case("hostile name", "audio", Fault.hostile_name("../../x"), "fetched"),
    Case("hostile program", "audio", Fault.hostile_name("../../x.sh"), "failed", "yt-dlp"),
    Case("hostile path", "audio", Fault.hostile_name(OUTSIDE), "failed", "yt-dlp"),
    Case("hostile audio", "audio", Fault.hostile_name("../../../x.webm"), "fetched"),
    Case("begins too late", "", Fault("none"), "unavailable", "too short"),
    Case("ends within", "", Fault("none"), "fetched"),
]
OF_YOUTUBE = [
    *(Case(f"truncated {name}", "media", Fault.truncated(0.15), "failed", "truncated", name) for name in ANNOUNCING),
    *(Case(str(code), "media", Fault.status(code), "failed", "http") for code in (403, 404, 410, 429, 500)),
    *(Case(name, "media", fault, "failed", kind, "m4a") for name, fault, kind in BROKEN_BODIES),
    Case("page", "media", Fault.html(), "failed", "not audio, or damaged"),
    Case("hostile name", "media", Fault.hostile_name("../../x"), "fetched"),
    Case("hostile program", "media", Fault.hostile_name("../../x.sh"), "fetched"),
    Case("begins too late", "", Fault("none"), "unavailable", "too short"),
    Case("ends within", "", Fault("none"), "fetched"),
    Case("500 once", "watch", [Fault.status(500)], "fetched"),
    Case("reset once", "media", [Fault.reset(9_000)], "fetched"),
    Case("429 for a while", "watch", [Fault.status(429, {"Retry-After": "1"})], "fetched"),
    Case("429 until a date", "watch", [at_date(1.0)], "fetched"),
    Case("watch 403", "watch", Fault.status(403), "failed", "http"),
    Case("watch 404", "watch", Fault.status(404), "unavailable", "not found"),
    Case("watch 429", "watch", Fault.status(429), "failed", "http"),
    Case("watch 500", "watch", Fault.status(500), "failed", "http"),
    Case("watch reset", "watch", Fault.reset(0), "failed", "network"),
    Case("watch page broken", "watch", Fault.html(), "failed", "yt-dlp"),
    Case(
        "private",
        "watch",
        unplayable("Private video", "LOGIN_REQUIRED", "Sign in if you've been granted access to this video"),
        "unavailable",
        "private",
    ),
    Case(
        "account gone",
        "watch",
        unplayable(
            "Video unavailable",
            more="This video is no longer available because the YouTube account associated with this video has been "
            "terminated.",
        ),
        "unavailable",
        "removed",
    ),
    Case("unavailable", "watch", unplayable("Video unavailable"), "unavailable", "unavailable"),
]


@dataclass
class Calls:
    """What three calls of a download did: with faults, without them, and with `ask_again` for all that is gone."""

    download: Download
    ids: dict[str, str]  # by the case's name
    plain: list[str]  # ids without a fault
    rows: list[dict[str, LedgerRow]]
    asked: list[list[Asked]]

    def requests(self, call: int, name: str) -> int:
        """Return how often a case was asked for in a call."""
        kind = "watch" if "watch" in self.download.options["url"] else "audio"
        return sum(asked[1:4] == ("GET", kind, self.ids[name]) for asked in self.asked[call])


def download_of(folder: Path, tube: Tube, cases: list[Case], seed: int, **options) -> tuple[Download, dict[str, str]]:
    """Return a download of the cases and of as many without a fault, in turn, and the cases' ids."""
    order = in_order(made_ids(2 * len(cases), seed=seed))
    ids = {case.name: video for case, video in zip(cases, order[1::2], strict=True)}
    tube.recordings = {ids[case.name]: case.recording for case in cases if case.recording}
    starts = {ids["begins too late"]: 100.0, ids["ends within"]: 0.0}
    starts[ids["ends within"]] = tube.recording_of(ids["ends within"]).seconds - 4
    download = Download(folder, tube, order, lambda video: starts.get(video, 2.0), options=options)
    return download, ids


@pytest.fixture(scope="module")
def calls(recordings: dict[str, Recording], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Calls]:
    """Return what became of all cases, of YouTube's kind and of a mirror's, fetched at the same time."""
    folder = tmp_path_factory.mktemp("faults")
    Path(OUTSIDE).unlink(missing_ok=True)
    with Tube(recordings) as youtube, Tube(recordings) as mirror:
        found = {}
        for name, tube, cases, options in (
            ("youtube", youtube, OF_YOUTUBE, {"attempts": 2}),
            ("mirror", mirror, OF_THE_MIRROR, {"url": mirror.mirror_url, "limit_seconds": 12}),
        ):
            download, ids = download_of(folder / name, tube, cases, 11, **options)
            tube.faults = {(case.place, ids[case.name]): case.fault for case in cases}
            assert download.prepare().status == 0
            found[name] = Calls(download, ids, sorted(set(download.ids) - set(ids.values())), [], [])
        for call in range(3):
            for each in found.values():
                each.download.tube.clear()
                if call == 2:
                    each.download.options["ask_again"] = list(GONE_KINDS)
            running = [each.download.begin_fetch(f"call {call}") for each in found.values()]
            for each, process in zip(found.values(), running, strict=True):
                done = Download.wait(process)
                assert done.status == 0, done.output[-3000:]
                each.rows.append(each.download.rows())
                each.asked.append(list(each.download.tube.requests))
                each.download.tube.faults = {}
    assert sorted(path.name for path in folder.iterdir()) == ["mirror", "youtube"]
    assert not Path(OUTSIDE).exists()
    return found


EACH = [
    pytest.param(place, case, id=f"{place}: {case.name}")
    for place, cases in (("youtube", OF_YOUTUBE), ("mirror", OF_THE_MIRROR))
    for case in cases
]


@pytest.mark.parametrize("place, case", EACH)
def test_a_fault_has_its_row_and_the_next_call_does_right(calls: dict[str, Calls], place: str, case: Case):
    found = calls[place]
    first, second, third = (rows[found.ids[case.name]] for rows in found.rows)
    asked = [found.requests(call, case.name) for call in range(3)]
    assert (first.status, first.reason.partition(": ")[0]) == (case.status, case.kind), first.reason
    assert len(first.reason) <= 250 and "\n" not in first.reason
    if case.status == "fetched":
        assert second == third == first
        assert asked[1:] == [0, 0]
        tries = 2 if isinstance(case.fault, list) else 1
        assert asked[0] == tries or place == "mirror"
        assert found.download.records()[found.ids[case.name]].asked == tries
    elif case.status == "failed":
        assert (second.status, second.reason) == ("fetched", "")
        assert asked[0] > 0 and asked[1] > 0 and asked[2] == 0
        assert asked[:2] == [2, 1] or place == "mirror"
    else:
        assert second == first
        assert asked[0] > 0 and asked[1] == 0 and asked[2] > 0
        assert asked == [1, 0, 1] or place == "mirror"
        assert third.status == ("unavailable" if case.name == "begins too late" else "fetched")


@pytest.mark.parametrize("place", ["youtube", "mirror"])
def test_those_beside_a_fault_are_fetched_at_once(calls: dict[str, Calls], place: str):
    found = calls[place]
    kind = "watch" if place == "youtube" else "audio"
    for video in found.plain:
        assert [rows[video].status for rows in found.rows] == ["fetched"] * 3
        assert [any(asked[2:4] == (kind, video) for asked in call) for call in found.asked] == [True, False, False]


@pytest.mark.parametrize("place", ["youtube", "mirror"])
def test_a_recording_that_ends_within_the_segment_keeps_what_there_is(calls: dict[str, Calls], place: str):
    row = calls[place].rows[0][calls[place].ids["ends within"]]
    assert row.duration_seconds == pytest.approx(4.0, abs=0.1)
    assert row.stop_seconds - row.start_seconds == pytest.approx(row.duration_seconds)


@pytest.mark.parametrize("name", ["429 for a while", "429 until a date"])
def test_nobody_asks_before_the_server_allows_it(calls: dict[str, Calls], name: str):
    times = [(asked.seconds, asked.id) for asked in calls["youtube"].asked[0] if asked.kind == "watch"]
    refused = next(seconds for seconds, video in times if video == calls["youtube"].ids[name])
    assert min(seconds for seconds, _ in times if seconds > refused) >= refused + 0.99


@pytest.mark.parametrize("place", ["youtube", "mirror"])
def test_nothing_is_written_but_to_the_store(calls: dict[str, Calls], place: str):
    download = calls[place].download
    outside = {
        path.relative_to(download.folder).as_posix()
        for path in download.folder.rglob("*")
        if path.is_file() and not path.is_relative_to(download.store.root)
    }
    assert outside == {"list.csv", "prepared/0000.csv", "prepared/selection.json", "ledgers/ledger-0000.csv"}
    assert {path.name for path in download.store.root.iterdir()} <= {
        *("cache", "counts", "lock", "lock-entry", "pace.json", "segments", "work"),
    }
    assert list((download.store.root / "work").iterdir()) == []
    stems = {f"{record}_" for record in download.records()}
    for path in (download.store.root / "segments").glob("*/*"):
        assert path.is_file() and f"{path.stem.rpartition('_')[0]}_" in stems
        assert path.suffix in (".json", ".opus", ".ogg", ".m4a", ".mp3", ".wav", ".mka")
        assert not path.stat().st_mode & 0o111


# Stops


BOT_PAGE = "<html><head><title>Sorry</title></head><body>Our systems have detected unusual traffic.</body></html>"
STOPS = {
    "bot check": ("audio", Fault.html(text=BOT_PAGE), "cookies"),
    "bot check of a page that says it is audio": (
        *("audio", Fault.html(content_type="audio/webm", text=BOT_PAGE), "cookies"),
    ),
    "rate limit": ("watch", unplayable(LIMITED), "Wait an hour"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", STOPS)
def test_what_stops_a_call(tube: Tube, tmp_path: Path, name: str):
    place, fault, advice = STOPS[name]
    url = tube.mirror_url if place == "audio" else tube.watch_url
    download = Download(tmp_path, tube, in_order(made_ids(3, seed=4)), options={"url": url})
    tube.faults[place, download.ids[1]] = fault
    rows = download.fetch_here()
    assert [rows[video].status for video in download.ids] == ["fetched", "stopped", "stopped"]
    for video in download.ids[1:]:
        assert rows[video].reason.startswith(name.partition(" of ")[0]) and advice in rows[video].reason


def test_a_stop_ends_the_call_and_the_next_one_goes_on(tube: Tube, tmp_path: Path):
    download = Download(tmp_path, tube, in_order(made_ids(9, seed=4)))
    tripping = download.ids[4]
    tube.faults["watch", tripping] = unplayable(BOT, "LOGIN_REQUIRED")
    assert download.prepare().status == 0
    (done,) = download.fetch("first")
    assert done.status == 0, done.output
    rows = download.rows()
    assert [rows[video].status for video in download.ids] == ["fetched"] * 4 + ["stopped"] * 5
    (reason,) = {row.reason for row in rows.values() if row.status == "stopped"}
    assert reason.startswith("bot check") and "cookies" in reason and "type the same command" in reason
    assert {asked.id for asked in tube.requests} == {"", *download.ids[:5]}, "asked for after the stop"
    counted = download.count()
    assert counted.status == 2 and reason in counted.output and "5 not tried" in counted.output
    assert not (tmp_path / "clips.json").exists()
    assert download.count("4").status == 0, "what is there is enough"
    assert (tmp_path / "store" / "ended-early" / "0000").read_bytes() == b"x"

    fetched = download.fetched()
    tube.clear()
    (done,) = download.fetch("second")
    assert done.status == 0, done.output
    assert "stopped" in {row.status for row in download.rows().values()}
    assert download.fetched() == set(download.ids) - {tripping}, "one video stops the download for ever"
    assert not {asked.id for asked in tube.requests} & fetched

    tube.faults.clear()
    (done,) = download.fetch("third")
    assert {row.status for row in download.rows().values()} == {"fetched"}
    assert download.count().status == 0
    assert (tmp_path / "store" / "ended-early" / "0000").read_bytes() == b"xx"


def test_failures_in_a_row_stop_the_call(tube: Tube, tmp_path: Path):
    download = Download(
        tmp_path, tube, in_order(made_ids(20, seed=4)), options={"stop_after": 6, "back_off_seconds": 0.01}
    )
    tube.faults = {("watch", video): Fault.status(500) for video in download.ids[3:]}
    assert download.prepare().status == 0
    assert download.fetch("first")[0].status == 0
    rows = download.rows()
    assert [rows[video].status for video in download.ids] == ["fetched"] * 3 + ["stopped"] * 17
    assert "6 segments failed one after the other, the last: http: HTTP status 500" in rows[download.ids[-1]].reason
    assert set(watched(tube)) == set(download.ids[:9])
    counted = download.count()
    assert counted.status == 2 and "look at the reasons" in counted.output
    tube.faults.clear()
    assert download.fetch("second")[0].status == 0
    assert {row.status for row in download.rows().values()} == {"fetched"}
    assert download.count().status == 0


def test_all_gone_one_after_the_other_is_doubted(tube: Tube, tmp_path: Path):
    """A server that blocks the address, or an address that is mistyped, says of everything that it is gone."""
    download = Download(tmp_path, tube, in_order(made_ids(20, seed=4)), options={"stop_after": 6})
    tube.faults = {("watch", video): unplayable("Video unavailable") for video in download.ids[3:]}
    tube.faults["watch", download.ids[1]] = unplayable("Private video")
    assert download.prepare().status == 0
    assert download.fetch("first")[0].status == 0
    rows = download.rows()
    assert {rows[video].status for video in download.ids[3:]} == {"stopped"}
    assert "6 segments are gone one after the other" in rows[download.ids[-1]].reason
    assert "stop_after" in download.count().output
    tube.faults.clear()
    tube.clear()
    assert download.fetch("second")[0].status == 0
    gone = {video for video, row in download.rows().items() if row.status != "fetched"}
    assert gone == {download.ids[1]}, "what was gone before the doubt stays so, the rest is asked for again"
    assert download.ids[1] not in watched(tube)


def test_a_doubt_of_one_shard_is_one_of_all(tube: Tube, tmp_path: Path):
    download = Download(tmp_path, tube, made_ids(60, seed=4), shards=2, options={"stop_after": 12})
    tube.faults = {("watch", video): unplayable("Video unavailable") for video in download.ids}
    assert download.prepare().status == 0
    assert [done.status for done in download.fetch("first")] == [0, 0]
    assert {row.status for row in download.rows().values()} == {"stopped"}
    tube.faults.clear()
    assert [done.status for done in download.fetch("second")] == [0, 0]
    assert {row.status for row in download.rows().values()} == {"fetched"}


def test_a_few_that_are_all_gone_are_asked_for_again(tube: Tube, tmp_path: Path):
    """Fewer than `stop_after`, as in a first try with a small limit and a mistyped address."""
    download = Download(tmp_path, tube, made_ids(5, seed=4))
    tube.faults = {("watch", video): Fault.status(404) for video in download.ids}
    assert download.prepare().status == 0
    assert download.fetch("first")[0].status == 0
    assert {(row.status, row.reason) for row in download.rows().values()} == {("failed", "not found: HTTP status 404")}
    counted = download.count()
    assert counted.status == 2 and "none of 5 clips could be fetched: not found (5)" in counted.output
    assert "--forcerun fetch_clips" in counted.output
    tube.faults = {("watch", download.ids[0]): Fault.status(404)}
    assert download.fetch("second")[0].status == 0
    statuses = {video: row.status for video, row in download.rows().items()}
    assert statuses.pop(download.ids[0]) == "unavailable", "the others came: it is gone indeed"
    assert set(statuses.values()) == {"fetched"}


def test_damaged_notes_cost_nothing(tube: Tube, tmp_path: Path):
    download = Download(tmp_path, tube, made_ids(6, seed=4), options={"min_clips": 6})
    assert download.prepare().status == 0
    assert download.fetch("first")[0].status == 0
    tube.clear()
    for name in ("stop.json", "lock", *(path.relative_to(download.store.root) for path in counts_of(download))):
        for content in (b"", b"[1]", b"\xff\x00", b'{"call": 3, "fetched": "x"}'):
            (download.store.root / name).write_bytes(content)
            assert download.fetch_here().keys() == set(download.ids), (name, content)
    assert watched(tube) == {}
    (download.folder / "prepared" / "selection.json").write_bytes(b"")
    (done,) = download.fetch("damaged")
    assert done.status == 2 and "prepare_clips" in done.output and "Traceback" not in done.output


def counts_of(download: Download) -> list[Path]:
    return list((download.store.root / "counts").glob("*/*.json"))


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_store_that_is_no_folder_is_refused(tube: Tube, tmp_path: Path, place: str):
    (tmp_path / "file").touch()
    download = Download(tmp_path, tube, made_ids(2), options={"store": str(tmp_path / place)})
    done = download.prepare()
    assert done.status == 2 and "store: found" in done.output and "Traceback" not in done.output, done.output


def test_an_error_that_nobody_foresaw_costs_its_segment_alone(tube: Tube, tmp_path: Path):
    download = Download(tmp_path, tube, made_ids(5, seed=4))
    assert download.prepare().status == 0
    odd = json.dumps({"playability": {"status": "OK"}, "duration": "soon", "formats": 7, "id": 3, "title": None})
    tube.faults["watch", download.ids[2]] = Fault.status(200, {"Content-Type": "application/json"}, odd.encode())
    assert download.fetch("first")[0].status == 0
    statuses = {video: row.status for video, row in download.rows().items()}
    assert statuses.pop(download.ids[2]) == "failed"
    assert set(statuses.values()) == {"fetched"}


def test_enough_is_enough_and_more_goes_on(tube: Tube, tmp_path: Path):
    download = Download(tmp_path, tube, made_ids(50, seed=8), shards=2, options={"min_clips": 10})
    assert download.prepare().status == 0
    for wanted in (10, 20, "all"):
        download.options["min_clips"] = wanted
        assert [done.status for done in download.fetch(f"call {wanted}")] == [0, 0]
        statuses = Counter(row.status for row in download.rows().values())
        assert set(statuses) <= {"fetched", "waiting"}
        assert statuses["fetched"] >= (50 if wanted == "all" else wanted)
        assert wanted != 10 or statuses["waiting"] > 0
        assert download.count(str(wanted)).status == 0
        assert set(watched(tube).values()) == {1}
    assert not (tmp_path / "store" / "ended-early").exists()


# Disk


def make_room(folder: Path) -> None:
    """Make a mounted file system larger."""
    small_disks.remount(folder, "size=1g")


@pytest.mark.usefixtures("here")
def test_a_disk_that_fills_up_stops_in_time(tube: Tube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    download = Download(tmp_path / "set", tube, made_ids(6, seed=9))
    with small_disks.or_skip(download.store.root, "100m"):
        with pytest.raises(UserError, match="larger disk"):
            download.fetch_here()
        monkeypatch.setattr(preflight, "WORK_BYTES", 0)
        rows = download.fetch_here()
        assert {row.status for row in rows.values()} == {"stopped"}
        assert all("disk full: less than 128 MiB" in row.reason and "Make room" in row.reason for row in rows.values())
        assert watched(tube) == {}
        make_room(download.store.root)
        assert {row.status for row in download.fetch_here("second").values()} == {"fetched"}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("room", [0, 300, 700, 820])
def test_a_full_disk_loses_nothing(tube: Tube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int):
    """The room, in KiB, ends at the start, or while something is downloaded, cut, kept or noted."""
    monkeypatch.setattr(preflight, "WORK_BYTES", 0)
    monkeypatch.setattr(preflight, "BYTES_PER_SECOND", 0)
    monkeypatch.setattr(shard, "ROOM_BYTES", 0)
    download = Download(tmp_path / "set", tube, made_ids(12, seed=10))
    tube.recordings = dict.fromkeys(download.ids, "m4a")  # 560 KiB
    with small_disks.or_skip(download.store.root, "1300k"):
        filling = download.store.root / "filling"
        with open(filling, "wb") as file, suppress(OSError):
            file.write(bytes((1300 - room) * 1024))
        try:
            rows = download.fetch_here()
            reasons = {row.reason for row in rows.values() if row.status == "stopped"}
            assert {row.status for row in rows.values()} <= {"fetched", "stopped"}
        except UserError as error:
            reasons = {str(error)}
        assert reasons and all("full" in reason and "Make room" in reason for reason in reasons)
        fetched = download.fetched()
        assert fetched == set(download.records()), "a full disk is no fault of the video"
        filling.unlink()
        make_room(download.store.root)
        tube.clear()
        rows = download.fetch_here("second")
        assert {row.status for row in rows.values()} == {"fetched"}
        assert set(watched(tube)) == set(download.ids) - fetched
        assert download.fetched() == set(download.ids)
        assert list((download.store.root / "work").iterdir()) == []


# Kills and calls at the same time


def session_of(process: subprocess.Popen) -> list[psutil.Process]:
    """Return the processes that a program started, itself among them, and that still run."""
    found = []
    for each in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(each.pid) == process.pid and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def wait_until_gone(processes: list[subprocess.Popen]) -> None:
    """Wait until none of the programs' processes runs."""
    until = time.monotonic() + PATIENCE
    while left := [each for process in processes for each in session_of(process)]:
        assert time.monotonic() < until, f"left behind: {left}"
        time.sleep(0.02)


def test_kills_lose_nothing_and_leave_nothing(tube: Tube, tmp_path: Path):
    """Six kills of two jobs, every third of the jobs alone, whose workers must notice."""
    source = random.Random(20)
    download = Download(tmp_path, tube, made_ids(150, seed=6), shards=2)
    for video in download.ids:
        tube.faults[source.choice(["watch", "media"]), video] = Fault.slow(source.uniform(0.0, 0.15))
    assert download.prepare().status == 0
    kept: set[str] = set()
    for kill in range(6):
        since = len(tube.requests)
        running = [download.begin_fetch(f"call {kill}", number) for number in range(2)]
        if kill % 2:  # at any time from the start on, or, so that a busy machine comes to it, of the download
            time.sleep(source.uniform(0.1, 1.3))
        else:
            until = time.monotonic() + PATIENCE
            while len(tube.requests) == since and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(source.uniform(0.0, 0.6))
        for process in running:
            if kill % 3:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        for process in running:
            process.communicate()
        wait_until_gone(running)
        assert not kept & {asked.id for asked in tube.requests[since:]}, "asked for what was there"
        fetched = download.fetched()
        assert kept <= fetched
        kept = fetched
    assert len(kept) > 0, "no kill came late enough"
    since = len(tube.requests)
    running = [download.begin_fetch("last", number) for number in range(2)]
    assert [Download.wait(process).status for process in running] == [0, 0]
    wait_until_gone(running)
    assert {row.status for row in download.rows().values()} == {"fetched"}
    assert not kept & {asked.id for asked in tube.requests[since:]}
    assert len(kept) < 150, "no kill came early enough"
    assert download.fetched() == set(download.ids)
    assert list((tmp_path / "store" / "work").iterdir()) == []
    assert list((tmp_path / "store").rglob(".*")) == [], "debris of killed jobs"
    sent = sorted(asked.seconds for asked in tube.requests if asked.kind == "watch")
    noted = json.loads((tmp_path / "store" / "pace.json").read_text())["asked"]
    assert len(noted) >= len(sent), "a request that the rate limit does not know of"
    assert noted == sorted(noted)


def test_another_call_on_the_store_says_so_and_disturbs_nothing(tube: Tube, tmp_path: Path):
    download = Download(tmp_path, tube, made_ids(7, seed=2), options={"timeout_seconds": PATIENCE})
    released = threading.Event()
    tube.faults["watch", in_order(download.ids)[1]] = Fault.held(released)
    assert download.prepare().status == 0
    first = download.begin_fetch("first")
    while not tube.count(in_order(download.ids)[1], "watch"):
        assert first.poll() is None
        time.sleep(0.01)
    for second in (download.prepare("second"), *download.fetch("second")):
        assert second.status == 2
        assert "another call of feedrate is downloading" in second.output and "Traceback" not in second.output
        assert "type the same command" in second.output
    assert first.poll() is None, "the first call was disturbed"
    released.set()
    assert Download.wait(first).status == 0
    assert watched(tube) == Counter(dict.fromkeys(download.ids, 1))
    assert {row.status for row in download.rows().values()} == {"fetched"}


@pytest.mark.usefixtures("here")
def test_a_worker_that_died_while_nobody_asked_is_replaced(tube: Tube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    download = Download(tmp_path, tube, in_order(made_ids(4, seed=2)))
    ask = Worker.ask

    def ask_of_the_dead(worker: Worker, seconds: float, *request):
        if request[-1].startswith(download.ids[2]):
            os.kill(worker.process, signal.SIGKILL)
        return ask(worker, seconds, *request)

    monkeypatch.setattr(Worker, "ask", ask_of_the_dead)
    rows = download.fetch_here()
    assert [rows[video].status for video in download.ids] == ["fetched", "fetched", "failed", "fetched"]
    assert rows[download.ids[2]].reason.startswith("crash: ")


# Secrets


COOKIE, NETRC, PROXY, HEADER, TOKEN = (
    *("s3cr3t-cookie-value", "n3trc-passw0rd-9", "pr0xy-passw0rd-7", "h3ader-s3cret-5", "t0ken-s3cret-3"),
)


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    """Return options that name files with secrets."""
    cookies, netrc = tmp_path / "cookies.txt", tmp_path / "netrc"
    cookies.write_text(
        f"# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t{int(time.time()) + 9999}\tSESSION\t{COOKIE}\n"
    )
    http.cookiejar.MozillaCookieJar(str(cookies)).load()
    netrc.write_text(f"machine loopback login somebody password {NETRC}\n")
    netrc.chmod(0o600)
    return {"cookies": str(cookies), "netrc": str(netrc)}


def assert_hidden(download: Download, outputs: list[Done]) -> None:
    """Assert that no file of the download and no output holds a secret."""
    texts = {str(path): path.read_bytes() for path in download.folder.rglob("*") if path.is_file()}
    texts |= {f"output {number}": done.output.encode() for number, done in enumerate(outputs)}
    for secret in (COOKIE, NETRC, PROXY, HEADER, TOKEN):
        assert [name for name, text in texts.items() if secret.encode() in text] == []


def test_secrets_are_used_and_never_written(tube: Tube, tmp_path: Path, secrets: dict[str, str]):
    download = Download(tmp_path / "set", tube, in_order(made_ids(12, seed=1)), options=secrets)
    before = Path(secrets["cookies"]).read_bytes()
    echo = f"it holds {COOKIE} {NETRC} {HEADER} {TOKEN}"
    tube.faults = {
        ("watch", download.ids[0]): unplayable(f"Unheard of: {echo}"),
        ("watch", download.ids[1]): Fault.status(500, {"Set-Cookie": f"SESSION={COOKIE}"}, echo.encode()),
        ("watch", download.ids[2]): Fault.html(text=echo),
        ("media", download.ids[3]): Fault.html(text=echo),
        ("media", download.ids[4]): Fault.redirect_loop(),
        ("watch", download.ids[5]): Fault.status(302, {"Location": f"http://127.0.0.1:1/{COOKIE}/{HEADER}"}),
        ("media", download.ids[6]): Fault.hostile_name(COOKIE),
        ("watch", download.ids[7]): Fault.status(302, {"Location": f"nothing://{HEADER}"}),
    }
    words = f"--add-headers X-Key:{HEADER} --extractor-args 'youtube:po_token=web.gvs+{TOKEN}'"
    more = {"FEEDRATE_YT_DLP_OPTIONS": words}
    outputs = [download.prepare(more=more), *download.fetch("first", more)]
    assert [done.status for done in outputs] == [0, 0], outputs
    rows = download.rows()
    assert [rows[video].status for video in download.ids[:6]] == ["failed"] * 6
    assert rows[download.ids[0]].reason == "yt-dlp: Unheard of: it holds *** *** *** ***"
    assert [rows[video].status for video in download.ids[8:]] == ["fetched"] * 4
    asked = [asked for asked in tube.requests if asked.kind == "watch"]
    assert all(f"SESSION={COOKIE}" in each.headers["Cookie"] for each in asked), "the cookie is not sent"
    assert all(each.headers["X-Key"] == HEADER for each in asked), "the header is not sent"
    tube.faults = {("watch", download.ids[0]): unplayable(f"{BOT} {echo}")}
    outputs += download.fetch("second", more)
    assert "stopped" in {row.status for row in download.rows().values()}
    outputs.append(download.count())
    assert outputs[-1].status == 2
    tube.faults.clear()
    outputs += download.fetch("third", more)
    assert {row.status for row in download.rows().values()} == {"fetched"}
    assert Path(secrets["cookies"]).read_bytes() == before
    assert_hidden(download, outputs)


def test_a_proxy_that_refuses_does_not_show_its_password(tube: Tube, tmp_path: Path, secrets: dict[str, str]):
    download = Download(tmp_path / "set", tube, made_ids(3, seed=1), options={**secrets, "back_off_seconds": 0})
    assert download.prepare().status == 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = f"http://somebody:{PROXY}@127.0.0.1:{taken.getsockname()[1]}"
        more = dict.fromkeys(("HTTPS_PROXY", "http_proxy", "all_proxy"), proxy)
        refused = download.prepare(more=more)
        outputs = [refused, *download.fetch("first", more)]
    assert refused.status == 2 and "cannot be reached" in refused.output
    assert {row.status for row in download.rows().values()} == {"failed"}
    assert {row.reason.partition(": ")[0] for row in download.rows().values()} == {"network"}
    assert watched(tube) == {}, "the proxy was passed by"
    assert_hidden(download, outputs)


def test_a_secret_in_the_config_is_refused_and_not_shown(tube: Tube, tmp_path: Path):
    download = Download(tmp_path / "set", tube, made_ids(3), options={"yt_dlp": ["--password", PROXY]})
    done = download.prepare()
    assert done.status == 2 and "results record the config" in done.output and "Traceback" not in done.output
    assert_hidden(download, [done])


# Rate, and parts


def test_the_pause_holds_for_all_jobs_and_for_the_next_start(tube: Tube, tmp_path: Path):
    pause = {"least_pause_seconds": PAUSE, "most_pause_seconds": PAUSE + 0.1}
    download = Download(tmp_path, tube, made_ids(9, seed=3), shards=2, options={**pause, "min_clips": 4})
    assert download.prepare().status == 0
    tube.faults["watch", in_order(download.ids)[1]] = [Fault.status(429, {"Retry-After": "2"})]
    for wanted in (4, "all"):
        download.options["min_clips"] = wanted
        assert [done.status for done in download.fetch(f"call {wanted}")] == [0, 0]
    noted = json.loads((tmp_path / "store" / "pace.json").read_text())["asked"]
    sent = [asked for asked in tube.requests if asked.kind == "watch"]
    assert len(noted) == len(sent) == 10
    assert min(later - earlier for earlier, later in itertools.pairwise(noted)) >= PAUSE
    times = sorted(asked.seconds for asked in sent)
    assert all(seconds >= place for seconds, place in zip(times, sorted(noted), strict=True)), (
        "sent before it was noted"
    )
    refused = next(asked.seconds for asked in sent if asked.id == in_order(download.ids)[1])
    early = [place for place in noted if refused < place < refused + 2]
    assert len(early) <= 1, "the other job may have taken its place before it could know"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("ranges", [True, False], ids=["server with ranges", "server without"])
def test_a_part_of_a_long_recording_is_read_alone(recordings: dict[str, Recording], tmp_path: Path, ranges: bool):
    with Tube(recordings, ranges=ranges) as tube:
        download = Download(tmp_path, tube, in_order(made_ids(3, seed=5)), start=600.0)
        tube.recordings = dict.fromkeys(download.ids, LONG)
        tube.faults["media", download.ids[1]] = Fault.status(403)
        rows = download.fetch_here()
        assert [rows[video].status for video in download.ids] == ["fetched", "failed", "fetched"]
        tube.faults.clear()
        rows = download.fetch_here()
        assert {row.status for row in rows.values()} == {"fetched"}
        row = rows[download.ids[0]]
        size = recordings[LONG].path.stat().st_size
        asked = [each for each in tube.requests if (each.kind, each.id) == ("media", download.ids[0])]
        parts = [re.fullmatch(r"bytes=(\d+)-(\d+)", each.headers.get("Range", "")) for each in asked]
        if ranges:
            assert all(parts), "the whole file was asked for"
            assert sum(int(part[2]) + 1 - int(part[1]) for part in parts) < size / 2
        else:
            assert parts[-1] is None
        assert row.duration_seconds == pytest.approx(10.0, abs=1e-3)
        assert_same_audio(download.store.root / row.path, row, recordings[LONG].path, 600.0)
