"""Reads of objects: exactly the bytes that were placed, or an error that says what to do; faults are planted."""

import hashlib
import os
import threading
import time
from dataclasses import replace

import pytest

from scripts.common.errors import UserError
from scripts.machine import objects, signing
from scripts.machine.objects import Bucket, Getter, read_index
from scripts.machine.signing import Credentials
from tests.support.object_faults import BUCKET, faulty, filled, location_on

PREFIX = "far/demo/npy/train"


@pytest.fixture
def server(tmp_path):
    with faulty(tmp_path / "objects") as server:
        yield server


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(objects, "BACKOFF_SECONDS", 0.001)


def contents(count=12, size=5000):
    return {f"{number:06d}.npy": os.urandom(size + number) for number in range(count)}


def read_all(server, stored, wanted, **options):
    """Read every object by two connections and compare what came."""
    location, found, problems = location_on(server, PREFIX), {}, []

    def read(part):
        try:
            with Getter(location, **options) as getter:
                for one in part:
                    into = bytearray(one.size)
                    getter.read_into(one, into)
                    assert one.key not in found
                    found[one.key] = bytes(into)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read, args=(stored[half::2],)) for half in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a read hangs"
    if problems:
        raise problems[0]
    assert found == wanted


def test_objects_and_parts_of_them(server):
    wanted = contents() | {'it\'s a "ü" & <b>+%41/#?.npy': b"abc" * 999}
    stored = filled(server, PREFIX, wanted)
    read_all(server, stored, wanted)
    with Getter(location_on(server, PREFIX)) as getter:
        part = memoryview(bytearray(100))
        getter.read_into(stored[3], part[10:60], start=4000)
        assert bytes(part[10:60]) == wanted["000003.npy"][4000:4050]
        assert not any(part[:10]) and not any(part[60:])
        getter.read_into(stored[3], bytearray(0))


@pytest.mark.parametrize("fault", ["internal", "slow_down", "reset", "truncated", "wrong_length"])
def test_what_is_for_now_is_asked_for_again(server, fault):
    wanted = contents()
    stored = filled(server, PREFIX, wanted)
    server.plan = lambda _, number: fault if number < 2 else None
    read_all(server, stored, wanted)
    assert set(server.asked.values()) == {3}


def test_the_server_says_how_long_to_wait(server):
    wanted = contents(1)
    stored = filled(server, PREFIX, wanted)
    server.plan = lambda _, number: "retry_after" if number == 0 else None
    start = time.monotonic()
    read_all(server, stored, wanted)
    assert time.monotonic() - start >= 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("internal", "status 500 InternalError, after 3 attempts"),
        ("reset", "after 3 attempts"),
        ("truncated", "a body that ends after 2,500 of 5,000 bytes"),
        ("wrong_length", "an answer of 4990 bytes instead of 5000"),
        ("silent", "no answer in time"),
        ("dribble", "bytes came in time"),
    ],
)
def test_what_does_not_pass_ends_with_its_name(server, monkeypatch, fault, words):
    monkeypatch.setattr(objects, "LEAST_BYTES_PER_SECOND", 50_000)
    stored = filled(server, PREFIX, contents(1))
    server.silence = 0.5
    server.plan = lambda *_: fault
    with pytest.raises(UserError, match=words):
        read_all(server, stored, {}, timeout=0.2, attempts=3)


@pytest.mark.parametrize(
    ("fault", "words"),
    [("forbidden", "403 AccessDenied.*AWS_ACCESS_KEY_ID"), ("expired", "have expired: get new ones")],
)
def test_who_may_not_read_is_told_at_once(server, fault, words):
    wanted = contents()
    stored = filled(server, PREFIX, wanted)
    server.plan = lambda key, _: fault if key.endswith("000006.npy") else None
    with pytest.raises(UserError, match=words) as caught:
        read_all(server, stored, wanted)
    assert server.asked[f"{PREFIX}/000006.npy"] == 1
    assert "planted" not in str(caught.value) and "Signature" not in str(caught.value)


def test_a_stale_object_is_refused_by_name(server):
    stored = filled(server, PREFIX, contents())
    filled(server, PREFIX, {"000004.npy": b"x" * 5004})
    with pytest.raises(UserError, match=r"000004\.npy.*found another object than the placed one"):
        read_all(server, stored, {})


def test_an_object_that_is_gone(server):
    stored = filled(server, PREFIX, contents(1))
    server.store.delete(BUCKET, f"{PREFIX}/000000.npy")
    with pytest.raises(UserError, match=r"404 NoSuchKey.*place the format again"):
        read_all(server, stored, {})


def test_a_host_without_an_address_and_a_port_without_a_server(server):
    stored = filled(server, PREFIX, contents(1))
    for endpoint, words in (("http://nowhere.invalid", "no address of the host"), ("http://127.0.0.1:9", "refused")):
        place = replace(location_on(server, PREFIX), endpoint=endpoint)
        with pytest.raises(UserError, match=words), Getter(place, timeout=1, attempts=2) as getter:
            getter.read_into(stored[0], bytearray(5000))


def test_no_credentials(server, monkeypatch):
    monkeypatch.delenv(signing.SECRET)
    with pytest.raises(UserError, match="no AWS_SECRET_ACCESS_KEY in the environment"):
        Getter(location_on(server, PREFIX))


def test_the_index_is_read_back(server, tmp_path):
    wanted = contents(3)
    filled(server, PREFIX, wanted, tmp_path / "train")
    index = read_index(tmp_path / "train")
    assert (index.bucket, index.prefix, index.region, index.path_style) == (BUCKET, PREFIX, "us-east-1", True)
    assert {one.key: one.sha256 for one in index.objects} == {
        key: hashlib.sha256(content).hexdigest() for key, content in wanted.items()
    }
    assert index.by_key["000001.npy"].size == 5001
    with pytest.raises(UserError, match=r"found no index\.json"):
        read_index(tmp_path)


def test_a_key_is_signed_once_while_its_signature_is_valid(monkeypatch):
    who = Credentials("AKIDEXAMPLE", "a-secret/+", "a/token+==")
    bucket = Bucket("items", "https://storage.example:9000", "eu-west-3", False, who)
    now = time.time()
    monkeypatch.setattr(objects.time, "time", lambda: now)
    first = bucket.target("GET", "a b/ü+.npy")
    assert first.startswith("/a%20b/%C3%BC%2B.npy?") and bucket.host == "items.storage.example:9000"
    assert bucket.target("GET", "a b/ü+.npy") is first
    now += signing.VALID_SECONDS
    assert bucket.target("GET", "a b/ü+.npy") is not first
    assert replace(bucket, endpoint="https://Storage.example:443").host == "items.storage.example", "as it is signed"
    assert "a-secret" not in first + repr(who) and "a/token" not in repr(who)
