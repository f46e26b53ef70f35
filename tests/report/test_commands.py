"""Commands that are printed: typed as they stand, each plans the same session but for the change that it is for."""

import re
import shlex

import pytest
import yaml
from snakemake.cli import parse_config

from scripts.common.files import read_json
from scripts.common.given import kept_options, merged
from scripts.plan import print_plan
from scripts.plan.planning import Built
from scripts.report import charts
from scripts.report.commands import command, lengthened
from scripts.report.not_measured import not_measured
from tests.support.made_runs import Made, tables_of
from tests.support.programs import PROJECT

INVOCATIONS = {
    "a preset": ["--config", "dataset=demo", "preset=quick"],
    "fewer clips": ["--config", "dataset=demo", "preset=quick", "datasets={demo: {clips: 256, seed: 3}}"],
    "lists": [*("--cores", "2", "--config", "dataset=demo", "loaders=[npy, ring]"), "sweep={workers: [0, 2]}"],
    "settings of each": ["--config", "dataset=demo", "loaders=[{name: npy, workers: [2]}, {name: ring, workers: [1]}]"],
    "quotes": ["--config", "dataset=demo", "preset=quick", 'storage={disk: {path: "$TMP/a b\'s \\"c\\""}, ram: null}'],
    "own data and loader": [
        *("--config", "dataset=mine", "datasets={mine: {source: synthetic, clips: 40}}", "measure={minutes: 0.5}"),
        "loaders=[npy, {name: own, file: $TMP/own.py, workers: [1]}]",
    ],
    "files and a profile": [
        *("-p", "--profile", "workflow/profiles/slurm", "--configfile", "$TMP/one.yaml", "$TMP/two.yaml"),
        *("--config", "report={step_ms: 7}", "measure={only: [npy]}"),
    ],
    "nothing": ["--cores=1"],
}
OWN = """
from contextlib import contextmanager

FORMAT = "npy"
SETTINGS = ("workers",)


@contextmanager
def open_epochs(request):
    raise NotImplementedError
"""


def planned(out, words):
    """The plan that `feedrate plan` writes for what a call says."""
    kept = [word for word in words if word != "-p"]
    asked, _ = print_plan.parser().parse_known_args([*kept, "--out", str(out)])
    print_plan.main(asked)
    return read_json(out)


@pytest.fixture(params=INVOCATIONS)
def session(request, tmp_path, monkeypatch):
    """(the plan of a call, the tables of its session)."""
    monkeypatch.chdir(PROJECT)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "one.yaml").write_text("dataset: small\ndatasets: {small: {source: synthetic, clips: 30}}\n")
    (tmp_path / "two.yaml").write_text(
        "storage: {disk: {path: /tmp/else}}\nloaders: [npy, {name: ring, workers: [1]}]\n"
    )
    words = [word.replace("$TMP", str(tmp_path)) for word in INVOCATIONS[request.param]]
    before = planned(tmp_path / "plan.json", words)
    typed = words[words.index("--config") + 1 :] if "--config" in words else []
    config = yaml.safe_load((PROJECT / "config.yaml").read_text())
    for name in ("one", "two") if "--configfile" in words else ():
        config = merged(config, yaml.safe_load((tmp_path / f"{name}.yaml").read_text()))
    plan = Built(config, parse_config(typed), kept_options(words)).content
    assert plan["results"] == before["results"]
    tables = tables_of(tmp_path, [Made(name, "disk", [100.0] * 3) for name in ("npy", "ring", "own")])
    said = {key: plan[key] for key in ("dataset", "config", "given", "call_options", "presets")}
    tables["dataset"] |= said | {"measure": plan["config"]["measure"]}
    return plan, tables


def after(tmp_path, text):
    name, *words = shlex.split(text)
    assert name == "snakemake" and text.count("--config ") <= 1
    return planned(tmp_path / "after.json", words)


def test_a_longer_session_is_the_same_session(session, tmp_path):
    plan, tables = session
    _, text = lengthened(tables, {"task": "read"}, 3)
    longer = after(tmp_path, text)
    assert longer["results"] == plan["results"] and longer["sessions"] == plan["sessions"]
    assert longer["config"]["measure"]["minutes"] == max(1, -(-3 * plan["config"]["measure"]["minutes"] // 1))
    changed = {"minutes": 0}
    assert longer["config"]["measure"] | changed == plan["config"]["measure"] | changed
    assert {**longer["config"], "measure": 0} == {**plan["config"], "measure": 0}
    assert command(tables).count("--profile") == plan["call_options"].count("--profile")


def test_what_was_not_measured_is_asked_of_the_same_session(session, tmp_path):
    """Data, tiers and own loaders stay; of a sweep no loader is lost, and no other setting changes."""
    plan, tables = session
    rows = {name: chart.rows(tables) for name, chart in charts.every().items()}
    texts = [one["command"] for one in not_measured(tables, charts.every(), rows) if one["command"]]
    assert len(texts) >= 4
    for text in texts:
        found = after(tmp_path, text)
        if not re.search(r"preset=(?!quick)", text):
            assert {"datasets", "storage", "report"} <= found["config"].keys()
            for key in ("datasets", "storage", "report", "split"):
                assert found["config"][key] == plan["config"][key], text
            assert {*found["loaders"]} == {*plan["loaders"]}, text
            before = {row["loader"]: row["settings"]["batch_size"] for row in plan["results"]}
            kept = {row["loader"]: row["settings"]["batch_size"] for row in found["results"]}
            assert "batch_size" in text or kept == before
