"""What was not measured, with the command for it; and the card of the machine."""

import shlex
from dataclasses import replace
from html import unescape

import pytest
import yaml

from scripts.common import plugins
from scripts.common.files import PROJECT
from scripts.report import charts
from scripts.report.groups import machine_card
from scripts.report.not_measured import _COMMANDS, _PRESETS, minutes_text, not_measured
from tests.support.made_runs import Made
from tests.support.report_pages import report_of, section, tables_of


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Tables, figures and page of one loader that was run once."""
    return report_of(tmp_path_factory.mktemp("bare"), [Made("a", "disk", [100.0])])


def lacking(tables):
    return not_measured(tables, charts.every(), {name: chart.rows(tables) for name, chart in charts.every().items()})


def test_every_command_stands_on_the_page_with_its_copy_button(bare):
    tables, _, html = bare
    commands = [one["command"] for one in lacking(tables) if one["command"]]
    assert len(commands) >= 8 and "snakemake --config dataset=demo preset=ladder" in commands
    for command in commands:
        assert command in section(html, "lacking")
        name = unescape(html).split(f">{command}</code>")[0].rsplit('id="', 1)[1].strip('"')
        assert f'data-copy="{name}"' in html


@pytest.mark.parametrize("name", _COMMANDS)
def test_commands_name_what_the_config_has(name):
    config = yaml.safe_load((PROJECT / "config.yaml").read_text(encoding="utf-8"))
    key, value = shlex.split(_COMMANDS[name])[0].split("=", 1)
    if key == "loaders":
        [entry] = yaml.safe_load(value)
        assert {*entry} - {"name"} <= {*plugins.load("loaders", entry["name"]).OPTIONS}
    else:
        assert set(yaml.safe_load(value)) <= set(config[key])


def test_commands_name_presets_that_there_are():
    assert all((PROJECT / "workflow" / "presets" / f"{preset}.yaml").is_file() for preset in _PRESETS.values())


def test_a_command_keeps_the_sessions_preset_and_quotes_names(bare):
    tables = {**bare[0], "dataset": {**bare[0]["dataset"], "dataset": "a b;c"}}
    tables["dataset"]["config"] = {**tables["dataset"]["config"], "preset": "quick"}
    found = {shlex.split(one["command"])[-1]: shlex.split(one["command"]) for one in lacking(tables) if one["command"]}
    assert found["preset=ladder"] == ["snakemake", "--config", "dataset=a b;c", "preset=ladder"]
    assert found["sweep={cache: [warm, cold]}"][2:4] == ["dataset=a b;c", "preset=quick"]


def test_it_says_how_long_a_command_takes_by_the_session_that_is_there(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "disk", [100.0] * 3), Made("b", "disk", [90.0] * 3)])
    assert "2.00 minutes" in minutes_text(tables)
    assert minutes_text({**tables, "ranking": []}) == ""
    takes = {one["command"]: one["takes"] for one in lacking(tables)}
    assert takes["snakemake --config dataset=demo preset=tensor_loading"] == "1 min at most"
    assert takes["snakemake --config dataset=demo preset=ladder"] == "`snakemake -n` says how long"
    tables["dataset"]["measure"]["minutes"] = 5
    takes = {one["command"]: one["takes"] for one in lacking(tables)}
    cold = "snakemake --config dataset=demo sweep='{cache: [warm, cold]}'"
    assert takes[cold] == "5 min at most"


HOST = {
    **{"cpu": "Example CPU 9000", "cores": 32, "cores_allowed": 16, "physical_cores_allowed": 8, "cpu_quota": None},
    **{"smt": "on", "l2_cache_bytes": 2**20, "l3_cache_bytes": 32 * 2**20, "governor": "performance", "numa_nodes": 2},
    **{"transparent_huge_pages": "madvise", "memory_bytes": 64 * 10**9, "kernel": "6.1.0", "system": "Linux"},
    **{"glibc": "2.36", "python": "3.11.7", "gpus": ["Example GPU"], "gpu_driver": "550.54.15"},
}


def test_the_card_says_all_that_decides_a_loaders_speed(bare):
    tables = {**bare[0], "host": {**bare[0]["host"], "hosts": [{"runs": 3, "host": HOST}]}}
    card = dict(machine_card(tables))
    assert card["cores"] == "32 logical, 16 used here, 8 physical of these"
    assert (card["GPU"], card["storage, disk"]) == (
        "Example GPU, driver 550.54.15",
        "ext4, posix, nvme0n1, Example SSD, none",
    )
    assert "not known" not in card.values()
    without = {**HOST, "gpus": [], "governor": None}
    card = dict(machine_card({**tables, "host": {**tables["host"], "hosts": [{"runs": 3, "host": without}]}}))
    assert (card["governor"], dict(card)["GPU"]) == ("not known", "driver 550.54.15")
    del without["gpu_driver"]
    card = dict(machine_card({**tables, "host": {**tables["host"], "hosts": [{"runs": 3, "host": without}]}}))
    assert card["GPU"] == "none"
    nothing = {**tables["host"], "hosts": [], "commits": [], "first_started": None, "last_started": None}
    assert dict(machine_card({**tables, "host": nothing}))["CPU"] == "not known"


def test_no_command_measures_nothing(tmp_path):
    """What loaders say themselves no `sweep` changes, a training is not swept, and presets are for a kind."""
    tables = tables_of(tmp_path, [Made("a", "disk", [100.0] * 3), Made("b", "disk", [90.0] * 3, workers=None)])
    tables["dataset"]["presets"] = ["tensor_loading"]
    own = {"name": "mine", "file": "mine.py", "workers": [1]}
    tables["dataset"]["config"] |= {"loaders": [{"name": "a", "workers": [2]}, "b", own]}
    tables["dataset"]["config"] |= {"sweep": {"task": ["lightning"]}, "preset": "quick"}
    found = [one["command"] for one in lacking(tables) if one["command"]]
    assert [command for command in found if command.endswith("tensor_loading")]
    assert not [command for command in found if "ladder" in command or "concurrency" in command]
    start = "snakemake --config dataset=demo preset=quick"
    every = "[a, b, {name: mine, file: mine.py, workers: [1]}]"
    assert f"{start} loaders='{every}' sweep='{{task: [read], workers: auto}}'" in found
    assert f"{start} sweep='{{task: [read], cache: [warm, cold]}}'" in found


def test_a_gpu_has_questions_of_its_own(tmp_path):
    def asked(*made):
        tables = tables_of(tmp_path, made)
        tables["dataset"]["config"]["loaders"] = [{"name": one.loader} for one in made]
        return [one["command"] for one in lacking(tables) if one["command"]]

    ahead, keep = "sweep='{device_prefetch: [0, 2]}'", "loaders='[a, {name: resident, keep: [host, device]}]'"
    on_host = Made("resident", "disk", [90.0] * 3, workers=None, device="cuda", options={"keep": "host"})
    plain = Made("a", "disk", [100.0] * 3, device="cuda")
    found = asked(plain, on_host)
    assert [command for command in found if command.endswith((ahead, keep))] == [
        f"snakemake --config dataset=demo {ahead}",
        f"snakemake --config dataset=demo {keep}",
    ]
    assert not [command for command in asked(Made("a", "disk", [100.0] * 3)) if ahead in command or keep in command]
    on_device = replace(on_host, options={"keep": "device"})
    assert not [command for command in asked(plain, on_device) if keep in command]
