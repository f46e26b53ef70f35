"""`feedrate plan`: what a config would measure, with Snakemake's own way to say what differs from the file."""

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.plan_file import read_plan
from scripts.plan import print_plan
from scripts.plan.experiment import Plan
from tests.support.programs import PROJECT

SMALL = ["dataset=demo", "loaders=[npy, ring]", "storage={ram: null}", "sweep={task: [read], workers: [0]}"]


def main(*words):
    print_plan.main(print_plan.parser().parse_args(["--configfile", str(PROJECT / "config.yaml"), *words]))


def test_it_prints_each_result_and_writes_what_the_tables_read(tmp_path, capsys):
    out = tmp_path / "plan.json"
    main("--config", *SMALL, "--out", str(out))
    first, *lines = capsys.readouterr().out.splitlines()
    plan = read_plan(out)
    assert first.startswith("Results: ") and plan["dataset"] == "demo" and list(plan["tiers"]) == ["disk"]
    named = [f"  {result['loader']} on {result['tier']}: {result['slug']}" for result in plan["results"]]
    assert named and [line for line in lines if line in named] == named
    assert {result["loader"] for result in plan["results"]} == {"npy", "ring"}


def test_a_preset_is_as_snakemake_has_it(tmp_path):
    main("--config", "dataset=demo", "preset=quick", "--out", str(tmp_path / "plan.json"))
    plan = read_json(tmp_path / "plan.json")
    raw = print_plan.yaml.safe_load((PROJECT / "config.yaml").read_text())
    expected = Plan(raw | {"dataset": "demo"}, {"dataset": "demo", "preset": "quick"})
    assert [result["slug"] for result in plan["results"]] == [result.slug for result in expected.results]
    assert plan["config"]["preset"] == "quick"


@pytest.mark.parametrize("words", [["dataset"], ["=demo"], ["sweep={"]])
def test_what_is_no_value_is_refused(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main("--config", *words)
    assert "--config: found" in capsys.readouterr().err


def test_a_config_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"--configfile: found no file .*none\.yaml"):
        main("--configfile", str(tmp_path / "none.yaml"))
