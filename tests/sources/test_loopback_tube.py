"""The server that stands for YouTube says what it promises, and yt-dlp reads it."""

import csv
import http.client
import json
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yt_dlp
from yt_dlp.utils import DownloadError, ExtractorError, GeoRestrictedError

from scripts.sources._audioset.segments import read_classes, read_segments
from tests.support import loopback_tube
from tests.support.loopback_tube import AUDIOSET, LONG, Fault, Recording, Tube, made_ids, made_list

recordings = loopback_tube.recordings
tube = loopback_tube.tube

DASHED = "-_-4gqARaEJ"
GONE = "-abcdefghij"


def connect(tube: Tube, timeout: float = 10.0) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(tube.root_url).netloc, timeout=timeout)


def ask(tube: Tube, target: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = connect(tube)
    try:
        connection.request(method, target, headers=headers)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


class Silent:
    """Takes what yt-dlp says."""

    def debug(self, message: str) -> None:
        pass

    warning = error = debug


def extract(address: str, video_id: str, folder: Path | None = None) -> dict:
    options = {
        "format": "bestaudio/best",
        "outtmpl": f"{folder}/%(id)s.%(ext)s",
        "logger": Silent(),
        "cachedir": False,
        "proxy": "",
    }
    with yt_dlp.YoutubeDL(options) as downloader:
        return downloader.extract_info(address % {"id": video_id}, download=folder is not None)


def test_pool_is_real_audio_of_many_kinds(recordings: dict[str, Recording]):
    assert len({(each.ext, each.acodec) for each in recordings.values()}) >= 8
    assert all(each.path.stat().st_size > 50_000 for each in recordings.values())
    assert recordings[LONG].seconds == 900


def test_ids_have_their_recording(tube: Tube):
    ids = made_ids(200)
    chosen = [tube.recording_of(each) for each in ids]
    assert chosen == [tube.recording_of(each) for each in ids]
    assert set(chosen) == set(tube.pool.values()) - {tube.pool[LONG]}
    tube.recordings[ids[0]] = LONG
    assert tube.recording_of(ids[0]).seconds == 900


def test_media_comes_whole_and_by_range(tube: Tube):
    whole = tube.recording_of(DASHED).path.read_bytes()
    for kind in ("media", "audio"):
        response, body = ask(tube, f"/{kind}/{DASHED}")
        assert (response.status, body) == (200, whole)
        assert response.headers["Content-Type"] == tube.recording_of(DASHED).mime
        assert response.headers["Accept-Ranges"] == "bytes"
        response, body = ask(tube, f"/{kind}/{DASHED}", "HEAD")
        assert (response.headers["Content-Length"], body) == (str(len(whole)), b"")


@pytest.mark.parametrize(
    "wanted, cut",
    [("bytes=5-9", slice(5, 10)), ("bytes=1000-", slice(1000, None)), ("bytes=-7", slice(-7, None))],
)
def test_range_gives_206(tube: Tube, wanted: str, cut: slice):
    whole = tube.bytes_of(DASHED)
    first, last, _ = cut.indices(len(whole))
    response, body = ask(tube, f"/media/{DASHED}", Range=wanted)
    assert (response.status, body) == (206, whole[cut])
    assert response.headers["Content-Range"] == f"bytes {first}-{last - 1}/{len(whole)}"


def test_range_outside_gives_416_and_no_ranges_gives_all(tube: Tube, recordings: dict[str, Recording]):
    assert ask(tube, f"/media/{DASHED}", Range="bytes=99999999-")[0].status == 416
    with Tube(recordings, ranges=False) as plain:
        response, body = ask(plain, f"/media/{DASHED}", Range="bytes=5-9")
        assert (response.status, body) == (200, plain.bytes_of(DASHED))
        assert "Accept-Ranges" not in response.headers


def test_requests_are_noted(tube: Tube):
    before = time.time()
    connection = connect(tube)
    for method, target in (("HEAD", "/"), ("GET", f"/watch?v={DASHED}"), ("GET", f"/media/{DASHED}?q=low")):
        connection.request(method, target, headers={"X-Test": "yes"})
        connection.getresponse().read()
    connection.close()
    assert [(each.method, each.kind, each.id) for each in tube.requests] == [
        ("HEAD", "root", ""),
        ("GET", "watch", DASHED),
        ("GET", "media", DASHED),
    ]
    assert before <= tube.requests[0].seconds <= time.time()
    assert tube.requests[2].headers["X-Test"] == "yes"
    assert (tube.count(DASHED, "media"), tube.count(DASHED, "audio"), tube.count("", "root")) == (1, 0, 0)
    tube.clear()
    assert tube.requests == []


@pytest.mark.parametrize("target", ["/lists/no.csv", "/media/short", "/watch?v=a/b", "/watch", "/media", "/else"])
def test_unknown_places_give_404(tube: Tube, target: str):
    assert ask(tube, target)[0].status == 404


def test_lists_are_served(tube: Tube):
    tube.lists["eval_segments.csv"] = made_list([DASHED])
    assert ask(tube, "/lists/eval_segments.csv")[1] == tube.lists["eval_segments.csv"]
    assert tube.count("eval_segments.csv", "lists") == 1


def test_faults_of_a_list_are_used_up_by_gets(tube: Tube):
    tube.faults["media", GONE] = [Fault.status(500), Fault.status(429, {"Retry-After": "3"}, b"wait")]
    assert ask(tube, f"/media/{GONE}", "HEAD")[0].status == 500
    assert ask(tube, f"/media/{GONE}")[0].status == 500
    response, body = ask(tube, f"/media/{GONE}")
    assert (response.status, response.headers["Retry-After"], body) == (429, "3", b"wait")
    assert [ask(tube, f"/media/{GONE}")[0].status for _ in range(2)] == [200, 200]
    tube.faults["media", GONE] = Fault.status(403)
    assert [ask(tube, f"/media/{GONE}")[0].status for _ in range(3)] == [403] * 3
    assert ask(tube, f"/audio/{GONE}")[0].status == 200


def read_until_it_breaks(tube: Tube) -> tuple[int, bytes, type[Exception] | None]:
    """Return the announced length, what came, and the error that ended it, in a plain socket's words."""
    with socket.create_connection(("127.0.0.1", urlsplit(tube.root_url).port), timeout=10) as link:
        link.sendall(f"GET /media/{GONE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got, broken = b"", None
        try:
            while piece := link.recv(65536):
                got += piece
        except OSError as error:
            broken = type(error)
    head, _, body = got.partition(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: "))
    return int(length.split()[1]), body, broken


@pytest.mark.parametrize("count", [0, 1, 40_000])
def test_reset_and_short_end_early(tube: Tube, count: int):
    whole = tube.bytes_of(GONE)
    tube.faults["media", GONE] = [Fault.reset(count), Fault.short(count)]
    assert read_until_it_breaks(tube) == (len(whole), whole[:count], ConnectionResetError)
    assert read_until_it_breaks(tube) == (len(whole), whole[:count], None)


def test_trickle_sends_single_bytes(tube: Tube):
    tube.faults["media", GONE] = Fault.trickle(50)
    connection = connect(tube)
    connection.request("GET", f"/media/{GONE}")
    response = connection.getresponse()
    assert response.headers["Content-Length"] == str(len(tube.bytes_of(GONE)))
    assert response.read(3) == tube.bytes_of(GONE)[:3]
    connection.close()
    response.close()


def test_slow_waits_first(tube: Tube):
    tube.faults["media", GONE] = [Fault.slow(600), Fault.slow(0.01)]  # the first until the server closes
    connection = connect(tube, timeout=0.05)
    connection.request("GET", f"/media/{GONE}")
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    assert ask(tube, f"/media/{GONE}")[1] == tube.bytes_of(GONE)


@pytest.mark.parametrize(
    "fault, status, content_type, start",
    [
        (Fault.html(), 200, "text/html; charset=utf-8", b"<!DOCTYPE html>"),
        (Fault.html(503, "audio/webm", "<html>no"), 503, "audio/webm", b"<html>no"),
        (Fault.empty(), 200, None, b""),
    ],
)
def test_other_bodies(tube: Tube, fault: Fault, status: int, content_type: str | None, start: bytes):
    tube.faults["media", GONE] = fault
    response, body = ask(tube, f"/media/{GONE}")
    assert response.status == status
    assert response.headers["Content-Type"] == (content_type or tube.recording_of(GONE).mime)
    assert int(response.headers["Content-Length"]) == len(body)
    assert body.startswith(start) if start else body == b""


def test_truncated_and_garbage(tube: Tube):
    whole = tube.bytes_of(GONE)
    tube.faults["media", GONE] = [Fault.truncated(0.25), Fault.garbage(1000), Fault.garbage(1000)]
    response, body = ask(tube, f"/media/{GONE}")
    assert (response.headers["Content-Length"], body) == (str(len(whole) // 4), whole[: len(whole) // 4])
    first, second = ask(tube, f"/media/{GONE}")[1], ask(tube, f"/media/{GONE}")[1]
    assert len(first) == 1000 and first == second and not whole.startswith(first[:8])


def test_redirect_loop_and_hostile_name(tube: Tube):
    target = f"/media/{GONE}?q=low"
    tube.faults["media", GONE] = [Fault.redirect_loop(), Fault.hostile_name("../../Ω.sh")]
    response, _ = ask(tube, target)
    assert (response.status, response.headers["Location"]) == (302, target)
    response, body = ask(tube, target)
    said = response.headers["Content-Disposition"].encode("latin-1").decode()
    assert (said, body) == ('attachment; filename="../../Ω.sh"', tube.bytes_of(GONE))


def test_watch_page_names_formats_or_the_reason(tube: Tube):
    page = json.loads(ask(tube, f"/watch?v={DASHED}&list=x")[1])
    assert (page["id"], page["playability"]["status"]) == (DASHED, "OK")
    assert page["duration"] == tube.recording_of(DASHED).seconds
    assert [ask(tube, each["url"])[1] for each in page["formats"]] == [tube.bytes_of(DASHED)] * 2
    tube.faults["watch", DASHED] = Fault.unplayable("ERROR", "Video unavailable")
    page = json.loads(ask(tube, f"/watch?v={DASHED}")[1])
    assert page["playability"]["reason"] == "Video unavailable" and page["formats"] == []


def test_closing_ends_slow_answers(recordings: dict[str, Recording]):
    with Tube(recordings) as closing:
        closing.faults["media", GONE] = Fault.trickle(0.01)
        connection = connect(closing)
        connection.request("GET", f"/media/{GONE}")
        response = connection.getresponse()
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    connection.close()


def test_plug_in_takes_the_better_format(tube: Tube, tmp_path: Path):
    info = extract(tube.watch_url, DASHED, tmp_path)
    assert (info["extractor"], info["id"], info["abr"], info["vcodec"]) == ("LoopbackTube", DASHED, 128, "none")
    assert [each.target for each in tube.requests] == [f"/watch?v={DASHED}", f"/media/{DASHED}"]
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == tube.bytes_of(DASHED)


@pytest.mark.parametrize(
    "fault, kind, said",
    [
        (Fault.unplayable("ERROR", "Video unavailable", "Removed"), ExtractorError, "Video unavailable. Removed"),
        (Fault.unplayable("LOGIN_REQUIRED", "Sign in to confirm your age"), ExtractorError, "Use --cookies"),
        (
            Fault.unplayable(
                "UNPLAYABLE", "Video unavailable", "The uploader has not made this video available in your country"
            ),
            GeoRestrictedError,
            "not made this video available in your country",
        ),
        (Fault.unplayable("ERROR", None), ExtractorError, "No video formats found"),
    ],
)
def test_unplayable_video_raises_its_reason(tube: Tube, fault: Fault, kind: type[ExtractorError], said: str):
    tube.faults["watch", GONE] = fault
    with pytest.raises(DownloadError, match=said) as raised:
        extract(tube.watch_url, GONE)
    assert raised.value.exc_info[0] is kind
    assert tube.count(GONE, "watch") == 1 and tube.count(GONE, "media") == 0


def test_direct_link_downloads_the_same_bytes(tube: Tube, tmp_path: Path):
    info = extract(tube.mirror_url, DASHED, tmp_path)
    assert (info["extractor"], tube.count(DASHED, "audio")) == ("generic", 2)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == tube.bytes_of(DASHED)


def test_made_ids_trip_naive_readers():
    ids = made_ids(1000, seed=5)
    assert len(set(ids)) == 1000 and all(loopback_tube.ID.fullmatch(each) for each in ids)
    assert ids == made_ids(1000, seed=5) != made_ids(1000, seed=6) and made_ids(7, seed=5) == ids[:7]
    assert sum(each.startswith("-") for each in ids) >= 200
    for same in ({"0": "O"}, {"I": "l"}, {"1": "l"}, {"_": "-"}):
        assert len({each.translate(str.maketrans(same)) for each in ids}) <= 900
    assert len({each.lower() for each in ids}) <= 900


def test_made_list_has_the_form_of_the_true_one():
    ids = made_ids(30)
    text = made_list(ids, seconds=2.5, start=lambda each: float(ids.index(each))).decode()
    lines = text.splitlines()
    assert (lines[0], lines[2]) == tuple((AUDIOSET / "eval_segments.csv").read_text().splitlines()[:3:2])
    rows = list(csv.reader(lines[3:], skipinitialspace=True))
    assert [row[:3] for row in rows] == [[each, f"{n}.000", f"{n + 2.5:.3f}"] for n, each in enumerate(ids)]
    labels = [label for row in rows for label in row[3].split(",")]
    counts = f"num_unique_labels={len(set(labels))}, num_positive_labels={len(labels)}"
    assert lines[1] == f"# num_ytids=30, num_segs=30, {counts}"
    assert lines[3].startswith(f'{ids[0]}, 0.000, 2.500, "/')
    assert made_list(ids) == made_list(ids) and b", 3.000, 13.000, " in made_list(ids, start=3)


def test_the_excerpt_of_the_list_is_whole_and_true():
    """It is read as any list of the user's own; where the true list is there, its rows are rows of that."""
    excerpt = AUDIOSET / "eval_segments.csv"
    segments = list(read_segments(excerpt, read_classes(loopback_tube.CLASS_LIST), None))
    assert len(segments) == 299 and sum(segment.id.startswith("-") for segment in segments) == 13
    assert sum(segment.stop_seconds - segment.start_seconds < 10 for segment in segments) == 6
    assert set(excerpt.read_text().splitlines()[2:]) <= set(loopback_tube.published_list().splitlines())
    assert "CC BY 4.0" in (AUDIOSET / "LICENCE.md").read_text()
