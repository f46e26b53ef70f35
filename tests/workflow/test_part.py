"""Data measured in two steps: a part of its items with every loader, then the fastest of these with all of them."""

import csv
import json
import subprocess
import sys

import pytest

from scripts.common.files import read_json
from scripts.measure.choose_whole import LEAST_LOADERS
from scripts.tables.columns import read_tables
from tests.support.workflow_copy import ProjectCopy, folders, rules_of

LOADERS = ["soundfile", "npy", "numpy_memmap", "ring", "webdataset", "hdf5"]


@pytest.fixture(scope="module")
def project():
    """The experiment, run."""
    with folders() as (disk, ram):
        copy = ProjectCopy(disk / "project", ram, loaders=LOADERS)
        copy.configure(
            datasets={"demo": {"source": "synthetic", "clips": 60, "seed": 3}},
            storage={"disk": copy.config["storage"]["disk"]},
            sweep={**copy.config["sweep"], "task": ["read", "train"], "cache": ["warm", "cold"]},
            measure={**copy.config["measure"], "part": 24, "cold": "leaders", "trainings": "leaders"},
            report={"now": "soundfile"},
        )
        copy.snakemake()
        yield copy


def results(project):
    return project.root / "results"


def test_each_loader_is_measured_with_a_part_and_those_near_the_fastest_with_all_items(project):
    chosen = read_json(results(project) / "runs" / "demo" / "whole.json")
    tables = read_tables(results(project) / "tables" / "demo")
    rows = [row for row in tables["ranking"] if row["task"] == "read" and row["cache"] == "warm"]
    part = {row["loader"]: row for row in rows if row["size"] == "part"}
    whole = {row["loader"]: row for row in rows if row["size"] == "whole" and row["items_per_second"]}
    assert part.keys() == set(LOADERS) and all(row["items_per_second"] for row in part.values())
    assert "soundfile" in whole and whole.keys() == {one.split("/")[1] for one in chosen["results"]}
    ordered = sorted(part, key=lambda name: -part[name]["items_per_second"])
    fastest = part[ordered[0]]["items_per_second"]
    near = {name for name, row in part.items() if 2 * row["items_per_second"] >= fastest} | {*ordered[:LEAST_LOADERS]}
    assert near - {"soundfile"} == whole.keys() - {"soundfile"}
    (answer,) = tables["verdict"]["answers"]
    assert answer["scenario"] == "CPU" and answer["choice"].split("/")[0] in whole
    assert not answer["lost"], "what a part of the items ruled out is not lost"


def test_trainings_are_of_the_part_and_cold_caches_of_all_items(project):
    rows = read_tables(results(project) / "tables" / "demo")["ranking"]
    measured = {(row["task"], row["cache"], row["size"]) for row in rows if row["items_per_second"]}
    expected = {
        ("read", "warm", "part"),
        ("train", "warm", "part"),
        ("read", "warm", "whole"),
        ("read", "cold", "whole"),
    }
    assert measured == expected


def test_records_say_how_many_items_they_are_of(project):
    found = {}
    for file in results(project).glob("runs/demo/sessions/*/*/*/*/result.json"):
        record = read_json(file)
        found.setdefault("part" if record["slug"].endswith("-part") else "whole", set()).add(record["items"])
    with open(results(project) / "corpus" / "demo" / "manifest.csv", encoding="utf-8", newline="") as manifest:
        train = sum(row["split"] == "train" for row in csv.DictReader(manifest))
    assert found["whole"] == {train} and max(found["part"]) < 24 < train


def test_nothing_is_written_twice_and_what_is_of_a_part_is_given_back(project):
    formats = results(project) / "formats" / "demo"
    assert [path.name for path in (formats / "part").iterdir() if path.is_dir()] == []
    assert {path.stem for path in (formats / "part").glob("*.json")} == {"wav", "npy", "memmap", "webdataset", "hdf5"}
    placed = results(project) / "placed"
    for file in (path for path in formats.rglob("*") if path.is_file() and path.parent.name == "train"):
        assert file.stat().st_nlink >= 2, f"{file}: its copy on the same disk is another file"
    assert not list(placed.glob("feedrate-*/demo/part/*"))


def test_nothing_is_left_to_do_and_a_loader_by_itself_needs_no_part(project):
    assert project.planned() == []
    chosen = read_json(results(project) / "runs" / "demo" / "whole.json")
    other = next(name for name in LOADERS if f"/{name}/" not in json.dumps(chosen["results"]))
    (project.root / "results" / f"{other}.json").unlink()
    found = rules_of(project.planned(f"results/{other}.json"))
    assert found["measure_session"] == 1 and not {"write_part_format", "choose_whole"} & found.keys()
    said = project.call(f"results/{other}.json", "-n").output
    assert "to measure" in said and "results are there" not in said, said


def test_what_is_freed_is_not_made_again(project):
    """Last, since it removes what the other tests look at."""
    project.snakemake()
    words = [sys.executable, "-m", "scripts.feedrate", "free", "--dataset", "demo"]
    said = subprocess.run(words, cwd=project.root, capture_output=True, text=True, check=True)
    assert "removed formats and copies" in said.stdout
    assert not [
        path for path in (results(project) / "formats" / "demo").rglob("*") if path.is_file() and path.suffix != ".json"
    ]
    assert project.planned() == []
