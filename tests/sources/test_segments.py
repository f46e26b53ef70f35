"""AudioSet's lists, the choice of segments from them, and what the source `audioset` checks before a download."""

import gzip
import json
import random
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yt_dlp

from scripts.common.errors import UserError
from scripts.common.ledger import SourceRequest
from scripts.prepare.arguments import complete_options
from scripts.sources import audioset
from scripts.sources._audioset import client, preflight
from scripts.sources._audioset.segments import (
    CLASSES,
    PUBLISHED,
    Segment,
    check_classes,
    choose,
    read_classes,
    read_segments,
    read_selection,
    read_shard,
    write_shards,
)
from tests.support import loopback_tube
from tests.support.loopback_tube import CLASS_LIST, Fault, Tube, made_ids, made_list, published_list
from tests.support.programs import program_line

recordings = loopback_tube.recordings
tube = loopback_tube.tube


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("FEEDRATE_YT_DLP_OPTIONS", raising=False)


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    return read_classes(CLASS_LIST)


@pytest.fixture(scope="module")
def published(names: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[Segment]:
    path = tmp_path_factory.mktemp("lists") / "eval_segments.csv"
    path.write_text(published_list(), "utf-8")
    return list(read_segments(path, names, PUBLISHED["eval"]))


def options(**given: object) -> dict:
    return complete_options(given, audioset)


class TestPublishedList:
    def test_every_segment_and_class_is_read(self, published: list[Segment], names: dict[str, str]):
        assert len(published) == len({segment.id for segment in published}) == 20_371
        assert len(names) == len(set(names.values())) == CLASSES == 527
        assert {label for segment in published for label in segment.labels} == set(names.values())

    def test_first_row_is_as_it_stands_there(self, published: list[Segment], names: dict[str, str]):
        mids = ("/m/068hy", "/m/07q6cd_", "/m/0bt9lr", "/m/0jbk")
        assert published[0] == Segment("--4gqARaEJE", 0.0, 10.0, tuple(names[mid] for mid in mids))
        assert published[0].name == "--4gqARaEJE_0" and len({segment.name for segment in published}) == 20_371


def lines_changed(change: Callable[[list[str]], object]) -> bytes:
    lines = published_list().splitlines(keepends=True)
    change(lines)
    return "".join(lines).encode()


def row_changed(row: str) -> bytes:
    return lines_changed(lambda lines: lines.__setitem__(100, row + "\n"))


GOOD_ROW = '-good-id___, 30.000, 40.000, "/m/09x0r"'
PAGE = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n<body>\n<p>Sign in</p>\n</body></html>\n"
REFUSED_LISTS = {
    "HTML page": (lambda: PAGE.encode(), "a HTML page"),
    "cut in a row": (lambda: published_list().encode()[:500_003], ""),
    "cut in a quoted field": (lambda: published_list().encode().rpartition(b",")[0], "cannot be read as CSV"),
    "cut at a row's end": (lambda: lines_changed(lambda lines: lines.__delitem__(slice(10_000, None))), "9,997"),
    "a row too many": (lambda: published_list().encode() + GOOD_ROW.encode() + b"\n", "20,372"),
    "wrong column": (lambda: published_list().replace("# YTID", "# VIDEO", 1).encode(), "VIDEO"),
    "no comment lines": (lambda: lines_changed(lambda lines: lines.__delitem__(slice(3))), "--4gqARaEJE"),
    "no count": (lambda: published_list().replace("num_segs=", "segments=", 1).encode(), "segments=20371"),
    "unknown mid": (lambda: row_changed(GOOD_ROW.replace("09x0r", "nothing")), "line 101"),
    "no mid": (lambda: row_changed('-good-id___, 30.000, 40.000, ""'), "line 101"),
    "start after the end": (lambda: row_changed(GOOD_ROW.replace("30.000", "50.000")), "line 101"),
    "start is no number": (lambda: row_changed(GOOD_ROW.replace("30.000", "nan")), "line 101"),
    "id with a slash": (lambda: row_changed(GOOD_ROW.replace("good-id", "go/d-id")), "line 101"),
    "id with dots": (lambda: row_changed(GOOD_ROW.replace("-good-id___", "..")), "line 101"),
    "a field too many": (lambda: row_changed(GOOD_ROW + ", more"), "line 101"),
    "a video twice": (lambda: row_changed(published_list().splitlines()[3]), "--4gqARaEJE a second time"),
    "empty file": (lambda: b"", "''"),
    "not UTF-8": (
        lambda: published_list().encode()[:300_000] + b"\xff\xfe" + published_list().encode()[300_000:],
        "utf-8",
    ),
    "gzip": (lambda: gzip.compress(published_list().encode()), "utf-8"),
    "one row less, header and all": (
        lambda: lines_changed(lambda lines: lines.pop(50)).replace(b"segs=20371", b"segs=20370"),
        "the published list has 20,371",
    ),
}


class TestRefusedLists:
    @pytest.mark.parametrize("kind", REFUSED_LISTS)
    def test_list_that_is_not_right(self, kind: str, tmp_path: Path, names: dict[str, str]):
        make, found = REFUSED_LISTS[kind]
        path = tmp_path / "list.csv"
        path.write_bytes(make())
        with pytest.raises(UserError) as error:
            list(read_segments(path, names, PUBLISHED["eval"]))
        assert str(path) in str(error.value) and found in str(error.value)

    def test_list_of_ones_own_may_have_any_length(self, tmp_path: Path, names: dict[str, str]):
        path = tmp_path / "list.csv"
        path.write_bytes(made_list(made_ids(7)))
        assert [segment.id for segment in read_segments(path, names, None)] == made_ids(7)
        path.write_bytes(made_list(made_ids(7)).replace(b"\n", b"\r\n"))
        assert [segment.id for segment in read_segments(path, names, None)] == made_ids(7)

    def test_own_list_is_held_to_its_own_count(self, tmp_path: Path, names: dict[str, str]):
        path = tmp_path / "list.csv"
        path.write_bytes(made_list(made_ids(7)).replace(b"num_segs=7", b"num_segs=8"))
        with pytest.raises(UserError, match=r"7 .* 8"):
            list(read_segments(path, names, None))

    @pytest.mark.parametrize(
        ("kind", "change", "found"),
        [
            ("526 rows", lambda text: text.rpartition("\n526,")[0] + "\n", "found 526 classes"),
            ("another order", lambda text: re.sub(r"(0,.*\n)(1,.*\n)", r"\2\1", text, count=1), "row 1"),
            ("a row too many", lambda text: text + '527,/m/more,"More"\n', "found 528 classes"),
            ("a mid twice", lambda text: text.replace("/m/05zppz", "/m/09x0r", 1), "found 526 classes"),
            ("other columns", lambda text: text.replace("mid", "id", 1), "index, id, display_name"),
            ("empty file", lambda _: "", "found 0 classes"),
        ],
    )
    def test_class_table_that_is_not_right(self, kind: str, change: Callable[[str], str], found: str, tmp_path: Path):
        path = tmp_path / f"{kind}.csv"
        path.write_text(change((CLASS_LIST).read_text("utf-8")), "utf-8")
        with pytest.raises(UserError) as error:
            read_classes(path)
        assert str(path) in str(error.value) and found in str(error.value)

    def test_class_table_that_is_no_text(self, tmp_path: Path):
        path = tmp_path / "classes.csv"
        path.write_bytes(gzip.compress(CLASS_LIST.read_bytes()))
        with pytest.raises(UserError) as error:
            read_classes(path)
        assert str(path) in str(error.value) and "utf-8" in str(error.value)


class TestChoice:
    @pytest.mark.parametrize("seed", [0, 1, 12345])
    def test_larger_limit_contains_the_smaller_one(self, seed: int, published: list[Segment]):
        everything = choose(published, set(), "all", seed)
        assert sorted(everything) == sorted(published)
        for limit in (1, 2, 10, 255, 256, 257, 5000, 20_371, 10**6):
            assert choose(published, set(), limit, seed) == everything[:limit]

    def test_classes_keep_the_order_and_narrow_the_choice(self, published: list[Segment]):
        wanted = {"Male speech, man speaking", "Dog"}
        chosen = choose(published, wanted, "all", 3)
        assert chosen == [segment for segment in choose(published, set(), "all", 3) if wanted & {*segment.labels}]
        assert 0 < len(chosen) < len(published)

    def test_seed_decides_the_order_and_the_lists_order_does_not(self, published: list[Segment]):
        shuffled = random.Random(0).sample(published, len(published))
        assert choose(shuffled, set(), 100, 7) == choose(published, set(), 100, 7)
        assert choose(published, set(), 100, 7) != choose(published, set(), 100, 8)

    def test_first_ones_are_a_fair_sample(self, published: list[Segment]):
        first = {segment.id for segment in choose(published, set(), 2000, 0)}
        early = sum(segment.id in first for segment in published[: len(published) // 2])
        assert 850 < early < 1150

    def test_classes_by_name_and_by_mid(self, names: dict[str, str]):
        assert check_classes(["Speech", "/m/05zppz"], names) == {"Speech", "Male speech, man speaking"}
        assert check_classes([], names) == set()

    def test_unknown_class_names_the_nearest(self, names: dict[str, str]):
        with pytest.raises(UserError, match=r"classes: found 'Speach'.*Did you mean 'Speech'"):
            check_classes(["Speach"], names)

    @pytest.mark.parametrize("shards", [1, 3, 80])
    def test_shards_hold_every_segment_once(self, shards: int, published: list[Segment], tmp_path: Path):
        chosen = choose(published, set(), 1000, 0)
        write_shards(chosen, shards, tmp_path)
        read = [read_shard(tmp_path, shard) for shard in range(shards)]
        assert [segment for part in read for segment in part] == chosen
        assert max(map(len, read)) - min(map(len, read)) <= 1
        assert read_selection(tmp_path).segments == 1000
        assert len(list(tmp_path.iterdir())) == shards + 1

    def test_selection_is_named_by_what_it_holds(self, published: list[Segment], tmp_path: Path):
        def name(segments: list[Segment], shards: int) -> str:
            write_shards(segments, shards, tmp_path)
            return read_selection(tmp_path).name

        assert name(published[:9], 3) == name(published[:9], 3)
        assert len({name(published[:9], 3), name(published[:9], 2), name(published[:8], 3)}) == 3

    def test_odd_labels_and_times_survive(self, tmp_path: Path):
        segments = [
            Segment("-a", 0.1, 1 / 3, ('quoted "name", with\nmore', "Ünïcode")),
            Segment("b", 1e-3, 9e5, ("c",)),
        ]
        write_shards(segments, 1, tmp_path)
        assert read_shard(tmp_path, 0) == segments


class TestPrepare:
    def request(self, tube: Tube, tmp_path: Path, **given: object) -> SourceRequest:
        chosen = options(**{"lists_url": tube.lists_url, "url": tube.watch_url, **given})
        audioset.check(chosen)
        return SourceRequest(chosen, 10.0, 0, audioset.shards(chosen), tmp_path / "store", tmp_path / "prepared")

    @pytest.fixture(autouse=True)
    def close_clients(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        opened = []

        def open_client(*arguments: object) -> yt_dlp.YoutubeDL:
            opened.append(client.open_client(*arguments))
            return opened[-1]

        monkeypatch.setattr(audioset, "open_client", open_client)
        yield
        for one in opened:
            one.close()

    @pytest.fixture
    def published_tube(self, tube: Tube, monkeypatch: pytest.MonkeyPatch) -> Tube:
        monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**12))
        tube.lists = {"eval_segments.csv": published_list().encode(), CLASS_LIST.name: CLASS_LIST.read_bytes()}
        return tube

    def test_published_list_is_fetched_once_and_split(
        self, published_tube: Tube, tmp_path: Path, capsys: pytest.CaptureFixture, published: list[Segment]
    ):
        request = self.request(published_tube, tmp_path)
        audioset.prepare(request)
        assert request.shards == 80
        read = [read_shard(request.prepared, shard) for shard in range(80)]
        assert sorted(segment for part in read for segment in part) == sorted(published)
        assert "67.9 hours" in capsys.readouterr().out
        audioset.prepare(request)
        assert [asked.method for asked in published_tube.requests if asked.kind == "lists"] == ["GET", "GET"]
        assert {asked.kind for asked in published_tube.requests} == {"lists", "root"}

    def test_page_in_place_of_a_list_is_refused_until_it_is_deleted(self, published_tube: Tube, tmp_path: Path):
        request = self.request(published_tube, tmp_path, limit=5)
        published_tube.faults["lists", "eval_segments.csv"] = [Fault.html()]
        with pytest.raises(UserError) as error:
            audioset.prepare(request)
        assert not request.prepared.exists()
        Path(str(error.value).split(": found")[0]).unlink()
        audioset.prepare(request)
        assert len(read_shard(request.prepared, 0)) == 5

    @pytest.mark.parametrize(
        "fault",
        [Fault.short(100_000), Fault.reset(100_000), Fault.status(404), Fault.status(500)],
        ids=lambda x: x.name,
    )
    def test_list_that_does_not_arrive_leaves_no_file(self, fault: Fault, published_tube: Tube, tmp_path: Path):
        published_tube.faults["lists", "eval_segments.csv"] = fault
        with pytest.raises(UserError, match=r"eval_segments\.csv"):
            audioset.prepare(self.request(published_tube, tmp_path))
        assert not list((tmp_path / "store").rglob("*eval*"))

    def test_own_lists_are_read_where_they_are(self, tube: Tube, tmp_path: Path):
        own = tmp_path / "mine.csv"
        own.write_bytes(made_list(made_ids(300)))
        given = {"list": str(own), "class_labels": str(CLASS_LIST)}
        request = self.request(tube, tmp_path, **given)
        assert request.shards == 2 and audioset.inputs(request.options) == [
            str(CLASS_LIST),
            str(own),
        ]
        audioset.prepare(request)
        assert {segment.id for shard in (0, 1) for segment in read_shard(request.prepared, shard)} == {*made_ids(300)}
        assert {asked.kind for asked in tube.requests} == {"root"}
        assert audioset.count(request) == 150


class TestShards:
    @pytest.fixture(autouse=True)
    def never_opens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a file was opened")

        monkeypatch.setattr("builtins.open", refuse)
        monkeypatch.setattr("io.open", refuse)

    @pytest.mark.parametrize(
        ("given", "shards"),
        [
            ({"list": "eval"}, 80),
            ({"list": "balanced_train"}, 87),
            ({"list": "unbalanced_train"}, 1000),
            ({"list": "eval", "limit": 1}, 1),
            ({"list": "eval", "limit": 257}, 2),
            ({"list": "eval", "limit": 10**7}, 80),
        ],
    )
    def test_published_lists(self, given: dict, shards: int):
        assert audioset.shards(options(**given)) == shards
        assert audioset.inputs(options(**given)) == []

    @pytest.mark.parametrize(("size", "shards"), [(120_000_000, 1000), (1_143_389, 82), (100, 1), (0, 1)])
    def test_own_list_by_its_size(self, size: int, shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(audioset.os, "stat", lambda _: SimpleNamespace(st_size=size))
        assert audioset.shards(options(list=str(tmp_path / "own.csv"))) == shards
        assert audioset.inputs(options(list="~/own.csv"))[0].endswith("/own.csv")
        assert "~" not in audioset.inputs(options(list="~/own.csv"))[0]


class TestCheck:
    def test_defaults_and_a_plain_percent_are_right(self):
        audioset.check(options())
        audioset.check(options(url="https://m.example/100%%/%(id)s.m4a"))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Yield a port at which nobody listens, taken so that nobody else gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


class TestUnreachable:
    def prepare(self, tmp_path: Path, **given: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [
                *(*program_line("prepare_clips"), "--source", "audioset"),
                *("--options", json.dumps(given), "--shards", "1"),
                *("--store", tmp_path / "store", "--out", tmp_path / "out"),
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )

    def test_program_ends_with_the_error_alone(self, closed_port: int, tmp_path: Path):
        root = f"http://127.0.0.1:{closed_port}/"
        done = self.prepare(tmp_path, lists_url=root, url=f"{root}%(id)s")
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: {root}eval_segments.csv")
        assert not (tmp_path / "out").exists()
