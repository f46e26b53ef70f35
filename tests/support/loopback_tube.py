"""A server on loopback that stands for YouTube: real audio made by FFmpeg, every request noted, faults at will.

`yt_dlp_plugins` beside this file holds the yt-dlp extractor that reads its watch pages; yt-dlp finds it since this
folder is put on `sys.path`. The fixtures `recordings` and `tube` are to be imported by the tests that use them.
"""

import csv
import fcntl
import functools
import hashlib
import io
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.support.programs import PROJECT

sys.path.append(str(Path(__file__).parent))
AUDIOSET = PROJECT / "tests" / "data" / "audioset"
CLASS_LIST = AUDIOSET / "class_labels_indices.csv"
LONG = "webm-opus-long"  # served only for ids that `Tube.recordings` names
ID_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ID = re.compile(r"[0-9A-Za-z_-]{11}")
RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class Recording(NamedTuple):
    """One file of the pool."""

    path: Path
    ext: str
    acodec: str
    seconds: float
    mime: str


class _Recipe(NamedTuple):
    name: str
    ext: str
    acodec: str
    seconds: int
    mime: str
    encode: str  # FFmpeg's options
    rate: int = 48_000


_FRAGMENTED = "-movflags +frag_keyframe+empty_moov+default_base_moof -frag_duration 1000000"
_RECIPES = (
    _Recipe("webm-opus", "webm", "opus", 40, "audio/webm", "-c:a libopus -b:a 96k"),
    _Recipe("m4a-fragmented", "m4a", "mp4a.40.2", 60, "audio/mp4", f"-c:a aac -b:a 96k {_FRAGMENTED}", 44_100),
    _Recipe("m4a", "m4a", "mp4a.40.2", 45, "audio/mp4", "-c:a aac -b:a 96k -movflags +faststart", 44_100),
    _Recipe("mp3", "mp3", "mp3", 30, "audio/mpeg", "-c:a libmp3lame -b:a 96k", 44_100),
    _Recipe("flac", "flac", "flac", 25, "audio/flac", "-c:a flac", 22_050),
    _Recipe("ogg-vorbis", "ogg", "vorbis", 35, "audio/ogg", "-c:a libvorbis -q:a 2", 44_100),
    _Recipe("ogg-opus", "opus", "opus", 20, "audio/ogg", "-c:a libopus -b:a 64k"),
    _Recipe("wav", "wav", "pcm_s16le", 15, "audio/wav", "-c:a pcm_s16le", 22_050),
    _Recipe("mp4-video", "mp4", "mp4a.40.2", 30, "video/mp4", "-c:v mpeg4 -c:a aac -b:a 96k -shortest", 44_100),
    _Recipe(LONG, "webm", "opus", 900, "audio/webm", "-c:a libopus -b:a 24k -compression_level 0 -ac 1", 16_000),
)


def make_recordings(folder: Path) -> dict[str, Recording]:
    """Return the pool by name, its files written into `folder`: filtered noise and a tone that rises 2 Hz a second.

    The same bytes every time with the same FFmpeg. All are stereo, the right channel half as loud, but for the long
    one, which is mono. Raises CalledProcessError where FFmpeg lacks an encoder.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(functools.partial(_encode, folder), _RECIPES)
        return dict(zip((recipe.name for recipe in _RECIPES), made, strict=True))


def _encode(folder: Path, recipe: _Recipe) -> Recording:
    path = _recording(folder, recipe).path
    sound = f"s={recipe.rate}:d={recipe.seconds}"
    sources = [
        f"aevalsrc=0.2*sin(2*PI*(200+t)*t):{sound}",
        f"anoisesrc=c=pink:a=0.3:r={recipe.rate}:d={recipe.seconds}:s=7",
    ]
    if recipe.name == "mp4-video":
        sources.append(f"color=black:s=32x32:r=5:d={recipe.seconds}")
    mixed = "[1]lowpass=f=3000[noise];[0][noise]amix=2,pan=stereo|c0=c0|c1=0.5*c0"
    inputs = (word for source in sources for word in ("-f", "lavfi", "-i", source))
    exact = "-fflags +bitexact -flags:a +bitexact -flags:v +bitexact -map_metadata -1 -threads 1"
    subprocess.run(
        [
            "ffmpeg",
            "-v",
            "error",
            "-y",
            *inputs,
            "-filter_complex",
            mixed,
            *recipe.encode.split(),
            *exact.split(),
            path,
        ],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return _recording(folder, recipe)


def _recording(folder: Path, recipe: _Recipe) -> Recording:
    path = folder / f"{recipe.name}.{recipe.ext}"
    return Recording(path, recipe.ext, recipe.acodec, float(recipe.seconds), recipe.mime)


class Asked(NamedTuple):
    """One request that the server got."""

    seconds: float  # of time.time()
    method: str
    kind: str  # root, watch, media, audio, lists, or other for a path that is none of them
    id: str  # of the video, or the list's name; empty for root
    headers: dict[str, str]
    target: str  # path and query as they were asked for


@dataclass(frozen=True)
class Answer:
    """What the server is about to say to a request for `target`."""

    target: str
    code: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Fault:
    """What goes wrong with an answer; made by the methods below."""

    name: str
    change: Callable[[Answer], Answer] = field(default=lambda answer: answer, repr=False)
    wait_seconds: float = 0.0
    sent_bytes: int | None = None  # the connection ends after so many of the body
    resets: bool = False  # it ends by RST
    bytes_per_second: float | None = None

    @classmethod
    def status(cls, code: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> "Fault":
        """Return an answer of this status, such as 429 with `{"Retry-After": "1"}`."""
        said = {"Content-Type": "text/plain", **(headers or {})}
        return cls(f"status {code}", lambda answer: replace(answer, code=code, headers=said, body=body))

    @classmethod
    def reset(cls, after_bytes: int) -> "Fault":
        """Return the right headers, so many bytes, and an RST once the client's side has them."""
        return cls("reset", sent_bytes=after_bytes, resets=True)

    @classmethod
    def trickle(cls, bytes_per_second: float) -> "Fault":
        """Return the right headers and then a byte at a time until the client goes."""
        return cls("trickle", bytes_per_second=bytes_per_second)

    @classmethod
    def short(cls, sent_bytes: int) -> "Fault":
        """Return the right Content-Length, so many bytes, and a connection closed in order."""
        return cls("short", sent_bytes=sent_bytes)

    @classmethod
    def truncated(cls, fraction: float) -> "Fault":
        """Return the first `fraction` of the file as if it were all: its own header announces more."""
        return cls("truncated", lambda answer: replace(answer, body=answer.body[: int(len(answer.body) * fraction)]))

    @classmethod
    def html(
        cls,
        status: int = 200,
        content_type: str = "text/html; charset=utf-8",
        text: str = "<!DOCTYPE html><html><head><title>Sorry</title></head><body>Sorry.</body></html>",
    ) -> "Fault":
        """Return a page in place of the audio; `content_type` may be."""
        said = {"Content-Type": content_type}
        return cls("html", lambda answer: replace(answer, code=status, headers=said, body=text.encode()))

    @classmethod
    def empty(cls) -> "Fault":
        """Return 200 and no byte."""
        return cls("empty", lambda answer: replace(answer, body=b""))

    @classmethod
    def redirect_loop(cls) -> "Fault":
        """Return a redirection to the very same address."""
        return cls(
            "redirect_loop",
            lambda answer: replace(answer, code=302, headers={"Location": answer.target}, body=b""),
        )

    @classmethod
    def hostile_name(cls, name: str = "../../x") -> "Fault":
        """Return the right bytes with a file name that leads elsewhere; `name` goes out as UTF-8, unescaped."""
        disposition = f'attachment; filename="{name}"'.encode().decode("latin-1")
        return cls(
            "hostile_name",
            lambda answer: replace(answer, headers={**answer.headers, "Content-Disposition": disposition}),
        )

    @classmethod
    def unplayable(cls, status: str, reason: str | None, subreason: str | None = None) -> "Fault":
        """Return a watch page with this playability and no formats, such as ERROR and "Video unavailable".

        YouTube puts a restriction to countries into the `subreason`: "The uploader has not made this video available
        in your country".
        """
        playability = {"status": status, "reason": reason, "subreason": subreason}

        def change(answer: Answer) -> Answer:
            page = {**json.loads(answer.body), "playability": playability, "formats": []}
            return replace(answer, body=json.dumps(page).encode())

        return cls(f"unplayable {status}", change)

    @classmethod
    def slow(cls, seconds: float) -> "Fault":
        """Return the right answer after so long."""
        return cls("slow", wait_seconds=seconds)

    @classmethod
    def held(cls, until: threading.Event) -> "Fault":
        """Return the right answer once that is so: whoever asks waits as long as a test needs, on any machine."""

        def change(answer: Answer) -> Answer:
            until.wait()
            return answer

        return cls("held", change)

    @classmethod
    def garbage(cls, count: int) -> "Fault":
        """Return so many random bytes, the same ones every time, under the audio's Content-Type."""
        return cls("garbage", lambda answer: replace(answer, body=random.Random(0).randbytes(count)))


class Tube:
    """The server, which runs inside `with`.

    `recordings` names the recording of single ids, `lists` holds the metadata lists by name, and `faults` what goes
    wrong by (kind, id), or by ("lists", name) and ("root", ""): a lone fault every time, a list's faults one per GET
    and then no more. A HEAD meets the fault that the next GET would, and uses none up. Without `ranges` the server
    answers a Range with 200 and all bytes.
    """

    def __init__(self, recordings: Mapping[str, Recording], ranges: bool = True) -> None:
        self.ranges = ranges
        self.pool = dict(recordings)
        self.recordings: dict[str, str] = {}
        self.lists: dict[str, bytes] = {}
        self.faults: dict[tuple[str, str], Fault | list[Fault]] = {}
        self.requests: list[Asked] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.root_url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self.watch_url = f"{self.root_url}watch?v=%(id)s"
        self.mirror_url = f"{self.root_url}audio/%(id)s"
        self.lists_url = f"{self.root_url}lists/"

    def __enter__(self) -> "Tube":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.close_connections()

    def recording_of(self, video_id: str) -> Recording:
        """Return the recording that `recordings` names for the id, else one chosen by its hash, never the long one."""
        if name := self.recordings.get(video_id):
            return self.pool[name]
        names = sorted(name for name in self.pool if name != LONG)
        return self.pool[names[int.from_bytes(hashlib.sha256(video_id.encode()).digest()[:8]) % len(names)]]

    def bytes_of(self, video_id: str) -> bytes:
        """Return the file that a download of the id should give."""
        return _read(self.recording_of(video_id).path)

    def count(self, video_id: str, kind: str) -> int:
        """Return how many GET requests of this kind came for the id."""
        with self._lock:
            return sum(asked[1:4] == ("GET", kind, video_id) for asked in self.requests)

    def clear(self) -> None:
        """Forget the requests so far."""
        with self._lock:
            self.requests.clear()

    def note(self, asked: Asked) -> Fault | None:
        """Record a request and return the fault that meets it."""
        with self._lock:
            self.requests.append(asked)
            fault = self.faults.get((asked.kind, asked.id))
            if not isinstance(fault, list):
                return fault
            if not fault:
                return None
            return fault.pop(0) if asked.method == "GET" else fault[0]

    def answer(self, target: str, kind: str, name: str) -> Answer:
        """Return what a request gets where nothing goes wrong."""
        answer = Answer(target, 200, {"Content-Type": "text/plain"}, b"")
        if kind == "root":
            return replace(answer, body=b"feedrate's loopback tube\n")
        if kind == "lists" and name in self.lists:
            return replace(answer, headers={"Content-Type": "text/csv"}, body=self.lists[name])
        if kind in ("watch", "media", "audio") and ID.fullmatch(name):
            if kind == "watch":
                page = json.dumps(self._page(name)).encode()
                return replace(answer, headers={"Content-Type": "application/json"}, body=page)
            return replace(answer, headers={"Content-Type": self.recording_of(name).mime}, body=self.bytes_of(name))
        return replace(answer, code=404)

    def _page(self, video_id: str) -> dict:
        recording = self.recording_of(video_id)
        url = f"{self.root_url}media/{video_id}"
        sound = {"ext": recording.ext, "acodec": recording.acodec}
        return {
            "id": video_id,
            "title": f"Recording {video_id}",
            "duration": recording.seconds,
            "playability": {"status": "OK", "reason": None},
            "formats": [{"url": url, **sound, "abr": 128}, {"url": f"{url}?q=low", **sound, "abr": 48}],
        }


@functools.cache
def _read(path: Path) -> bytes:
    return path.read_bytes()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, tube: Tube) -> None:
        self.tube = tube
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: socket.socket, client_address: tuple) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        with suppress(ConnectionError):  # clients leave when they like
            super().handle()

    def do_GET(self) -> None:
        tube = self.server.tube
        kind, name = _place(self.path)
        fault = tube.note(Asked(time.time(), self.command, kind, name, dict(self.headers), self.path)) or Fault("none")
        tube.closing.wait(fault.wait_seconds)
        answer = fault.change(tube.answer(self.path, kind, name))
        if kind in ("media", "audio") and answer.code == 200 and tube.ranges:
            answer = _within(answer, self.headers.get("Range"))
        self._send_headers(answer)
        if self.command == "GET":
            self._send_body(answer.body, fault)

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _send_headers(self, answer: Answer) -> None:
        self.send_response(answer.code)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_body(self, body: bytes, fault: Fault) -> None:
        if fault.bytes_per_second:
            for index in range(len(body)):
                if self.server.tube.closing.wait(1 / fault.bytes_per_second):
                    break
                self.wfile.write(body[index : index + 1])
            self.close_connection = True
            return
        self.wfile.write(body[: fault.sent_bytes])
        if fault.sent_bytes is not None:
            self.close_connection = True
        if fault.resets:
            self._reset()

    def _reset(self) -> None:
        """Close by RST, once the other side's kernel has all that was written: an RST overtakes what has not gone."""
        for _ in range(1000):
            (waiting,) = struct.unpack("i", fcntl.ioctl(self.connection, termios.TIOCOUTQ, bytes(4)))
            if not waiting:
                break
            time.sleep(0.001)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())  # socket.close() would wait for the handler's files, after a FIN


def _place(target: str) -> tuple[str, str]:
    """Return the kind of a path and the id or name in it."""
    parts = urlsplit(target)
    if parts.path == "/":
        return "root", ""
    if parts.path == "/watch":
        return "watch", parse_qs(parts.query).get("v", [""])[0]
    kind, _, name = parts.path[1:].partition("/")
    return (kind if kind in ("media", "audio", "lists") else "other"), unquote(name)


def _within(answer: Answer, wanted: str | None) -> Answer:
    """Return the answer cut to one byte range, 416 where it is outside, all of it where none is asked for."""
    answer = replace(answer, headers={**answer.headers, "Accept-Ranges": "bytes"})
    found = RANGE.fullmatch(wanted or "")
    if not found or not any(found.groups()):
        return answer
    first, last = found.groups()
    size = len(answer.body)
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start > end:
        return replace(answer, code=416, headers={"Content-Range": f"bytes */{size}"}, body=b"")
    headers = {**answer.headers, "Content-Range": f"bytes {start}-{end}/{size}"}
    return replace(answer, code=206, headers=headers, body=answer.body[start : end + 1])


def made_ids(count: int, seed: int = 0) -> list[str]:
    """Return `count` different ids, the same for a seed; a smaller count gives the first of a larger one's.

    At least a fifth begin with a dash. Of every ten, six look alike: they differ by case, O and 0, l, I and 1, - and _.
    """
    source = random.Random(seed)
    ids: dict[str, None] = {}
    while len(ids) < count:
        stem = f"-{_drawn(source, 3)}Ol{_drawn(source, 3)}-{_drawn(source, 1)}"
        swaps = (("O", "0"), ("l", "I"), ("l", "1"), ("-", "_"))
        alike = [stem, stem.swapcase(), *(stem.replace(old, new) for old, new in swaps)]
        ids.update(dict.fromkeys([*alike, *(_drawn(source, 11) for _ in range(4))]))
    return list(ids)[:count]


def _drawn(source: random.Random, count: int) -> str:
    return "".join(source.choices(ID_CHARACTERS, k=count))


def made_list(ids: Iterable[str], seconds: float = 10.0, start: Callable[[str], float] | float = 0.0) -> bytes:
    """Return a segments list in AudioSet's form: one row per id, from its start on for `seconds`.

    Each id has one to four labels of AudioSet's class list, the same ones every time.
    """
    classes = _classes()
    rows, labels = [], []
    for video_id in ids:
        source = random.Random(video_id)
        chosen = source.sample(classes, source.randint(1, 4))
        first = start(video_id) if callable(start) else start
        rows.append(f'{video_id}, {first:.3f}, {first + seconds:.3f}, "{",".join(chosen)}"\n')
        labels += chosen
    header = (
        "# Segments csv created Sun Mar  5 10:54:25 2017\n"
        f"# num_ytids={len(rows)}, num_segs={len(rows)}, num_unique_labels={len(set(labels))}, "
        f"num_positive_labels={len(labels)}\n"
        "# YTID, start_seconds, end_seconds, positive_labels\n"
    )
    return "".join([header, *rows]).encode("ascii")


@functools.cache
def published_list() -> str:
    """Return a text of the form and the length of AudioSet's list of evaluation segments, which begins as that does."""
    first, _, columns, *rows = (AUDIOSET / "eval_segments.csv").read_text(encoding="utf-8").splitlines()
    taken = {row.partition(",")[0] for row in rows}
    ids = [video_id for video_id in made_ids(20_371) if video_id not in taken][: 20_371 - len(rows)]
    rows += made_list(ids, start=30.0).decode().splitlines()[3:]
    counts = "# num_ytids=20371, num_segs=20371, num_unique_labels=527, num_positive_labels=51804"
    return "\n".join([first, counts, columns, *rows]) + "\n"


@functools.cache
def _classes() -> list[str]:
    return [row["mid"] for row in csv.DictReader(io.StringIO(CLASS_LIST.read_text(encoding="utf-8")))]


@functools.cache
def _recordings_below(base: Path) -> dict[str, Recording]:
    """Return the pool of one run of pytest, made by whoever needs it first.

    Every module that imports the fixture has a fixture of its own, and every process of pytest-xdist too.
    """
    folder, partial = base / "recordings", base / "recordings.partial"
    with open(base / "recordings.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial.mkdir()
            make_recordings(partial)
            partial.rename(folder)
    return {recipe.name: _recording(folder, recipe) for recipe in _RECIPES}


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> dict[str, Recording]:
    """Return the pool, made once."""
    base = tmp_path_factory.getbasetemp()
    return _recordings_below(base.parent if hasattr(pytestconfig, "workerinput") else base)


@pytest.fixture
def tube(recordings: dict[str, Recording]) -> Iterator[Tube]:
    """Yield a server that runs."""
    with Tube(recordings) as running:
        yield running
