"""What loaders do where object storage fails: they deliver every item once, or name the object; no secret is shown."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.location import PATH
from scripts.machine.signing import MADE_UP
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import Placed
from tests.support.made_corpus import make_corpus
from tests.support.object_epochs import epoch_of, objects_of
from tests.support.object_stores import object_store
from tests.support.programs import PROJECT

LOADERS = [
    name for name in can_be_tested("loaders") if getattr(plugins.load("loaders", name), "READS", (PATH,))[0] != PATH
]
BY_CHOICE = {"s3torchconnector": {"dataset": ["map", "iterable"]}, "aistore": {"get": ["object", "batch"]}}
BY_CHOICE = {name: choices for name, choices in BY_CHOICE.items() if name in LOADERS}
UNNAMED = ("s3_mosaic", "s3_litdata", "aistore batch")  # they name a shard, a file, or the first of a batch
PASSING = ("internal", "retry_after", "reset", "truncated", "slow")
LASTING = ("expired", "forbidden", "truncated")
NOT_NOTICED = ("s3torchconnector", "aistore")  # their libraries say nothing of an object but its bytes
CASES = [
    pytest.param(loader, {name: value}, id=f"{loader}-{value}")
    for loader, choices in BY_CHOICE.items()
    for name, values in choices.items()
    for value in values
] + [pytest.param(loader, {}, id=loader) for loader in LOADERS if loader not in BY_CHOICE]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of a few batches."""
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", items=27, seconds=0.064)


@pytest.fixture
def placed(corpus, tmp_path) -> Iterator[Placed]:
    """A bucket for one test."""
    with object_store(tmp_path / "objects") as store:
        yield Placed(corpus, tmp_path / "placed", store)


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize(("loader", "options"), CASES)
def test_what_fails_for_now_is_asked_for_again(corpus, placed, loader, options, fault):
    for key in objects_of(placed, loader):
        placed.store.plant(key, fault)
    assert epoch_of(corpus, placed, loader, options) == []
    assert [placed.store.planted(key) for key in objects_of(placed, loader)] == [""] * len(objects_of(placed, loader))


@pytest.mark.parametrize(("loader", "options"), CASES)
def test_keys_with_blanks_quotes_and_unicode_are_read(corpus, placed, loader, options):
    placed.store.prefix = "bl ank/quo'te\"/ümlaut Ω/plus+and&is=100%"
    assert epoch_of(corpus, placed, loader, options) == []


@pytest.mark.parametrize(("loader", "options"), CASES)
def test_storage_that_is_gone_is_an_error(corpus, placed, loader, options, monkeypatch):
    """Nothing listens there any more; it ends by itself, within the attempts that each library makes."""
    found = placed.location(loader)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setattr(placed, "location", lambda _loader: replace(found, endpoint=nowhere))
    with pytest.raises(Exception) as raised:
        epoch_of(corpus, placed, loader, options)
    assert MADE_UP not in str(raised.value) and "Signature" not in str(raised.value)


def test_a_name_that_nothing_resolves_is_an_error(corpus, placed):
    """DNS is gone: each ends by itself, within the attempts that each library makes, and shows no secret."""
    alone = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("network namespaces may not be made here")
    gone = "http://storage.invalid:9000"
    found = [(*case.values, placed.location(case.values[0])) for case in CASES]
    cases = [
        {"loader": loader, "options": options, "location": replace(one, endpoint=gone).as_json()}
        for loader, options, one in found
    ]
    line = [*alone, sys.executable, "-m", "tests.support.without_names", str(corpus.root), json.dumps(cases)]
    done = subprocess.run(line, cwd=PROJECT, capture_output=True, text=True, timeout=300)
    said = [json.loads(one) for one in done.stdout.splitlines()]
    assert [one["loader"] for one in said] == [loader for loader, _, _ in found], done.stderr[-3000:]
    for one in said:
        assert one["error"] and MADE_UP not in one["error"] and "Signature" not in one["error"], one


@pytest.mark.parametrize(("loader", "options"), CASES)
def test_an_answer_of_another_length_is_asked_for_again_or_named(corpus, placed, loader, options):
    key = objects_of(placed, loader)[-1]
    placed.store.plant(key, "wrong_length")
    try:
        assert epoch_of(corpus, placed, loader, options) == []
    except Exception as error:
        assert unnamed(loader, options) or (isinstance(error, UserError) and key.rpartition("/")[2] in str(error))


@pytest.mark.parametrize("fault", LASTING)
@pytest.mark.parametrize(("loader", "options"), CASES)
def test_what_cannot_be_had_is_an_error_that_names_the_object(corpus, placed, loader, options, fault):
    key = objects_of(placed, loader)[-1]
    placed.store.plant(key, *[fault] * 9999)  # more than all attempts at all parts
    named(corpus, placed, loader, options, key)


@pytest.mark.parametrize(("loader", "options"), CASES)
def test_an_object_that_is_gone_is_named(corpus, placed, loader, options):
    key = objects_of(placed, loader)[-1]
    placed.store.delete(key)
    named(corpus, placed, loader, options, key)


@pytest.mark.parametrize(("loader", "options"), CASES)
def test_an_object_that_has_changed_since_it_was_placed_is_named(corpus, placed, loader, options):
    """Or, where a library does not say which object it has read, the gate says so."""
    key = objects_of(placed, loader)[-1]
    placed.store.replace(key)
    if loader in NOT_NOTICED:
        assert epoch_of(corpus, placed, loader, options)
        return
    text = named(corpus, placed, loader, options, key)
    assert unnamed(loader, options) or "ETag has changed" in text


@pytest.mark.parametrize("damage", ["gone", "cut", "other", "lacks"])
def test_an_index_that_is_not_whole_is_named(corpus, placed, damage):
    index = placed.location("s3_boto3").index / "train" / "index.json"
    text = index.read_text()
    changed = {"cut": text[: len(text) // 2], "other": '{"objects": []}', "lacks": text.replace("000003.npy", "3.npy")}
    index.unlink() if damage == "gone" else index.write_text(changed[damage])
    with pytest.raises(UserError, match=r"index\.json.*([Dd]elete|place|again)"):
        epoch_of(corpus, placed, "s3_boto3", {"fetchers": 0})


def named(corpus, placed, loader, options, key) -> str:
    """Return the error of an epoch, which names the object and shows no secret."""
    with pytest.raises(Exception) as raised:
        epoch_of(corpus, placed, loader, options)
    text = str(raised.value)
    assert MADE_UP not in text and "Signature" not in text
    assert unnamed(loader, options) or (key.rpartition("/")[2] in text and "object" in text)
    return text


def unnamed(loader, options) -> bool:
    """Return whether a library does not say which object an error is of."""
    return loader in UNNAMED or f"{loader} {options.get('get')}" in UNNAMED
