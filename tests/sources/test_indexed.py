"""Data sets that a JSON index names: in a bucket or a folder, with any names, in bounded memory."""

import json
import subprocess
import sys
from bisect import bisect_left, bisect_right

import pytest

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.ledger import SourceRequest
from scripts.machine.signing import KEY, SECRET, credentials_in
from scripts.sources._names import escape
from tests.support.object_faults import BUCKET, faulty, filled
from tests.support.programs import PROJECT, verb_line
from tests.support.s3_store import Entry

INDEXED = plugins.load("sources", "indexed")
ODD = ['a b/it\'s "here".wav', "ü/日本 #1 50%.WAV", "x+y&z=1/<a>?.flac", "top.wav"]


def options_of(**given):
    return {**{name: part.get("default") for name, part in INDEXED.OPTIONS.items()}, **given}


def rows(tmp_path, shards=1, **given):
    options = options_of(**given)
    INDEXED.check(options)
    store = tmp_path / "store"
    requests = [SourceRequest(options, 10.0, shard, shards, store) for shard in range(shards)]
    return [row for request in requests for row in INDEXED.fetch(request)]


def index_of(tmp_path, found):
    path = tmp_path / "index.json"
    path.write_text(json.dumps(found))
    return str(path)


def made(*arguments):
    command = [*verb_line("index"), *map(str, arguments)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path):
    for name in [*ODD, "notes.txt", ".hidden/a.wav", "a b/.b.wav"]:
        path = tmp_path / "audio" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path / "audio"


@pytest.mark.parametrize("form", [list, lambda keys: {"files": list(keys), "about": "others have more"}])
def test_keys_of_a_folder_stay_where_they_are(tmp_path, folder, form):
    index = index_of(tmp_path, form([*ODD, ODD[0], "gone.wav", "../index.json"]))
    found = {row.id: row for row in rows(tmp_path, 3, index=index, folder=str(folder))}
    assert found.keys() == {escape(key) for key in (*ODD, "gone.wav", "../index.json")}
    for key in ODD:
        row = found[escape(key)]
        assert (row.status, row.path, row.cut) == ("fetched", str(folder / key), True)
    assert found[escape(ODD[0])].labels == ["a b"] and found["top.wav"].labels == ["index"]
    assert (found["gone.wav"].status, found["../index.json"].status) == ("unavailable", "failed")


def test_keys_of_a_bucket_are_brought_once(tmp_path):
    with faulty(tmp_path / "objects") as server:
        filled(server, "set", {key: key.encode() for key in ODD})
        keys = [f"set/{key}" for key in (*ODD, "gone.wav")]
        given = {"index": index_of(tmp_path, keys), "bucket": BUCKET, "endpoint": server.endpoint}
        for _ in range(2):
            found = {row.id: row for row in rows(tmp_path, 2, **given)}
            assert found.keys() == {escape(key) for key in keys}
            for key in ODD:
                row = found[escape(f"set/{key}")]
                assert (tmp_path / "store" / row.path).read_bytes() == key.encode() and row.bytes == len(key.encode())
            assert found["set/gone.wav"].status == "unavailable"
            assert all(server.asked[f"set/{key}"] == 1 for key in ODD)
        server.plan = lambda *_: "forbidden"
        given["index"] = index_of(tmp_path, ["set/other.wav"])
        with pytest.raises(UserError, match="found AccessDenied for GetObject"):
            rows(tmp_path, **given)


def test_credentials_of_a_file(tmp_path, monkeypatch):
    own = tmp_path / "credentials"
    own.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n[other]\naws_access_key_id = x\n")
    assert (credentials_in(own).access_key, credentials_in(own).secret_key) == ("a", "b%c")
    as_json = tmp_path / "credentials.json"
    as_json.write_text(json.dumps({KEY: "a", SECRET: "planted-secret", "session_token": "t"}))
    assert credentials_in(as_json).token == "t"
    as_json.write_text(json.dumps({KEY: "planted-key"}))
    for path, profile in ((own, "other"), (own, "third"), (as_json, "default"), (tmp_path / "none", "default")):
        with pytest.raises(UserError, match="credentials: found") as caught:
            credentials_in(path, profile)
        assert "planted" not in str(caught.value)
    with faulty(tmp_path / "objects") as server:
        filled(server, "set", {"a.wav": b"a"})
        for name in (KEY, SECRET):
            monkeypatch.delenv(name)
        given = {"index": index_of(tmp_path, ["set/a.wav"]), "bucket": BUCKET, "endpoint": server.endpoint}
        with pytest.raises(UserError, match="no AWS_ACCESS_KEY_ID"):
            rows(tmp_path, **given)
        assert [row.status for row in rows(tmp_path, **given, credentials=str(own))] == ["fetched"]
        server.asked.clear()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"keys": []}, "found an object with 'keys'"),
        ("text", "found 'text'"),
        (["a", 5], "found 5 as entry 1"),
        ([""], "found '' as entry 0"),
    ],
)
def test_an_index_of_another_form_is_refused(tmp_path, found, words):
    with pytest.raises(UserError, match=words):
        rows(tmp_path, index=index_of(tmp_path, found), folder=str(tmp_path))


def test_a_name_that_is_no_text_is_a_row(tmp_path):
    found = rows(tmp_path, index=index_of(tmp_path, ["a\udcff.wav", "b\ud800.wav"]), folder=str(tmp_path))
    assert [(row.id, row.status) for row in found] == [("a%FF.wav", "failed"), ("b\\ud800.wav", "failed")]


def test_options_that_say_two_places_or_none(tmp_path):
    index = index_of(tmp_path, [])
    for given in ({}, {"folder": str(tmp_path), "bucket": "b"}):
        with pytest.raises(UserError, match="allowed is one of the two"):
            INDEXED.check(options_of(index=index, **given))
    with pytest.raises(UserError, match="which is not a file"):
        INDEXED.check(options_of(index=str(tmp_path / "no.json"), folder=str(tmp_path)))


def test_an_index_of_a_folder_by_ending_and_prefix(tmp_path, folder):
    out = tmp_path / "made.json"
    done = made("--folder", folder, "--endings", ".wav", ".flac", "--out", out)
    assert done.returncode == 0 and "4 keys" in done.stderr
    assert sorted(INDEXED.keys_of(out)) == sorted(ODD)
    assert made("--folder", folder, "--endings", ".wav", "--prefix", "a b/", "--out", out).returncode == 0
    assert INDEXED.keys_of(out) == [ODD[0]]
    out.unlink()
    done = made("--folder", folder, "--endings", ".mp3", "--out", out)
    assert done.returncode == 2 and "found no key" in done.stderr and not out.exists()


def test_an_index_of_40_000_objects_takes_no_more_memory_than_one_of_few(tmp_path):
    """Pages of 1,000 keys are asked for and written; blanks, quotes and letters of any script come through."""
    code = (
        "import resource; from scripts.prepare import make_index as it;"
        "it.main(it.parser().parse_args()); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    with faulty(tmp_path / "objects") as server:
        keys = [f"few/{number:06d}.wav" for number in range(1500)]
        keys += [f'many/{number:06d} it\'s "ü" {"x" * 260}.wav' for number in range(40_000)]

        def listed(_bucket, prefix, after, most):
            first = max(bisect_left(keys, prefix), bisect_right(keys, after))
            return [Entry(key, b"x", "0", 0.0) for key in keys[first : first + most] if key.startswith(prefix)]

        server.store.listed = listed
        kilobytes = {}
        for prefix in ("few/", "many/"):
            place = ["--bucket", BUCKET, "--endpoint", server.endpoint, "--prefix", prefix]
            command = [sys.executable, "-c", code, *place, "--out", str(tmp_path / "made.json")]
            kilobytes[prefix] = int(subprocess.check_output(command, cwd=PROJECT, text=True))
            assert INDEXED.keys_of(tmp_path / "made.json") == [key for key in keys if key.startswith(prefix)]
    assert kilobytes["many/"] < kilobytes["few/"] + 8 * 1024  # the keys take 14 MB as Python's text
