"""Where data is, what it is and who delivers it, and a run as one object."""

import json
import os
import subprocess

import numpy as np
import pytest

from scripts.common import location, plugins, sample
from scripts.common.location import Location
from scripts.common.request import LoaderRequest, Share, epoch_order
from scripts.common.vocabulary import TASKS
from scripts.machine.page_cache import ColdCache
from scripts.measure import tasks
from scripts.plan.experiment import Plan
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line


@pytest.fixture
def raw(tmp_path):
    """A config with a loader on a disk."""
    return {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 24, "seed": 3}},
        "storage": {"disk": {"path": str(tmp_path / "disk")}},
        "loaders": ["npy"],
        "sweep": {"workers": [0], "task": ["read"], "cache": ["warm", "cold"], "device": ["cpu"]},
    }


def test_a_loader_that_reads_folders_gets_no_other_location():
    far = Location("s3://clips/demo/npy", split_name="{split}.tar").split("train")
    assert far.uri == "s3://clips/demo/npy/train.tar"
    request = LoaderRequest(far, 1, sample.audio(100), 3)
    with pytest.raises(ValueError, match=r"train\.tar has no folder of files"):
        assert request.data
    assert ColdCache(far.held_in, lambda: 0).files == []
    assert location.from_json(far.as_json()) == far


def test_a_sample_has_its_bytes_as_delivered_and_as_stored():
    found = sample.audio(160_000)
    assert (found.bytes, found.stored_bytes, found.shape) == (640_000, 320_000, (1, 160_000))
    assert sample.from_json(json.loads(json.dumps(found.as_json()))) == found
    sizes = {name: plugins.load("formats", name).BYTES_PER_ITEM(found) for name in ("memmap", "int16")}
    assert sizes == {"memmap": 640_000, "int16": 320_000}


@pytest.mark.parametrize("world", [1, 3])
def test_shares_are_disjoint_and_complete(world):
    request = LoaderRequest(Location("ram:///"), 20, sample.audio(1), 3, seed=1)
    whole = epoch_order(request, 2)
    shares = [epoch_order(LoaderRequest(**{**vars(request), "share": Share(rank, world)}), 2) for rank in range(world)]
    assert sorted(np.concatenate(shares).tolist()) == sorted(whole.tolist()) == list(range(20))
    assert world > 1 or shares[0].tolist() == whole.tolist()


def test_a_row_of_the_plan_is_what_the_program_takes(tmp_path, raw):
    """By its id; a flag beside it overrides a field."""
    [planned] = [result for result in Plan(raw).results if result.cache == "warm"]
    corpus = make_corpus(tmp_path / "corpus")
    write_format(corpus, "npy", tmp_path / "npy", 1)
    result = json.loads(json.dumps(vars(planned))) | {"corpus": str(corpus.root), "seconds": 0.0}
    result |= {"mode": "epochs", "proof": None}
    there = location.from_json({**planned.location, "path": str(tmp_path / "npy"), "held_in": str(tmp_path / "npy")})
    elsewhere = {**result, "id": "elsewhere", "location": {**there.as_json(), "path": None}}
    rows = [{**result, "location": there.as_json()}, elsewhere]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(Plan(raw).as_json() | {"results": rows}))
    command = [*program_line("run_loader"), "--plan", plan]
    more = ["--result", result["id"], "--out", tmp_path / "run.json"]
    subprocess.run([*command, *more], check=True, capture_output=True)
    record = json.loads((tmp_path / "run.json").read_text())
    assert (record["status"], record["reason"]) == ("ok", None)
    keys = ("slug", "settings", "loader", "tier", "format", "task", "cache", "repeat", "dataset")
    assert {key: record[key] for key in keys} == {key: result[key] for key in keys}
    assert record["location"] == there.uri
    more = ["--result", "elsewhere", "--seed", "5", "--out", tmp_path / "other.json"]
    subprocess.run([*command, *more], check=True, capture_output=True)
    record = json.loads((tmp_path / "other.json").read_text())
    assert (record["status"], record["seed"]) == ("skipped", 5)
    assert record["reason"] == "it reads path, and data on this tier is read by file"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--plan", "plan.json", "--result", "disk/npy/cpu"], "Did you mean 'disk/npy/cpu-b32"),
        (["--plan", "no-such-plan.json", "--result", "x"], "no-such-plan.json"),
        (["--plan", "plan.json"], "--result"),
        (["--loader", "npy"], "--data, --out"),
    ],
)
def test_a_row_that_is_none_is_told(tmp_path, raw, options, said):
    (tmp_path / "plan.json").write_text(json.dumps(Plan(raw).as_json()))
    command = [*program_line("run_loader"), *options]
    here = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=here)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_every_task_has_its_words_and_its_file():
    files = [path.stem for path in (PROJECT / "scripts" / "measure" / "tasks").glob("[!_]*.py")]
    assert sorted(files) == sorted(TASKS)
    for name in files:
        assert hasattr(tasks.load(name), "sink") != hasattr(tasks.load(name), "times")
        assert (tasks.load(name).__doc__ or "").strip()
