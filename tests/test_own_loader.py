"""A loader in a file of the user's own: the documented example, its place in the plan, and errors shown as theirs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import own_epochs
import own_loader
from errors import UserError
from files import read_json
from loader_cases import write_format
from made_corpus import make_corpus
from plan import Plan

PROJECT = Path(__file__).resolve().parent.parent
PAGE = (PROJECT / "docs" / "own_loader.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"<!-- file: mine.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
WHOLE = '''"""A whole loader."""
from contextlib import contextmanager
import torch
from loaders import numpy_memmap
FORMAT = "memmap"
SETTINGS = ("workers", "prefetch")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "clip"}}

@contextmanager
def open_epochs(request):
    with numpy_memmap.open_epochs(request) as epoch:
        yield epoch
'''


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """A corpus and two formats of it."""
    folder = tmp_path_factory.mktemp("own")
    corpus = make_corpus(folder / "corpus", clips=40, seconds=0.1)
    for name in ("wav", "memmap"):
        write_format(corpus, name, folder / name, readers=1)
    return folder


def run(placed, tmp_path, text, name="mine", data="wav", **settings) -> dict:
    """Return the record of one run of a file with this text."""
    (tmp_path / "mine.py").write_text(text)
    command = [sys.executable, PROJECT / "scripts" / "run_loader.py", "--loader", name, "--file", tmp_path / "mine.py"]
    command += ["--data", placed / data, "--corpus", placed / "corpus", "--out", tmp_path / "run.json"]
    command += ["--settings", json.dumps(settings), "--seconds", "0.1", "--explain"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return read_json(tmp_path / "run.json")


@pytest.mark.parametrize("workers", [0, 2])
def test_the_documented_dataset_is_measured(placed, tmp_path, workers):
    record = run(placed, tmp_path, EXAMPLE, workers=workers)
    assert record["status"] == "ok", record["reason"]
    assert record["verification"]["ok"] and record["clips_per_second"] > 0
    assert record["slug"] == ("cpu-b32-w2-p2" if workers else "cpu-b32-w0")
    assert set(record["explained"]["without"]) >= {"read", "everything"}


def test_the_documented_example_is_some_ten_lines():
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 14


def test_a_whole_loader_is_measured(placed, tmp_path):
    record = run(placed, tmp_path, WHOLE, data="memmap")
    assert record["status"] == "ok", record["reason"]
    assert record["settings"]["gather"] == "clip" and record["settings"]["pin_memory"] is None


BROKEN = [
    ("    return MyDataset(request.data)", "    return MyDataset(request.date)", 0, "AttributeError", "request.date)"),
    ("[index], dtype", "[index + 1000], dtype", 0, "IndexError", "self.files[index + 1000]"),
    ("[index], dtype", "[index + 1000], dtype", 2, "IndexError", "self.files[index + 1000]"),
    ("import soundfile\n", "import soundfiles\n", 0, "ModuleNotFoundError", "import soundfiles"),
]


@pytest.mark.parametrize(("right", "wrong", "workers", "error", "line"), BROKEN)
def test_an_error_is_shown_with_the_users_line(placed, tmp_path, right, wrong, workers, error, line):
    text = EXAMPLE.replace(right, wrong)
    assert text != EXAMPLE
    record = run(placed, tmp_path, text, workers=workers)
    number = next(at for at, one in enumerate(text.splitlines(), start=1) if line in one)
    assert record["status"] == "failed" and record["clips_per_second"] is None
    assert record["reason"].startswith(error)
    assert f"(mine.py, line {number}: " in record["reason"] and line in record["reason"]


def test_wrong_data_gets_no_number(placed, tmp_path):
    record = run(placed, tmp_path, EXAMPLE.replace('dtype="float32")[0]', 'dtype="float32")[0] * 0.5'))
    assert record["status"] == "failed" and record["reason"].startswith("verification: ")


def config(entry) -> dict:
    raw = yaml.safe_load((PROJECT / "config.yaml").read_text())
    return {**raw, "dataset": "demo", "loaders": ["numpy_memmap", entry]}


def test_the_plan_holds_it(tmp_path):
    """The file is not run for that: it may import what is not installed here."""
    (tmp_path / "mine.py").write_text("import no_such_library\n" + EXAMPLE)
    entry = {"name": "mine", "file": str(tmp_path / "mine.py"), "workers": [0, 1]}
    plan = Plan(config(entry))
    assert {run.slug for run in plan.runs if run.loader == "mine" and run.task == "traverse"} == {
        "cpu-b32-w0",
        "cpu-b32-w1-p2",
    }
    assert plan.code("mine") == str(tmp_path / "mine.py") == plan.own_file("mine")
    assert plan.code("numpy_memmap") == "scripts/loaders/numpy_memmap.py" and plan.own_file("numpy_memmap") is None
    assert "wav" in plan.formats


WRONG = [
    ({"file": "nowhere.py"}, EXAMPLE, "is no file"),
    ({"name": "ring"}, EXAMPLE, "loader of feedrate's own"),
    ({}, EXAMPLE.replace('"wav"', '"wave"'), "Did you mean 'wav'"),
    ({}, EXAMPLE.replace('FORMAT = "wav"', ""), "FORMAT: found nothing"),
    ({}, EXAMPLE.replace("def dataset", "def data"), "has no open_epochs and no dataset"),
    ({}, EXAMPLE.replace("(Dataset):", "(Dataset)"), "mine.py, line 9: class MyDataset(Dataset)"),
    ({}, EXAMPLE + "SETTINGS = tuple(dir())\n", "allowed is a plain value"),
    ({"gather": ["clip"]}, EXAMPLE, "found an unknown key"),
    ({"name": "mi ne"}, EXAMPLE, "mi ne"),
]


@pytest.mark.parametrize(("changes", "text", "said"), WRONG)
def test_says_what_is_wrong_before_anything_runs(tmp_path, changes, text, said):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UserError, match=re.escape(said)) as error:
        Plan(config({"name": "mine", "file": str(tmp_path / "mine.py"), **changes}))
    assert "loaders[1]" in str(error.value)


def test_a_line_that_is_not_the_users_is_not_named(tmp_path):
    (tmp_path / "mine.py").write_text(EXAMPLE)
    module = own_loader.declared("mine", str(tmp_path / "mine.py"))
    assert own_epochs.users_line(ValueError("elsewhere"), module) == ""
