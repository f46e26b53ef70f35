"""Object storage as a tier: where copies are, what serves them, how they are placed, and what is kept secret."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.location import from_json
from scripts.common.schema import problems
from scripts.common.serving import reached, served, serving
from scripts.machine import get_ceiling
from scripts.machine.bucket_client import client_of, listed, make_bucket
from scripts.machine.objects import Getter, bucket_of, read_index
from scripts.machine.pacing import Emulated
from scripts.machine.signing import KEY, SECRET, made_up
from scripts.machine.traffic import counted as traffic
from scripts.tiers._objects import servers, upload as uploading
from scripts.tiers._objects.upload import upload
from tests.support import small_disks
from tests.support.object_faults import BUCKET, Faulty, faulty, filled, location_on
from tests.support.programs import PROJECT

S3 = plugins.load("tiers", "s3")
OWN = {"endpoint": "https://storage.example", "bucket": "clips"}
WEED = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_weed = pytest.mark.skipif(WEED is None, reason="SeaweedFS is not installed")


@pytest.fixture
def source(tmp_path):
    """A written format: two splits, whose names need care."""
    folder = tmp_path / "npy"
    for split, items in (("train", 24), ("validation", 3)):
        (folder / split).mkdir(parents=True)
        for number in range(items):
            np.save(folder / split / f"{number:06d}.npy", np.full((1, 500), number, np.float32))
        np.save(folder / split / "target.npy", np.arange(items))
    (folder / "train" / 'it\'s a "ü" +%.bin').write_bytes(b"x")
    (folder / ".a_workflows_own").touch()  # beside the splits: none of the format's
    (folder / "train" / "index.json").write_text('{"of": "the format"}')
    return folder


@contextmanager
def counted(root):
    """Serve a folder and count what is put there."""
    with faulty(root) as server:
        server.puts = Counter()
        put = server.store.put

        def counting(bucket, key, content, *etag):
            server.puts[key] += 1
            return put(bucket, key, content, *etag)

        server.store.put = counting
        yield server


def files_of(source):
    return {str(path.relative_to(source)): path.read_bytes() for path in source.glob("*/*") if path.is_file()}


def whole(server, prefix):
    """Return what is below a prefix."""
    return {one.key.removeprefix(f"{prefix}/"): one.content for one in server.store.listed(BUCKET, f"{prefix}/")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "bucket: found nothing for storage of your own"),
        ({**OWN, "endpoint": "https://me:secret@host"}, "endpoint: found a user's name or password"),
        ({**OWN, "endpoint": "ftp://host"}, "endpoint: found 'ftp://host', allowed is http"),
        ({**OWN, "endpoint": "https://host/path"}, "with a host, and a port"),
        ({**OWN, "serve": "seaweedfs"}, "with serve: seaweedfs, which listens on a port of its own"),
        ({**OWN, "latency_ms": 20}, "is http://"),
    ],
)
def test_options_that_are_no_storage(options, words):
    with pytest.raises(UserError, match=words) as caught:
        S3.check(options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("options", [{"bucket": "My_Bucket"}, {"prefix": "/a"}, {"prefix": "a/"}, {"prefix": "a b"}])
def test_names_that_are_none(options):
    assert len(problems(options, {"properties": S3.OPTIONS})) == 1
    assert problems({**OWN, "prefix": "team/it's"}, {"properties": S3.OPTIONS}) == []


def test_a_location_has_no_folder_of_files_and_is_never_cold():
    S3.check(OWN)
    found = S3.location({**OWN, "prefix": "team", "folder": "local"}, "feedrate-1/demo/npy")
    assert found.uri == "s3://clips/team/feedrate-1/demo/npy" and found.read_by == "s3"
    assert (found.path, found.held_in, found.endpoint) == (None, None, None)
    assert found.local == found.index and found.index.parts[0] == "local"
    for cache in ("cold", "limited"):
        assert found.never(cache) == f"it is never {cache}: {S3.NOT_EVICTED}"
    split = found.split("train")
    assert split.uri.endswith("/demo/npy/train") and split.index == found.index / "train"
    assert from_json(json.loads(json.dumps(split.as_json()))) == split
    assert found.unreadable(("path",)) == "it reads path, and data on this tier is read by s3"


def test_tiers_of_other_emulation_have_places_of_their_own():
    slower = [{}, {"latency_ms": 20}, {"stream_mbps": 90}, {"total_mbps": 90}]
    every = [*({"serve": "seaweedfs", **one} for one in slower), OWN]
    assert len({S3.location(options, "").uri for options in every}) == len(every)
    assert len({S3.location(options, "").index for options in every}) == len(every)
    assert S3.emulated(every[0]) is None
    assert S3.emulated(every[1])["name"] == "latency 20 ms"


def test_a_copy_is_sent_whole_and_verified_with_its_index_and_labels(source, tmp_path):
    with counted(tmp_path / "objects") as server:
        place = location_on(server, "far/npy", tmp_path / "index")
        upload(source, place)
        assert whole(server, "far/npy") == files_of(source)
        for split in ("train", "validation"):
            index = read_index(place.split(split).index)
            names = {name.partition("/")[2] for name in files_of(source) if name.startswith(split)}
            assert set(index.by_key) == names and index.prefix == f"far/npy/{split}" and index.format == "npy"
            kept, written = (folder / "target.npy" for folder in (place.split(split).index, source / split))
            assert kept.read_bytes() == written.read_bytes()
            with Getter(place.split(split)) as getter:
                for one in index.objects:
                    into = bytearray(one.size)
                    getter.read_into(one, into)
                    assert into == (source / split / one.key).read_bytes()
        assert sorted(path.name for path in (tmp_path / "index" / "train").iterdir()) == ["index.json", "target.npy"]
        server.puts.clear()
        upload(source, place)
        assert not server.puts, "nothing is sent twice"


def test_an_earlier_copy_leaves_nothing_behind(source, tmp_path):
    with counted(tmp_path / "objects") as server:
        place = location_on(server, "far/npy", tmp_path / "index")
        upload(source, place)
        (source / "train" / "000023.npy").unlink()
        np.save(source / "train" / "000000.npy", np.ones(3))
        server.puts.clear()
        upload(source, place)
        assert whole(server, "far/npy") == files_of(source)
        assert server.puts == {"far/npy/train/000000.npy": 1}


def test_a_large_file_goes_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(uploading, "LARGEST", 6 << 20)
    monkeypatch.setattr(uploading, "PART", 5 << 20)
    source = tmp_path / "memmap"
    (source / "train").mkdir(parents=True)
    (source / "train" / "audio.npy").write_bytes(os.urandom(12 << 20))
    with counted(tmp_path / "objects") as server:
        place = location_on(server, "far/memmap", tmp_path / "index")
        upload(source, place)
        assert whole(server, "far/memmap") == files_of(source)
        (one,) = read_index(place.index / "train").objects
        assert one.etag.endswith("-3")
        joined = server.store.join
        server.store.join = lambda *_: pytest.fail("sent again")
        upload(source, place)
        server.store.join = joined
        assert not server.uploads, "no part is left"


def test_bytes_that_the_storage_changes_are_found(source, tmp_path):
    with counted(tmp_path / "objects") as server:
        put, place = server.store.put, location_on(server, "far/npy", tmp_path / "index")

        server.store.put = lambda bucket, key, content: put(bucket, key, b"y" * len(content))
        with pytest.raises(UserError, match="with other bytes than were sent"):
            upload(source, place)
        assert not place.index.exists()
        # As storage that encrypts, whose ETags are its own.
        server.store.put = lambda bucket, key, content: put(bucket, key, content, "0" * 32)
        upload(source, place)
        assert read_index(place.index / "train").by_key["target.npy"].etag == "0" * 32


def placing(server, source, folder, *more):
    """Start the program that places."""
    options = {"endpoint": server.endpoint, "bucket": BUCKET, "folder": str(folder)}
    command = [sys.executable, "-m", "scripts.prepare.place_format", "--kind", "s3", "--options", json.dumps(options)]
    command += ["--tier", "far", "--source", str(source), "--copy", "demo/npy", "--record", str(folder / "npy.json")]
    return subprocess.Popen([*command, *more], cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_placing_that_is_killed_at_three_moments_goes_on(source, tmp_path):
    for number in range(100, 160):
        np.save(source / "train" / f"{number:06d}.npy", np.full(number, number))
    count, moments = len(files_of(source)), 3
    folder, arrived = tmp_path / "local", []
    with counted(tmp_path / "objects") as server:
        for moment in range(moments):
            program = placing(server, source, folder)
            wanted = (moment + 1) * count // (moments + 1)
            while sum(server.puts.values()) < wanted and program.poll() is None:
                time.sleep(0.002)
            program.kill()
            program.communicate()
            arrived.append(sum(server.puts.values()))
            assert not list(folder.rglob("index.json")) and not (folder / "npy.json").exists()
        program = placing(server, source, folder)
        output, _ = program.communicate(timeout=60)
        assert program.returncode == 0, output
        assert whole(server, "demo/npy") == files_of(source)
        assert set(server.puts.values()) == {1}, "what is there is not sent again"
        assert arrived[0] < count
        assert len(list(folder.rglob("index.json"))) == 2


def test_secrets_are_in_no_file_no_output_and_no_title(source, tmp_path, monkeypatch):
    titles = []

    def looked(self):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                titles.append(path.read_bytes())
            except OSError:
                continue
        return Faulty.answer(self)

    with counted(tmp_path / "objects") as server:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "planted-token")
        handler = server.RequestHandlerClass
        server.RequestHandlerClass = type("Looking", (handler,), {"answer": looked})
        program = placing(server, source, tmp_path / "local")
        output = program.communicate(timeout=60)[0]
        assert program.returncode == 0, output
        server.RequestHandlerClass = type("Refusing", (handler,), {"answer": Faulty.forbidden})
        program = placing(server, source, tmp_path / "local")
        output += program.communicate(timeout=60)[0]
        assert program.returncode == 2 and "AccessDenied" in output and "AWS_SECRET_ACCESS_KEY" in output
        written = [path.read_bytes() for path in (tmp_path / "local").rglob("*") if path.is_file()]
        assert written and titles
        for place in (output.encode(), *written, *titles):
            assert b"planted" not in place and b"X-Amz-Signature" not in place


def test_a_bucket_lists_page_by_page_in_the_order_of_bytes(tmp_path):
    with faulty(tmp_path) as server:
        keys = sorted((f"k/{number:05d} 'ü\"&<\u2028+%2B" for number in range(2100)), key=str.encode)
        for key in (*keys, "l"):
            server.store.put(BUCKET, key, b"x")
        bucket = bucket_of(location_on(server, "k"))
        with client_of(bucket) as client:
            assert [one.key for one in listed(client, BUCKET, "k/")] == keys


def own_of(server, folder, **emulated):
    """The options of a tier whose storage is that of a server which is there already."""
    return {"endpoint": server.endpoint, "bucket": BUCKET, "folder": str(folder), **emulated}


def test_processes_that_are_told_of_it_find_what_is_served(tmp_path):
    with faulty(tmp_path / "objects") as server:
        place = S3.location(own_of(server, tmp_path / "local", latency_ms=1), "demo/npy")
        with pytest.raises(UserError, match="found no server for it"):
            reached(place)
        with serving([place, place]):
            found = reached(place)
            assert found.endpoint.startswith("http://127.0.0.1:") and found.endpoint != server.endpoint
            with serving([place]):
                assert reached(place) == found, "what is open is used"
            code = "import json, sys; from scripts.common import location, serving;"
            code += "serving.served.update(json.loads(sys.argv[2]));"
            code += "print(serving.reached(location.from_json(json.loads(sys.argv[1]))).endpoint)"
            command = [sys.executable, "-c", code, json.dumps(place.as_json()), json.dumps(served)]
            assert subprocess.check_output(command, cwd=PROJECT, text=True).strip() == found.endpoint
        with pytest.raises(UserError):
            reached(place)
        assert closed(found.endpoint)


def test_storage_of_ones_own_needs_credentials_of_ones_own(monkeypatch, tmp_path):
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv(SECRET, raising=False)
    place = S3.location({**OWN, "folder": str(tmp_path)}, "")
    with pytest.raises(UserError, match="Type `export"), serving([place]):
        pytest.fail("it began")
    with made_up(), pytest.raises(UserError, match="Type `export"), serving([place]):
        pytest.fail("it began with those of a server of ours")
    assert KEY not in os.environ


@pytest.fixture
def user(monkeypatch):
    """Have credentials in the environment, which a server that is started then knows."""
    monkeypatch.setenv(KEY, "a-user")
    monkeypatch.setenv(SECRET, "a-secret")


def kept(endpoint, content):
    """Return whether a server gives back what it is sent."""
    bucket = bucket_of(replace(S3.location({"serve": "seaweedfs"}, ""), endpoint=endpoint, path_style=True))
    with client_of(bucket) as client:
        make_bucket(client, bucket.name)
        client.put_object(Bucket=bucket.name, Key="a", Body=content)
        return client.get_object(Bucket=bucket.name, Key="a")["Body"].read() == content


def closed(endpoint, seconds=10):
    """Return whether nothing listens there any more, after so many seconds at most."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            socket.create_connection((urlsplit(endpoint).hostname, urlsplit(endpoint).port), 1).close()
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.alone
@needs_weed
def test_a_server_ends_with_a_program_that_is_killed(tmp_path):
    code = (
        "import json, sys, time; from scripts.common import plugins, serving;"
        "kind = plugins.load('tiers', 's3'); place = kind.location(json.loads(sys.argv[1]), 'a')\n"
        "with serving.serving([place]):\n    import psutil\n"
        "    found = [one.pid for one in psutil.Process().children(recursive=True)]\n"
        "    print(json.dumps([serving.reached(place).endpoint, found]), flush=True); time.sleep(100)\n"
    )
    options, ports = {"serve": "seaweedfs", "latency_ms": 5, "folder": str(tmp_path)}, []
    for _ in range(2):  # the second start finds what the first has left
        command = [sys.executable, "-c", code, json.dumps(options)]
        program = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        endpoint, started = json.loads(program.stdout.readline())
        assert started and not closed(endpoint, 0)
        program.send_signal(signal.SIGKILL)
        program.communicate()
        assert closed(endpoint)
        deadline = time.monotonic() + 10
        while (left := [pid for pid in started if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left
        ports += [port for note in tmp_path.glob("*/ports") for port in note.read_text().split()]
    place = S3.location(options, "a")
    with serving([place]):  # whoever is not killed leaves no socket, nor those of who was
        pass
    assert not [path for port in ports for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock")]


@pytest.mark.alone
@needs_weed
@pytest.mark.usefixtures("user")
def test_a_port_that_another_program_takes_meanwhile_is_left_to_it(tmp_path, monkeypatch):
    with faulty(tmp_path / "another") as another:  # which refuses what it does not know, as SeaweedFS does
        free, chosen = servers._free_ports, []

        def choose(count):
            chosen.append(free(count))
            if len(chosen) == 1:
                chosen[0][6] = another.server_address[1]
            return chosen[-1]

        monkeypatch.setattr(servers, "_free_ports", choose)
        with servers.seaweedfs(tmp_path / "served") as endpoint:
            assert len(chosen) == 2 and endpoint == f"http://127.0.0.1:{chosen[1][6]}"
            assert kept(endpoint, b"ours")
        assert not another.store.listed(BUCKET, "")
        assert not [path for numbers in chosen for port in numbers for path in Path("/tmp").glob(f"*-{port}.sock")]


@needs_weed
def test_ports_that_are_always_taken_end_with_an_error(tmp_path, monkeypatch):
    with faulty(tmp_path / "another") as another:
        free = servers._free_ports
        monkeypatch.setattr(servers, "_free_ports", lambda count: [another.server_address[1], *free(count - 1)])
        with pytest.raises(UserError, match="did not start"), servers.seaweedfs(tmp_path / "served"):
            pytest.fail("it began")


@pytest.mark.alone
@needs_weed
@pytest.mark.usefixtures("user")
def test_seaweedfs_keeps_what_is_placed_and_checks_signatures_through_the_proxy(source, tmp_path, monkeypatch):
    options = {"serve": "seaweedfs", "latency_ms": 5, "folder": str(tmp_path / "local")}
    place = S3.location(options, "demo/npy")
    S3.place(options, source, place)
    with serving([place]):  # another start
        split = reached(place).split("train")
        stored = read_index(place.index / "train").objects
        with Getter(split) as getter:
            for one in stored:
                into = bytearray(one.size)
                start = time.perf_counter()
                getter.read_into(one, into)
                assert time.perf_counter() - start >= 0.005
                assert into == (source / "train" / one.key).read_bytes()
        monkeypatch.setenv(SECRET, "another")
        with pytest.raises(UserError, match="403 SignatureDoesNotMatch"), Getter(split) as getter:
            getter.read_into(stored[0], bytearray(stored[0].size))


@pytest.mark.alone
@needs_weed
@pytest.mark.usefixtures("user")
def test_seaweedfs_serves_from_a_disk_that_is_almost_full(tmp_path):
    """It takes a disk for full below 1 % unless told: 10 GB of one of 1 TB."""
    disk = tmp_path / "disk"
    with ExitStack() as stack:
        try:
            stack.enter_context(small_disks.on_a_disk(disk, 20_000))
        except small_disks.CannotMount as reason:
            pytest.skip(str(reason))
        with open(disk / "full", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - (100 << 20))
        with servers.seaweedfs(disk / "served") as endpoint:
            assert kept(endpoint, bytes(1000))


def test_latency_and_bandwidth_are_waited_for(tmp_path):
    with faulty(tmp_path / "objects") as server:
        content = os.urandom(400_000)
        (stored,) = filled(server, "p", {"a": content})
        opened = servers.delayed(server.endpoint, Emulated(latency_ms=30, stream_mbps=4), tmp_path)
        with opened as endpoint, Getter(replace(location_on(server, "p"), endpoint=endpoint)) as getter:
            for _ in range(2):
                into, start = bytearray(400_000), time.perf_counter()
                getter.read_into(stored, into)
                assert time.perf_counter() - start >= 0.03 + 0.09
                assert into == content
            deadline = time.monotonic() + 10  # what is sent is counted when it has been
            while traffic([str(tmp_path / servers.TRAFFIC)])[1] < 800_000 and time.monotonic() < deadline:
                time.sleep(0.01)
            requests, sent = traffic([str(tmp_path / servers.TRAFFIC)])
            assert requests == 2 and 800_000 <= sent < 802_000, "the proxy counts heads too"


def test_raw_gets_are_profiled_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(get_ceiling, "ROUNDS", 1)
    monkeypatch.setattr(get_ceiling, "LEAST_SECONDS", 0.05)
    monkeypatch.setattr(get_ceiling, "IN_FLIGHT", (1, 5))
    with faulty(tmp_path / "objects") as server:
        found = S3.profile(own_of(server, tmp_path / "local", latency_ms=1), [3000, 1000], [2], 0.05)
        assert found["kind"] == "objects" and found["reason"] is None and found["emulated"]["latency_ms"] == 1
        reads = found["fio"]["reads"]
        assert [(read["block_bytes"], read["readers"]) for read in reads] == [
            (size, count) for size in (1000, 3000) for count in (1, 2, 5)
        ]
        for read in reads:
            assert read["pattern"] == "get" and read["reads"] > 0 and read["server_cpu_seconds_per_read"] >= 0
            rate = read["reads_per_second"] * read["block_bytes"] / 1e6
            assert read["megabytes_per_second"] == pytest.approx(rate)
        assert found["fio"]["random"]["readers"] == 1 and found["fio"]["random"]["block_bytes"] == 3000
        assert server.store.listed(BUCKET, "") == []
