"""Versions: numbers of stages and plug-ins, and the hash of a user's own file."""

import pytest

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.versions import loader_version, stage_version
from scripts.loaders import _own
from tests.support.workflow_rules import rules


def test_a_version_is_that_of_the_program_and_of_each_plug_in(monkeypatch):
    kind, format = plugins.load("kinds", "audio"), plugins.load("formats", "npy")
    before = [int(part) for part in stage_version("prepare.write_format", kind, format).split(".")]
    monkeypatch.setattr(format, "VERSION", format.VERSION + 1)
    after = [int(part) for part in stage_version("prepare.write_format", kind, format).split(".")]
    assert after == [*before[:2], before[2] + 1]


@pytest.mark.parametrize("rule", [rule for rule in rules() if rule.programs], ids=lambda rule: rule.name)
def test_a_rule_runs_again_for_a_version(rule):
    assert [one for one in rule.entries("params") if one.startswith("version=")]


@pytest.mark.parametrize("value", [None, 0, True, "1", 1.0])
def test_a_version_that_is_no_number_is_refused(value, monkeypatch):
    monkeypatch.setattr(plugins.load("formats", "npy"), "VERSION", value)
    with pytest.raises(UserError, match=r"scripts/formats/npy\.py: VERSION: "):
        plugins.load("formats", "npy")


@pytest.mark.parametrize("plugin", [("kinds", "array"), ("sources", "folder"), ("formats", "wav"), ("tiers", "posix")])
def test_a_plug_in_that_makes_data_must_have_one(plugin, monkeypatch):
    monkeypatch.delattr(plugins.load(*plugin), "VERSION")
    with pytest.raises(UserError, match=rf"scripts/{plugin[0]}/{plugin[1]}\.py: VERSION: "):
        plugins.load(*plugin)


def test_a_loader_may_have_one(monkeypatch):
    loader = plugins.load("loaders", "npy")
    first = loader_version(loader)
    monkeypatch.setattr(loader, "VERSION", 2, raising=False)
    assert (first, loader_version(plugins.load("loaders", "npy"))) == ("1", "2")


def test_a_users_own_file_counts_by_its_bytes_and_those_that_it_imports_beside_it(tmp_path):
    def version(text: str, beside: str) -> str:
        (tmp_path / "mine.py").write_text(text)
        (tmp_path / "gain.py").write_text(beside)
        return loader_version(_own.declared("mine", str(tmp_path / "mine.py")))

    text = 'import gain\nFORMAT = "wav"\ndef dataset(request): return []\n'
    first = version(text, "GAIN = 1\n")
    assert version(text, "GAIN = 1\n") == first
    assert len({first, version(f"{text}# a comment\n", "GAIN = 1\n"), version(text, "GAIN = 2\n")}) == 3
