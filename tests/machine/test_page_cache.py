"""The page cache: what is put out of it is out, what is in it is counted, and an epoch that is not cold is named."""

import json
import mmap
import os
import shutil
import subprocess

import jsonschema
import numpy as np
import pytest

from scripts.machine import page_cache
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line
from tests.support.workflow_copy import folders

pytestmark = pytest.mark.alone
SCHEMA = json.loads((PROJECT / "docs" / "run.schema.json").read_text())
NOBODY = 65534
# Nobody's right to search folders is for Python itself, which may be in root's home.
ORDINARY = [
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=-all,+dac_read_search"),
]
SIZE = 3_000_001  # no whole number of pages


@pytest.fixture(scope="module")
def places():
    with folders() as found:
        yield found


@pytest.fixture
def files(places):
    """Four files on a disk that are in the page cache."""
    disk, _ = places
    paths = [disk / f"{number}.bin" for number in range(4)]
    for path in paths:
        path.write_bytes(os.urandom(SIZE))
    yield paths
    for path in paths:
        path.unlink()


@pytest.fixture(params=["cachestat", "mincore"])
def method(request, monkeypatch, files):
    """Each way to look at the cache that this kernel has."""
    if request.param == "mincore":
        monkeypatch.setattr(page_cache, "_cachestat", lambda _descriptor: None)
    elif page_cache.residency(files).method != "cachestat":
        pytest.skip("this kernel has no cachestat")
    return request.param


def test_what_is_evicted_is_out_and_what_is_read_is_in(files, method):
    assert page_cache.residency(files) == (4 * SIZE, 4 * SIZE, method)
    page_cache.evict(files)
    assert page_cache.residency(files).resident_bytes == 0
    files[1].read_bytes()
    found = page_cache.residency(files)
    assert found == (SIZE, 4 * SIZE, method)
    assert found.share == 0.25


def test_mapped_pages_stay(files):
    """Which is why a cold epoch has a loader of its own."""
    with open(files[0], "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) > 0
        page_cache.evict(files)
        assert page_cache.residency(files).resident_bytes == SIZE
    page_cache.evict(files)
    assert page_cache.residency(files).resident_bytes == 0


def test_an_empty_file_and_no_file_at_all(tmp_path):
    (tmp_path / "empty").touch()
    assert page_cache.residency(page_cache.files_of(tmp_path))[:2] == (0, 0)
    assert page_cache.residency([]).share == 0


def test_an_epoch_is_cold_where_nearly_all_came_from_the_device(files):
    read = iter([100, 100 + int(3.7 * SIZE), 0, int(3.5 * SIZE)])
    cold = page_cache.ColdCache(files[0].parent, lambda: next(read))
    cold.evict()
    cold.begin()
    assert cold.end() == (0, int(3.7 * SIZE), 4 * SIZE, "")
    files[0].read_bytes()
    cold.begin()
    found = cold.end()
    assert "10.5 of 12.0 MB were read from the device, needed are 90 %" in found.problem
    assert "25 % was in the page cache" in found.problem


def test_a_part_of_an_epoch_is_cold_where_its_share_came_from_the_device_and_nothing_was_there(files):
    read = iter([0, int(1.9 * SIZE), 0, SIZE, 0, 4 * SIZE])
    cold = page_cache.ColdCache(files[0].parent, lambda: next(read))
    cold.evict()
    cold.begin()
    assert cold.end(0.5) == (0, int(1.9 * SIZE), 2 * SIZE, "")
    cold.begin()
    assert "3.0 of 6.0 MB were read" in cold.end(0.5).problem
    files[0].read_bytes()
    cold.begin()
    assert "25 % was in the page cache" in cold.end(0.5).problem, "what was read may be other bytes than were delivered"


def run_loader(folder, loader, data, more=(), cached="cold", user=False):
    """Return the record of a run by hand, cold if nothing else is said; of an ordinary user's with `user`."""
    command = [*program_line("run_loader"), "--loader", loader, "--data", data, "--seconds", "0"]
    command += ["--corpus", folder / "corpus", "--cache", cached, "--out", folder / "run.json", *more]
    if user and os.geteuid() == 0:
        command = [*ORDINARY, *command]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    record = json.loads((folder / "run.json").read_text())
    jsonschema.validate(record, SCHEMA)
    return record


@pytest.fixture(scope="module")
def corpus(places):
    """A corpus of 18 MB and its memory map, on a disk."""
    disk, _ = places
    made = make_corpus(disk / "corpus", items=100, seconds=3, validation=4)
    write_format(made, "memmap", disk / "memmap", 1)
    return made


@pytest.fixture(params=["root", "user"] if os.geteuid() == 0 else ["user"])
def owned(request, places, corpus):  # noqa: ARG001 (the corpus has to be there)
    """(folder with the corpus and its memory map, whether an ordinary user owns it and is to read it)."""
    disk, _ = places
    if request.param == "root":
        return disk, False
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("no setpriv to become an ordinary user with")
    folder = disk / "user"
    if not folder.exists():
        for name in ("corpus", "memmap"):
            shutil.copytree(disk / name, folder / name)
    for path in (folder, *folder.rglob("*")) if os.geteuid() == 0 else ():
        os.chown(path, NOBODY, NOBODY)
    return folder, True


def test_cold_epochs_come_from_the_device_and_warm_ones_from_memory(owned):
    """By the kernel's accounts; as root with two workers, and as an ordinary user without."""
    folder, user = owned
    more = ["--settings", json.dumps({"workers": 0 if user else 2})]
    payload = sum(path.stat().st_size for path in page_cache.files_of(folder / "memmap" / "train"))
    cold = run_loader(folder, "numpy_memmap", folder / "memmap", more, user=user)
    assert (cold["status"], cold["cache"]) == ("ok", "cold"), cold["reason"]
    assert cold["slug"].endswith("-cold")
    epochs = [epoch["cache"] for epoch in cold["times"]["epochs"]]
    assert {(epoch["payload_bytes"], epoch["problem"]) for epoch in epochs} == {(payload, "")}
    assert min(epoch["read_bytes"] for epoch in epochs) >= 0.9 * payload
    assert max(epoch["resident_bytes"] for epoch in epochs) <= 0.1 * payload
    assert not any(warning["code"] == "not-warm" for warning in cold["warnings"])
    assert cold["resources"]["read_bytes"] >= 0.9 * payload * len(epochs)
    assert cold["resources"]["major_faults"] >= len(epochs), "mapped pages that had to be read"
    warm = run_loader(folder, "numpy_memmap", folder / "memmap", more, cached="warm", user=user)
    assert warm["status"] == "ok", warm["reason"]
    assert warm["resources"]["read_bytes"] <= 0.01 * payload * len(warm["times"]["epochs"])


def test_what_comes_from_the_device_is_no_warm_number(places, corpus):  # noqa: ARG001 (the corpus has to be there)
    """As of a loader that reads past the page cache."""
    disk, _ = places
    settings = json.dumps({"workers": 2, "direct": True})
    record = run_loader(disk, "ring", disk / "memmap", ["--settings", settings], cached="warm")
    if "past the page cache" in record["reason"]:
        pytest.skip(record["reason"])
    assert (record["status"], record["items_per_second"]) == ("failed", None)
    assert record["reason"].startswith("not warm: ") and "MB were read from a device" in record["reason"]


def test_a_run_whose_files_somebody_keeps_in_the_cache_has_no_speed(places, corpus):
    disk, _ = places
    assert corpus.counts["train"] == 96
    held = [np.memmap(path, mode="r") for path in page_cache.files_of(disk / "memmap" / "train")]
    assert sum(int(array[::4096].sum()) for array in held) > 0
    record = run_loader(disk, "numpy_memmap", disk / "memmap")
    del held
    assert (record["status"], record["items_per_second"]) == ("failed", None)
    assert record["reason"].startswith("not cold: ") and "was in the page cache" in record["reason"]
