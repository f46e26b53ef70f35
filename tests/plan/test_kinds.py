"""Data sets of other kinds in the plan: which loaders are left, what is refused, what makes nothing again."""

import yaml

from scripts.plan.experiment import Plan
from tests.support.programs import PROJECT


def plan_of(entry, tmp_path, loaders=("numpy_memmap", "image_files", "soundfile"), **more) -> Plan:
    raw = yaml.safe_load((PROJECT / "config.yaml").read_text(encoding="utf-8"))
    raw |= {"dataset": "mine", "datasets": {"mine": entry}, "storage": {"disk": {"path": str(tmp_path)}}}
    return Plan(raw | {"loaders": list(loaders)} | more, {}, tmp_path)


MADE = {"source": "synthetic_images", "images": 10, "size": [32, 48]}


def test_loaders_for_other_data_are_left_out_and_named(tmp_path):
    plan = plan_of(MADE, tmp_path)
    assert plan.sample.shape == (3, 32, 48) and plan.sample.dtype == "uint8" and plan.sample.key == "image"
    assert list(plan.loaders) == ["numpy_memmap", "image_files"] and set(plan.formats) == {"memmap", "files"}
    assert any("soundfile" in one for one in plan.notices)
    audio = plan_of({"source": "synthetic", "clips": 10}, tmp_path)
    assert list(audio.loaders) == ["numpy_memmap", "soundfile"] and audio.sample.key == "audio"


def test_a_folder_is_of_any_kind(tmp_path):
    (tmp_path / "files").mkdir()
    entry = {"source": "folder", "path": str(tmp_path / "files")}
    assert plan_of(entry, tmp_path).kind == "audio"
    assert plan_of(entry | {"kind": "image", "size": [8, 8]}, tmp_path).sample.shape == (3, 8, 8)
    array = plan_of(entry | {"kind": "array", "shape": [4], "dtype": "float16"}, tmp_path, ["ring"])
    assert array.sample.bytes == 8 and array.sample.key == "array"


def test_the_size_of_images_fetches_nothing_again(tmp_path):
    small, large = plan_of(MADE, tmp_path), plan_of(MADE | {"size": [64, 64]}, tmp_path)
    small, large = small.as_json(), large.as_json()
    choice = {"source": "synthetic_images", "images": 10, "side": 320, "seed": 7}
    assert small["source"]["choice"] == large["source"]["choice"] == choice
    assert small["kind_options"] != large["kind_options"]
