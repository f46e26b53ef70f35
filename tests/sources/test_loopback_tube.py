"""The server that stands for YouTube says what it promises, and yt-dlp reads it."""

import csv
import http.client
import socket
from urllib.parse import urlsplit

import pytest

from scripts.sources._audioset.segments import read_classes, read_segments
from tests.support import loopback_tube
from tests.support.loopback_tube import AUDIOSET, Fault, Tube, made_ids, made_list

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
