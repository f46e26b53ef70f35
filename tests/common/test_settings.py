"""The table of settings: everything that follows from a row follows from it everywhere."""

import dataclasses

import jsonschema
import pytest
import yaml

from scripts.common import plugins, settings
from scripts.common.request import LoaderRequest
from scripts.plan.sweep import combinations, slug
from tests.support.programs import PROJECT

PLAIN = {name: values[0] for name, values in settings.by_hand().items()}


def lists(**changes):
    return settings.by_hand() | {name: value if isinstance(value, list) else [value] for name, value in changes.items()}


@pytest.mark.parametrize("name", settings.TABLE)
def test_defaults_and_values_by_hand_keep_to_the_schema(name):
    row = settings.TABLE[name]
    jsonschema.validate(row.default, settings.schemas()[name])
    jsonschema.validate(PLAIN[name], row.schema)


@pytest.mark.parametrize("loader", plugins.names("loaders"))
def test_no_loader_has_an_option_of_that_name(loader):
    assert not settings.TABLE.keys() & getattr(plugins.load("loaders", loader), "OPTIONS", {}).keys()


def test_the_config_has_each_of_them_with_its_default():
    sweep = yaml.safe_load((PROJECT / "config.yaml").read_text())["sweep"]
    assert {name: sweep[name] for name in settings.TABLE} == {name: row.default for name, row in settings.TABLE.items()}


def test_a_loader_is_asked_for_those_that_it_hears_of():
    asked = settings.asked({})
    fields = {field.name: field.default for field in dataclasses.fields(LoaderRequest)}
    assert asked.keys() <= fields.keys()
    assert settings.asked({"workers": 3, "pin_memory": None}) == asked | {"workers": 3}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"cpu-b32-w0"}),
        ({"pin_memory": [True, False]}, {"cpu-b32-w0"}),
        ({"device": "cuda", "pin_memory": [True, False]}, {"cuda-b32-w0", "cuda-b32-w0-pin"}),
        ({"device_prefetch": 2}, {"cpu-b32-w0"}),
        ({"device": "cuda", "device_prefetch": 2}, {"cuda-b32-w0-d2"}),
        ({"start_method": ["fork", "spawn"]}, {"cpu-b32-w0"}),
        ({"workers": [2], "start_method": ["fork", "spawn"]}, {"cpu-b32-w2-p2", "cpu-b32-w2-p2-spawn"}),
        ({"workers": [2], "persistent_workers": [True, False]}, {"cpu-b32-w2-p2", "cpu-b32-w2-p2-anew"}),
        ({"allocator": ["default", "keep"]}, {"cpu-b32-w0", "cpu-b32-w0-keep"}),
        ({"world": [1, 2]}, {"cpu-b32-w0", "cpu-b32-w0-world_2"}),
    ],
)
def test_a_value_that_makes_no_difference_is_no_result_of_its_own(changes, expected):
    module = plugins.load("loaders", "npy")
    given = lists(**changes) | {"gather": ["item"]}
    assert {slug(one).replace("-gather_item", "") for one in combinations(module, given)} == expected


def test_a_loader_without_a_setting_has_no_result_by_it():
    given = lists(workers=[2], start_method=["fork", "spawn"]) | {"gather": ["item"], "reuse": [False]}
    (only,) = combinations(plugins.load("loaders", "numpy_memmap"), given)
    assert only["start_method"] is None and slug(only) == "cpu-b32-w2-p2-gather_item"


def test_words_of_each():
    told = {"device": "cuda", "batch_size": 8, "workers": 1, "prefetch": 4, "pin_memory": True, "world": 2}
    text = settings.settings_text(told | {"persistent_workers": False, "start_method": "spawn", "gather": "item"})
    for words in ("2 ranks", "batch 8", "1 worker", "prefetch 4", "pinned memory", "gather=item", "start_method=spawn"):
        assert words in text.split(", ")
    assert settings.settings_text({"device": "cpu", "batch_size": 8, "pin_memory": False, "world": 1}) == "batch 8"


def test_a_setting_of_tomorrow_needs_a_row_alone(monkeypatch):
    row = settings.Setting({"type": "integer"}, [0], "threads of a pool", plain=0, without=0, of_all=True, short="t{}")
    monkeypatch.setitem(settings.TABLE, "pool", row)
    given = lists(pool=[0, 3]) | {"gather": ["item"]}
    found = list(combinations(plugins.load("loaders", "npy"), given))
    assert [one["pool"] for one in found] == [None, 3] and slug(found[1]).endswith("-t3-gather_item")
    assert settings.schemas()["pool"]["default"] == [0] and settings.asked(found[1])["pool"] == 3
    assert "pool=3" in settings.settings_text(found[1])
