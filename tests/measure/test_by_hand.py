"""`feedrate run`: one loader once, from the loader's name and the data's folder."""

import subprocess

import pytest

from scripts.common.errors import UserError
from scripts.measure import by_hand
from scripts.tables.records import read_record
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, verb_line


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with a corpus and a format of it."""
    folder = tmp_path_factory.mktemp("by_hand")
    corpus = make_corpus(folder / "corpus" / "small", items=40, seconds=0.1)
    write_format(corpus, "memmap", folder / "formats" / "small" / "memmap", readers=1)
    return folder


def run(results, *more):
    command = [*verb_line("run"), "--data", results / "formats" / "small" / "memmap", "--seconds", "0", *more]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)


def test_a_loader_and_its_data_are_enough_and_the_record_is_kept_where_it_is_asked_for(results, tmp_path):
    out = tmp_path / "run.json"
    done = run(results, "--loader", "numpy_memmap", "--step-ms", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    record, lines = read_record(out), done.stdout.splitlines()
    assert (record["status"], record["settings"]["workers"], record["step_ms"]) == ("ok", 0, 1.0)
    assert lines[0].startswith("numpy_memmap (CPU, batch 32, 0 workers") and lines[0].endswith(" items/s")
    assert lines[1].startswith("AU: ") and lines[2].startswith("Verified: each of 30 items")
    assert lines[-1] == f"Record: {out}"


def test_a_loader_that_fails_ends_with_status_1_and_its_reason(results):
    done = run(results, "--loader", "npy")
    assert done.returncode == 1
    assert done.stdout.startswith("npy (CPU, batch 32, 0 workers, gather=batch): failed: FileNotFoundError")


def parsed(*words):
    return by_hand.run_of(by_hand.parser().parse_args(list(map(str, words))))


def test_the_corpus_is_beside_the_formats_or_named(results, tmp_path):
    data = results / "formats" / "small" / "memmap"
    wanted, out = parsed("--loader", "npy", "--data", data)
    assert wanted.corpus == str(results / "corpus" / "small") and out is None
    (tmp_path / "elsewhere").symlink_to(data)
    with pytest.raises(UserError, match="--corpus: found none for --data"):
        parsed("--loader", "npy", "--data", tmp_path / "elsewhere")
    wanted, _ = parsed("--loader", "npy", "--data", tmp_path / "elsewhere", "--corpus", results / "corpus" / "small")
    assert wanted.location["path"] == str(tmp_path / "elsewhere")


@pytest.mark.parametrize(("words", "absent"), [(["--loader", "npy"], "--data"), ([], "--loader, --data")])
def test_what_is_absent_is_named(words, absent):
    with pytest.raises(UserError, match=f"found no {absent}, nor --plan and --result"):
        parsed(*words)


@pytest.mark.parametrize("option", [["--bottlenecks"], ["--timeline"], ["--batch-ms", "5"]])
def test_what_only_a_record_holds_wants_one(results, option):
    data = results / "formats" / "small" / "memmap"
    with pytest.raises(UserError, match=f"{option[0]}: found without --out"):
        by_hand.main(by_hand.parser().parse_args(["--loader", "npy", "--data", str(data), *option]))
