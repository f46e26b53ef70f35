"""What `feedrate free` removes, and what it leaves."""

import argparse
import json
import os
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.plan import free


def asked(*words: str) -> argparse.Namespace:
    return free.parser().parse_args(words)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project with results of two data sets, and copies of one on two tiers, one of them linked."""
    monkeypatch.chdir(tmp_path)
    for dataset in ("demo", "mine"):
        for folder in (
            f"formats/{dataset}/npy",
            f"formats/{dataset}/part/wav",
            f"corpus/{dataset}/shards",
            f"runs/{dataset}",
        ):
            Path("results", folder).mkdir(parents=True)
        Path("results", "corpus", dataset, "manifest.csv").write_text("index\n")
        Path("results", "formats", dataset, "npy.json").write_text("{}")
        Path("results", "formats", dataset, "npy", "0.npy").write_bytes(bytes(100_000))
        Path("results", "corpus", dataset, "shards", "0.wav").write_bytes(bytes(50_000))
    for tier in ("disk", "other"):
        copy = tmp_path / tier / "feedrate-12345678" / "demo" / "npy"
        copy.mkdir(parents=True)
        record = Path("results", "placed", "demo", tier, "npy.json")
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({"uri": copy.as_uri()}))
    os.link("results/formats/demo/npy/0.npy", tmp_path / "disk/feedrate-12345678/demo/npy/0.npy")
    (tmp_path / "other/feedrate-12345678/demo/npy/0.npy").write_bytes(bytes(100_000))
    return tmp_path


def files(project: Path, dataset: str) -> set[str]:
    found = (path for path in project.rglob("*") if path.is_file() and dataset in path.parts)
    return {str(path.relative_to(project)) for path in found}


def test_formats_and_copies_go_and_records_corpus_and_other_data_stay(project, capsys):
    other = files(project, "mine")
    free.main(asked("--dataset", "demo"))
    assert files(project, "mine") == other
    assert files(project, "demo") == {
        "results/corpus/demo/manifest.csv",
        "results/corpus/demo/shards/0.wav",
        "results/formats/demo/npy.json",
        "results/placed/demo/disk/npy.json",
        "results/placed/demo/other/npy.json",
    }
    assert "removed formats and copies, 4 folders" in capsys.readouterr().out
    free.main(asked("--dataset", "demo", "--corpus"))
    assert "results/corpus/demo/shards/0.wav" not in files(project, "demo")
    assert "results/corpus/demo/manifest.csv" in files(project, "demo")


def test_without_a_data_set_nothing_goes_and_sizes_are_listed(project, capsys):
    before = files(project, "demo") | files(project, "mine")
    free.main(asked())
    assert files(project, "demo") | files(project, "mine") == before
    listed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in listed[:2]] == ["demo", "mine"]


@pytest.mark.usefixtures("project")
def test_a_file_with_two_names_counts_once():
    places = free.places("demo")[free.DATA]
    alone = free.size_of([path for path in places if "other" in path.parts])
    assert free.size_of(places) == 2 * alone > 0


@pytest.mark.usefixtures("project")
def test_a_copy_elsewhere_than_in_a_folder_of_ours_stays(tmp_path):
    mine = tmp_path / "precious" / "demo"
    mine.mkdir(parents=True)
    Path("results/placed/demo/disk/npy.json").write_text(json.dumps({"uri": mine.as_uri()}))
    free.main(asked("--dataset", "demo"))
    assert mine.is_dir()


@pytest.mark.usefixtures("project")
def test_an_unknown_data_set_is_refused():
    with pytest.raises(UserError, match="found 'dem', allowed are demo, mine"):
        free.main(asked("--dataset", "dem"))
