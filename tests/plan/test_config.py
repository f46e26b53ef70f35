"""The config: defaults from the schema alone, and errors that name key, found value, allowed values, nearest name.

config.yaml is the user's to edit: what it ships is tested where it is as committed, all else on a config of the tests.
"""

import copy
import functools
import json
import operator
import random

import pytest
import yaml
from snakemake.cli import parse_config
from snakemake.utils import update_config

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.location import PATH
from scripts.common.published import published_names, read_published
from scripts.common.vocabulary import CACHES
from scripts.plan import config as configuration, sizes
from scripts.plan.experiment import Plan
from scripts.plan.sweep import slug
from tests.support.programs import PROJECT

SECTIONS = ("audio", "split", "sweep", "measure")
OPTIONS = {"torchaudio": {"decoder": ["load", "soundfile"]}, "dali_external": {"source": ["serial", "parallel"]}}
OPTIONS |= {name: {"gather": ["batch", "item"]} for name in ("numpy_memmap", "lazy_memmap")}


OF_FILES = [
    name for name in plugins.names("loaders") if PATH in getattr(plugins.load("loaders", name), "READS", (PATH,))
]


@pytest.fixture
def raw(monkeypatch) -> dict:
    """A config with every loader of files, two tiers and three data sets, all of which memory can hold.

    The other sections are as the schema has them, but for a warm cache alone, and trainings with all settings.
    """
    monkeypatch.setattr(sizes, "memory_bytes", lambda: 10**13)
    least = {
        "dataset": "audioset_eval",
        "datasets": {
            "audioset_eval": {"source": "audioset", "list": "eval", "limit": "all", "requests_per_hour": 300},
            "demo": {"source": "synthetic", "clips": 512, "seed": 7},
            "my_folder": {"source": "folder", "path": "/path/to/audio"},
        },
        "storage": {"ram": {"path": "/dev/shm"}, "disk": {"path": "results/placed"}},
        "loaders": [{"name": name, **OPTIONS[name]} if name in OPTIONS else name for name in OF_FILES],
        "report": {"now": "torchaudio", "step_ms": 20},
    }
    complete = configuration.resolve(least)
    complete["sweep"]["cache"] = ["warm"]
    complete["measure"] |= {"part": "none", "cold": "all", "trainings": "all", "train_sweep": "all"}
    return least | {section: complete[section] for section in SECTIONS}


def refused(raw) -> str:
    with pytest.raises(UserError) as error:
        Plan(raw)
    return str(error.value)


def test_the_shipped_config_says_nothing_but_defaults(shipped):
    """What config.yaml spells out for its reader are the schema's defaults: leaving a section out changes nothing."""
    raw = yaml.safe_load(shipped)
    complete = configuration.resolve(raw)
    for section in SECTIONS:
        short = {key: value for key, value in raw.items() if key != section}
        assert configuration.resolve(short)[section] == complete[section]


def test_the_shipped_config_makes_a_plan(shipped):
    """Of 20,371 segments in 80 shards, with every task, on both tiers."""
    plan = Plan(yaml.safe_load(shipped))
    assert plan.shards == 80 and set(plan.tiers) == {"ram", "disk"}
    assert {result.task for result in plan.results} == {"read", "train", "lightning"}


CONTAINERS = (None, 3, "x", "", [], [None], [[1]], [{"a": 1}], {}, {"a": 1}, {"a": {"b": [2]}})


def keys_of(value, where=()):
    """Yield the keys that lead to each part of a config."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*where, key)
        yield from keys_of(part, (*where, key))


def test_a_value_of_the_wrong_type_at_any_key_is_refused_in_a_line(tmp_path):
    """In the file or on the command line, with a preset or without: never another error; a line names the key."""
    full = configuration.resolve(
        {
            "dataset": "demo",
            "datasets": {"demo": {"source": "synthetic", "clips": 8}},
            "storage": {"disk": {"path": str(tmp_path)}, "far": {"kind": "s3", "bucket": "far"}},
            "loaders": ["npy", {"name": "soundfile", "workers": [0], "task": ["read"]}],
            "ladder": [{"change": "first", "loader": "npy", "workers": 0}],
        }
    )
    chance = random.Random(0)
    for where in keys_of(full):
        for wrong in chance.sample(CONTAINERS, 1):
            spoiled, given = copy.deepcopy(full), {}
            functools.reduce(operator.getitem, where[:-1], spoiled)[where[-1]] = wrong
            if chance.random() < 0.5:  # as Snakemake merges what was typed
                given = parse_config([f"{where[0]}={json.dumps(spoiled[where[0]])}"])
                spoiled = copy.deepcopy(full)
                update_config(spoiled, given)
            if chance.random() < 0.5:
                given["preset"] = chance.choice(["quick", "ladder", "images"])
            try:
                configuration.resolve(configuration.requested(spoiled, given))
            except UserError as error:
                assert all(line.startswith("config: ") for line in str(error).splitlines()), (where, wrong, given)


def test_values_of_the_command_line_are_typed(raw):
    """Snakemake leaves numbers inside braces as text."""
    merged = copy.deepcopy(raw)
    merged["sweep"]["workers"] = ["0", "4"]
    merged["datasets"]["demo"]["clips"] = "10"
    overrides = {"dataset": "demo", "sweep": {"workers": ["0", "4"]}, "datasets": {"demo": {"clips": "10"}}}
    plan = Plan(merged, overrides)
    assert plan.config["sweep"]["workers"] == [0, 4]
    assert plan.options["clips"] == 10


def test_settings_that_make_no_difference_are_run_once(raw):
    """Without workers nothing is prefetched; without a GPU nothing is pinned; DALI needs a thread."""
    raw["sweep"] = {"device": ["cpu"], "workers": [0, 1], "prefetch": [1, 2], "pin_memory": [False, True]}
    raw["loaders"] = ["soundfile", "dali_wav"]
    plan = Plan(raw)
    assert [slug(s) for s in plan.settings("soundfile")] == ["cpu-b32-w0", "cpu-b32-w1-p1", "cpu-b32-w1-p2"]
    assert [slug(s) for s in plan.settings("dali_wav")] == ["cpu-b32-w1-p1", "cpu-b32-w1-p2"]
    assert all(settings["pin_memory"] is None for settings in plan.settings("dali_wav"))


def test_a_loader_may_override_the_sweep(raw):
    raw["loaders"] = ["torchaudio", {"name": "numpy_memmap", "workers": [0], "gather": ["batch", "item"]}]
    raw["sweep"] = {"device": ["cpu"], "workers": [0, 2]}
    plan = Plan(raw)
    assert [slug(s) for s in plan.settings("numpy_memmap")] == ["cpu-b32-w0-gather_batch", "cpu-b32-w0-gather_item"]
    assert len(list(plan.settings("torchaudio"))) == 2


@pytest.mark.parametrize(
    ("cores", "numbers"),
    [
        (1, [0, 1, 2]),
        (2, [0, 1, 2]),
        (4, [0, 1, 2, 4]),
        (6, [0, 2, 3, 6]),
        (10, [0, 2, 3, 5, 10]),
        (16, [0, 2, 4, 8, 16]),
    ],
)
def test_workers_auto_are_shares_of_the_physical_cores(raw, monkeypatch, cores, numbers):
    """Of the sweep or of one loader; the plan holds the numbers and says them."""
    monkeypatch.setattr("scripts.plan.config.physical_cores_allowed", lambda: cores)
    raw["loaders"] = ["soundfile", {"name": "npy", "workers": [3]}]
    raw["sweep"] = {"device": ["cpu"], "workers": "auto"}
    plan = Plan(raw)
    assert plan.as_json()["config"]["sweep"]["workers"] == numbers
    assert [settings["workers"] for settings in plan.settings("soundfile")] == numbers
    assert [settings["workers"] for settings in plan.settings("npy")] == [3]
    assert len(plan.notices) == 1
    raw["loaders"][1]["workers"], raw["sweep"]["workers"] = "auto", [0]
    plan = Plan(raw)
    assert [settings["workers"] for settings in plan.settings("npy")] == numbers
    assert plan.entries[1]["workers"] == numbers and plan.config["sweep"]["workers"] == [0] and plan.notices
    raw["loaders"][1]["workers"] = [0]
    assert Plan(raw).notices == []


@pytest.mark.parametrize(("cores", "number"), [(1, 1), (2, 1), (16, 15)])
def test_workers_all_but_one_leave_a_core_to_the_training(raw, monkeypatch, cores, number):
    monkeypatch.setattr("scripts.plan.config.cores_allowed", lambda: cores)
    raw["sweep"] = {"device": ["cpu"], "workers": "all_but_one"}
    plan = Plan(raw)
    assert plan.config["sweep"]["workers"] == [number]


def test_every_combination_is_a_result_on_each_tier_with_one_proof_for_all_tasks(raw):
    plan = Plan(raw)
    proofs = sum(len(list(plan.settings(name))) for name in plan.loaders) * len(plan.tiers)
    assert len(plan.results) == len({result.id for result in plan.results}) == proofs * 3, "3 tasks"
    assert {result.task for result in plan.results} == {"read", "train", "lightning"}
    assert len(plan.proofs) == proofs and {result.proof for result in plan.results} == set(plan.proofs)
    assert {(result.mode, result.task, result.cache) for result in plan.proofs.values()} == {("proof", "read", "warm")}
    assert {(result.task, result.mode) for result in plan.results} == {
        ("read", "run"),
        ("train", "epochs"),
        ("lightning", "epochs"),
    }
    raw["measure"]["epochs"] = 3
    assert {result.mode for result in Plan(raw).results} == {"epochs"}, "so many whole epochs"


def test_copies_in_ram_that_are_there_one_at_a_time_have_sessions_of_their_own(raw, tmp_path):
    raw["storage"] = {"ram": {"path": "/dev/shm"}, "disk": {"path": str(tmp_path)}}
    plan = Plan(raw)
    assert plan.groups == ["main"] and {bound.group for bound in plan.bounds} == {"main"}
    raw["measure"]["ram_copies"] = "one"
    plan = Plan(raw)
    assert set(plan.groups) == {"main", *(f"ram_{loader}" for loader in plan.loaders)}
    assert {bound.group for bound in plan.bounds} == set(plan.groups)
    assert len({bound.id for bound in plan.bounds}) == len(plan.bounds)


def test_what_one_loader_asks_for_itself_and_cannot_have_has_its_reason(raw, monkeypatch):
    monkeypatch.setattr(Plan, "has_gpu", False)
    raw["storage"] = {"ram": {"path": "/dev/shm"}}
    raw["sweep"] |= {"device": ["cpu"], "cache": ["warm"], "device_prefetch": [0]}
    own = {"cache": ["cold"], "device_prefetch": [2], "device": ["auto"]}
    raw["loaders"] = ["resident", {"name": "numpy_memmap", **own}]
    lost = Plan(raw).skipped
    assert {entry["loader"] for entry in lost} == {"numpy_memmap"}
    assert [entry["settings"] for entry in lost] == [
        {"device": "cuda"},
        {"device": "cpu", "device_prefetch": 2},
        {"cache": "cold"},
    ]


def test_with_a_gpu_every_loader_runs_on_both(raw, monkeypatch):
    monkeypatch.setattr(Plan, "has_gpu", True)
    plan = Plan(raw)
    for loader in plan.loaders:
        assert {result.settings["device"] for result in plan.results if result.loader == loader} == {"cpu", "cuda"}
    assert plan.skipped == []


def test_two_checkouts_share_a_tier_without_meeting(raw, tmp_path):
    folders = {Plan(raw, project=tmp_path / name).location("ram").uri for name in ("a", "b")}
    assert len(folders) == 2


def test_shards_grow_with_the_set(raw):
    """A DAG stays small: AudioSet's 2,041,789 segments in at most 1,000 shards."""
    assert Plan(raw).shards == 80, "of 20,371 segments"
    raw["datasets"]["audioset_eval"]["list"] = "unbalanced_train"
    assert 500 <= Plan(raw).shards <= 1000
    raw["dataset"] = "demo"
    raw["datasets"]["demo"]["clips"] = 2_041_789
    assert 500 <= Plan(raw).shards <= 1000


def test_a_cold_cache_is_asked_of_disks_alone(raw, tmp_path):
    raw["storage"] = {"ram": {"path": "/dev/shm"}, "disk": {"path": str(tmp_path)}}
    raw["sweep"] |= {"cache": ["warm", "cold"], "workers": [0], "task": ["read"]}
    plan = Plan(raw)
    in_memory = [tier for tier in plan.tiers if plan.in_memory(tier)]
    assert in_memory[0] == "ram"
    states = {(result.tier, result.cache) for result in plan.results}
    assert states == {(tier, cache) for tier in plan.tiers for cache in ("warm", "cold")} - {
        (tier, "cold") for tier in in_memory
    }
    assert all(result.slug.endswith("-cold") == (result.cache == "cold") for result in plan.results)
    lost = [entry for entry in plan.skipped if entry["tier"] == "ram"]
    assert [entry["loader"] for entry in lost] == list(plan.loaders)


def test_scenarios_are_swept_for_what_traverses_and_trainings_stay_warm(raw, tmp_path):
    raw["storage"] = {"disk": {"path": str(tmp_path)}}
    raw["sweep"] |= {
        "cache": ["warm", "cold", "limited"],
        "step_ms": [0, 2.5],
        "workers": [0],
        "task": ["read", "iterate"],
    }
    raw["loaders"] = ["numpy_memmap", {"name": "lazy_memmap", "task": ["lightning"], "workers": [0]}]
    results = Plan(raw).results
    found = {(result.loader, result.task, result.cache, result.step_ms) for result in results}
    caches = [("warm", 0), ("warm", 2.5), ("cold", 0), ("cold", 2.5), ("limited", 0), ("limited", 2.5)]
    assert found == {("numpy_memmap", "read", cache, step) for cache, step in caches} | {
        ("numpy_memmap", "iterate", "warm", 0),
        ("lazy_memmap", "lightning", "warm", 0),
    }
    assert len({result.id for result in results}) == len(results)
    assert any(result.slug.endswith("-cold-step2_5") for result in results)
    assert {result.slug for result in results if result.task == "iterate"} == {"cpu-b32-w0-gather_batch-iterate"}


def test_trainings_may_take_the_last_of_each_list_alone(raw):
    raw["measure"]["train_sweep"] = "last"
    results = Plan(raw).results
    assert {result.settings["workers"] for result in results if result.task == "read"} == {0, 1, 2, None}, (
        "DALI needs a thread"
    )
    assert {result.settings["workers"] for result in results if result.task == "lightning"} == {2, None}


def test_emulated_storage_is_measured_where_it_is_read_from(raw, tmp_path):
    raw["storage"] = {"slow": {"path": str(tmp_path), "emulate": "hdd_7200"}}
    raw["sweep"] |= {"cache": ["warm", "cold"], "workers": [0]}
    plan = Plan(raw)
    assert {(result.task, result.cache) for result in plan.results} == {("read", "cold")}
    assert plan.as_json()["emulated"] == ["slow"]
    preloading = [name for name in plan.loaders if plan.loaders[name].__dict__.get("PRELOADS")]
    by_cache = {
        cache: [row["loader"] for row in plan.skipped if row["settings"].get("cache") == cache] for cache in CACHES
    }
    assert by_cache == {"warm": list(plan.loaders), "cold": preloading, "limited": []}


def test_a_preset_leaves_out_a_tier_that_is_not_there(raw):
    raw["storage"] = {"disk": raw["storage"]["disk"]}
    assert set(Plan(raw | {"preset": "tensordict"}).tiers) == {"disk"}


def test_a_data_set_of_ones_own_stays_where_a_preset_has_one_of_its_name(raw, tmp_path):
    own = {"source": "folder", "kind": "image", "path": str(tmp_path), "size": [28, 28]}
    raw["datasets"]["fashion"] = own
    plan = Plan({**raw, "preset": "tensordict"})
    assert plan.dataset == "fashion" and plan.options["path"] == str(tmp_path)
    del raw["datasets"]["fashion"]
    few = {"datasets": {"fashion": {"images": "100"}}}
    merged = {**raw, "preset": "tensordict", "datasets": {**raw["datasets"], **few["datasets"]}}
    plan = Plan(merged, few)
    assert (plan.source, plan.options["images"]) == ("synthetic_images", 100)


def test_a_tier_of_ones_own_stays_where_a_preset_has_one_of_its_name(raw, tmp_path):
    raw["storage"] = {"ram": {"path": "/dev/shm"}, "disk": {"path": str(tmp_path)}}
    raw["preset"] = "far"
    storage = Plan(raw).config["storage"]
    assert storage["disk"]["path"] == str(tmp_path) and set(storage) == {"disk", "s3_0ms", "s3_20ms"}
    further = {"storage": {"s3_20ms": {"latency_ms": "50"}}}  # of a tier that the preset brings: a part of it
    storage = Plan({**raw, "storage": {**raw["storage"], **further["storage"]}}, further).config["storage"]
    assert (storage["s3_20ms"]["kind"], storage["s3_20ms"]["latency_ms"]) == ("s3", 50)


def test_null_is_typed_on_the_command_line(raw):
    overrides = {"preset": "pdsc3k", "report": {"now": "null"}}
    assert Plan({**raw, "report": {"now": "null"}}, overrides).config["report"]["now"] is None


def test_presets_are_offered_where_they_measure_something():
    offered = configuration.presets_for("image", "demo_images", "none")
    assert {"images", "tensordict", "publishable", "far"} <= set(offered)
    assert not {"ladder", "concurrency"} & set(offered)
    assert configuration.presets_for("image", "fashion", "tensordict") == ["tensordict"], "no other one has its data"
    assert "ladder" in configuration.presets_for("audio", "demo", "quick")


def test_a_preset_overrides_the_file_and_the_command_line_the_preset(raw):
    raw["preset"] = "tensordict"
    plan = Plan(raw)
    assert (plan.config["measure"]["epochs"], plan.config["measure"]["repeats"]) == (5, 20)
    assert {result.task for result in plan.results} == {"iterate", "train", "lightning"}
    assert Plan(raw, {"measure": {"repeats": 2}}).config["measure"]["repeats"] == 2
    assert Plan({**raw, "preset": "none"}, {"preset": "publishable"}).config["measure"]["minutes"] == "none"
    assert Plan(raw, {"preset": "none"}).config["measure"]["repeats"] == raw["measure"].get("repeats", 10)


OWN = """import torch

FORMAT = "npy"


def dataset(request):
    return []
"""


@pytest.fixture
def own(tmp_path) -> dict:
    """An entry of `loaders`: a file of the user's own."""
    (tmp_path / "mine.py").write_text(OWN)
    return {"name": "mine", "file": str(tmp_path / "mine.py"), "workers": [1]}


def test_a_preset_leaves_out_no_loader_that_is_asked_for_by_name(raw, own):
    """Its list stands in place of the file's, but for the user's own files and what is a target of the call."""
    raw["loaders"] = [own, {"name": "zarr", "workers": [3]}, "npy", "torchaudio"]
    raw["preset"] = "quick"
    plan = Plan(raw)
    assert "mine" in plan.loaders and "torchaudio" in plan.loaders
    assert {result.settings["workers"] for result in plan.results if result.loader == "mine"} == {1}
    assert plan.left_out == ["zarr", "npy"]
    asked = Plan(raw, asked=["zarr", "hdf5"])
    assert {"mine", "zarr", "hdf5"} <= set(asked.loaders) and asked.left_out == ["npy"]
    assert {result.settings["workers"] for result in asked.results if result.loader == "zarr"} == {3}, (
        "as config.yaml has it"
    )
    assert set(Plan(raw, {"loaders": ["npy"]}).loaders) == {"npy"}, "the command line names all"
    assert Plan({**raw, "preset": "none"}).left_out == []


@pytest.mark.parametrize("cores", [2, 7])
def test_quick_gives_each_loader_no_worker_and_those_of_its_guide(raw, own, monkeypatch, cores):
    """A user's own file too, unless it says otherwise; a library that needs a thread has one in place of none."""
    monkeypatch.setattr(configuration, "cores_allowed", lambda: cores)
    raw["loaders"] = [{"name": "mine", "file": own["file"]}, "zarr"]
    plan = Plan({**raw, "preset": "quick"}, asked=["zarr"])
    found = {name: {run.settings["workers"] for run in plan.results if run.loader == name} for name in plan.loaders}
    assert found.pop("resident") == {None} and {"mine", "zarr", "ring"} <= found.keys()
    assert found == {name: {int("dali" in name), cores} for name in found}
    assert any(str(cores) in notice and "guide" in notice for notice in plan.notices)


def test_a_loader_may_name_the_workers_that_its_guide_would_take(raw, tmp_path, own):
    named = {"name": "mine", "file": own["file"], "workers": ["guide"]}
    for said, numbers in ((3, {3}), (0, None), ("many", None)):
        (tmp_path / "mine.py").write_text(f"{OWN}\nGUIDE_WORKERS = {said!r}\n")
        if numbers:
            assert {one.settings["workers"] for one in Plan({**raw, "loaders": [named]}).results} == numbers
        else:
            assert "GUIDE_WORKERS" in refused({**raw, "loaders": [named]})
    assert "guide" in refused({**raw, "sweep": {**raw["sweep"], "workers": ["guides"]}})


def test_quick_measures_one_tier_and_what_leads_from_a_cold_cache(raw):
    plan = Plan({**raw, "preset": "quick"})
    assert list(plan.tiers) == ["disk"]
    warm = {one.id for one in plan.results if one.cache == "warm"}
    cold = {one.id: one.if_leads for one in plan.results if one.cache == "cold"}
    assert set(cold.values()) == {one for one in warm if "resident" not in one}, "which is never cold"
    assert {one.if_leads for one in plan.results if one.id in warm} == {None}


def test_a_ladder_measures_its_steps_and_what_is_a_target(raw, own):
    raw["loaders"] = [*raw["loaders"], own]
    assert set(Plan(raw, {"preset": "ladder"}).loaders) == {"torchaudio", "npy", "numpy_memmap"}
    asked = Plan(raw, {"preset": "ladder"}, asked=["mine"])
    assert {result.task for result in asked.results if result.loader == "mine"} == {"read"}
    assert {result.loader for result in asked.results} == {"torchaudio", "npy", "numpy_memmap", "mine"}


@pytest.mark.parametrize("loaders", [None, "npy", 3, [], {}, [3], [None], [{"file": "x.py"}], [{"name": 3}]], ids=str)
def test_wrong_loaders_are_refused_with_a_preset_or_a_target_too(raw, loaders):
    raw["loaders"] = loaders
    for given in ({}, {"preset": "publishable"}, {"preset": "publishable", "sweep": None}):
        with pytest.raises(UserError, match="config: "):
            Plan(raw, given, asked=["npy"])


@pytest.mark.parametrize("preset", sorted(path.stem for path in configuration.PRESETS.glob("*.yaml")))
def test_every_preset_is_a_valid_config_and_says_what_it_is_for(raw, preset):
    assert Plan({**raw, "preset": preset}).results
    assert (configuration.PRESETS / f"{preset}.yaml").read_text().startswith("# ")


PUBLISHED = {path.stem: yaml.safe_load(path.read_text()) for path in configuration.PRESETS.glob("*.yaml")}
PUBLISHED = {name: preset["report"]["published"] for name, preset in PUBLISHED.items() if "published" in str(preset)}


@pytest.mark.parametrize(("preset", "named"), sorted(PUBLISHED.items()))
def test_a_preset_measures_each_row_of_the_published_tables_that_it_names(raw, preset, named):
    """But for the numbers of workers that only a larger machine has."""
    compared = 0
    for table in map(read_published, published_names(named)):
        plan = Plan({**raw, "preset": preset})
        if table.kind not in (None, plan.kind):
            plan = Plan(raw, {"preset": preset, "dataset": "fashion_arrays"})
            assert table.kind == plan.kind
        for row in table.rows:
            if row.loader and row.settings.get("workers") in (None, *plan.config["sweep"]["workers"]):
                compared += 1
                assert any(is_like(row, result, plan) for result in plan.results), row
    assert compared >= 4


def is_like(row, result, plan) -> bool:
    """Return whether a planned run is what a published row is compared with."""
    settings = {**plugins.declared(plan.loaders[result.loader])["options"], **result.settings}
    of_row = (row.loader, row.task, row.tier or result.tier)
    return of_row == (result.loader, result.task, result.tier) and row.settings.items() <= settings.items()


def test_the_tensor_micro_benchmarks_are_made_where_they_are_asked_for(raw):
    least = {key: value for key, value in raw.items() if key != "measure"}
    assert Plan(least).tensors == [] == Plan(least, {"preset": "quick"}).tensors
    plan = Plan(least, {"preset": "tensor_loading"})
    asked = {(result.settings["device"], result.settings["batch_size"]) for result in plan.results}
    assert len(plan.tensors) == 5 * len(asked) and plan.single_file == ["memmap"]


def test_disks_are_placed_before_any_run_and_ram_where_there_is_room_for_all(raw):
    raw["storage"] = {"ram": {"path": "/dev/shm"}, "disk": {"path": str(PROJECT / "results")}}
    plan = Plan(raw)
    first, second = (tier["order"] for tier in plan.as_json()["tiers"].values())
    assert first == second > 1000, "the priority of a session"
    raw["measure"]["ram_copies"] = "one"
    assert [tier["order"] for tier in Plan(raw).as_json()["tiers"].values()] == [0, first]


def test_what_one_has_now_is_a_loader_of_feedrate_or_of_the_experiment_or_none(raw, own):
    raw["loaders"] = ["numpy_memmap", own]
    for now in (None, "numpy_memmap", "mine", "torchaudio"):
        raw["report"] = {"now": now}
        assert Plan(raw).as_json()["config"]["report"]["now"] == now


def test_compared_folders_are_those_of_others_each_once(raw, tmp_path, monkeypatch):
    own = tmp_path / "results" / "tables" / raw["dataset"]
    own.mkdir(parents=True)
    for folder in (own, tmp_path):
        (folder / "runs.csv").touch()
    monkeypatch.chdir(tmp_path)
    raw["report"] = {"baseline": str(tmp_path), "machines": {"a lab's": str(tmp_path)}}
    assert raw["report"].items() <= Plan(raw).config["report"].items()
    twice = [str(tmp_path), f"{tmp_path}/."]
    for key, found in (("baseline", str(own)), ("machines", [str(own)]), ("machines", twice)):
        raw["report"] = {key: found}
        assert refused(raw).startswith(f"config: report.{key}: ")


@pytest.mark.parametrize(
    "typed", ["measure={minutes: 1", "sweep={workers: [0, 2}", "loaders=[ring, 'npy]", "audio={}}"]
)
def test_what_is_typed_and_no_yaml_is_refused(raw, typed):
    with pytest.raises(UserError, match=rf"^config: {typed.partition('=')[0]}: found .* allowed is YAML"):
        Plan(raw, parse_config([typed]))


def test_data_that_is_far_away_is_measured_warm_and_called_emulated(raw, tmp_path):
    """The preset `far`, which leaves out RAM."""
    raw |= {"preset": "far", "dataset": "demo"}
    raw["sweep"]["cache"] = ["warm", "cold"]
    plan = Plan(raw, {"sweep": {"cache": ["warm", "cold"]}}, project=tmp_path)
    assert list(plan.tiers) == ["disk", "s3_0ms", "s3_20ms"]
    written = plan.as_json()
    assert written["emulated"] == ["s3_20ms"]
    far = [result for result in plan.results if result.tier == "s3_20ms"]
    assert {(result.cache, result.mode, result.emulate) for result in far} == {("warm", "run", None)}
    assert {result.loader for result in far} >= {"s3_boto3", "ring_s3"}
    assert {result.settings["fetchers"] for result in far if result.loader == "s3_boto3"} == {0, 5, 20}
    reasons = {(one["loader"], one["tier"], one["settings"].get("cache")): one["reason"] for one in written["skipped"]}
    assert reasons["npy", "s3_0ms", None] == "it reads path, and data on this tier is read by s3"
    assert reasons["ring_s3", "s3_20ms", "cold"].startswith("it is never cold: the data is in object storage")
    assert written["tiers"]["s3_20ms"]["place"]["latency_ms"] == 20 and "secret" not in str(written).lower()


def test_only_a_preset_or_the_command_line_leaves_a_tier_out(raw):
    assert "ram" not in Plan(raw, {"storage": {"ram": "null"}}).tiers
    raw["storage"]["ram"] = None
    assert "storage.ram" in refused(raw)
