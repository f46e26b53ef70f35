"""What is measured with all items: what a part of them shows to be near the fastest, as far as there is room."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from scripts.common.files import read_json, write_json
from scripts.common.vocabulary import NO_ROOM, PART, RAM_FULL, SLOWER, WHOLE
from scripts.measure import choose_whole
from scripts.plan import sizes
from scripts.plan.experiment import MAIN, Plan
from scripts.plan.planned import Planned

GIGA = 10**9
FLOAT = 20_000 * 640_000  # bytes of a format of float32
SPEEDS = {"ring": 9000.0, "lazy_memmap": 8000.0, "npy": 5000.0, "webdataset": 900.0, "soundfile": 300.0}


@pytest.fixture
def plan(tmp_path, monkeypatch) -> Plan:
    """Five loaders of five formats on a disk and in RAM, of 20,000 items, on a machine with 24 GB of memory."""
    monkeypatch.setattr(sizes, "memory_bytes", lambda: 24 * GIGA)
    monkeypatch.setattr("scripts.plan.experiment.memory_bytes", lambda: 24 * GIGA)
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 20_000}},
        "storage": {"ram": {"path": "/dev/shm"}, "disk": {"path": str(tmp_path / "tier")}},
        "loaders": [*SPEEDS],
        "sweep": {"device": ["cpu"], "workers": [0, 2], "task": ["read", "train"], "cache": ["warm", "cold"]},
        "report": {"now": "soundfile", "step_ms": 20},
    }
    return Plan(raw, project=tmp_path)


def chosen(plan, monkeypatch, free=10**12, speeds=SPEEDS):
    """What is chosen where each loader has this speed with two workers, and but ring a tenth of it without."""

    def chain(content, _root, of):
        rows = []
        for row in content["results"]:
            if row["id"] in of and row["task"] == "read":
                share = 1.0 if row["settings"]["workers"] else 0.9 if row["loader"] == "ring" else 0.1
                about = {key: row[key] for key in ("loader", "tier", "slug", "size", "task", "cache", "step_ms")}
                rows.append({**about, **row["settings"], "items_per_second": speeds[row["loader"]] * share})
        return namedtuple("Chain", "ranking")(rows)

    monkeypatch.setattr(choose_whole, "chain", chain)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: namedtuple("Usage", "free")(free))
    return choose_whole.choose(Planned(plan.as_json()), plan.project)


def loaders(found, tier="disk"):
    return list(dict.fromkeys(one.split("/")[1] for one in found["results"] if one.startswith(tier)))


def test_a_plan_of_more_than_memory_holds_measures_a_part_first(plan):
    assert plan.part == 1000 and set(plan.groups) == {MAIN, PART}
    part = [run for run in plan.results if run.size == PART]
    assert {run.loader for run in part} == set(SPEEDS) and {run.tier for run in part} == {"disk"}, "a disk, one tier"
    assert {(run.task, run.cache) for run in part} == {("read", "warm"), ("train", "warm")}
    assert all(run.corpus == "results/corpus/demo/part" and "/part/" in run.written for run in part)
    whole = [run for run in plan.results if run.size == WHOLE]
    assert {run.task for run in whole} == {"read"}, "a training of all items takes long"
    assert {run.if_leads.endswith("-part") for run in whole if run.cache == "warm"} == {True}
    proofs = {proof.path: proof for proof in plan.proofs.values()}
    assert len(proofs) == len(plan.proofs) and {proof.size for proof in proofs.values()} == {PART, WHOLE}
    assert all(proofs[run.proof].location == run.location for run in plan.results)


def test_what_is_near_the_fastest_and_the_current_loader_are_measured_with_all_items(plan, monkeypatch):
    found = chosen(plan, monkeypatch)
    assert loaders(found) == ["soundfile", "ring", "lazy_memmap", "npy", "webdataset"], (
        "and at least four, of any speed"
    )
    assert {code for one, code in found["left_out"].items() if one.startswith("disk")} == {SLOWER}
    of_ring = [one for one in found["results"] if "/ring/" in one]
    assert {one.endswith("-cold") for one in of_ring} == {True, False}, "from a cold cache too, where it leads"
    assert {"w0" in one for one in of_ring} == {True, False}, "with fewer workers where that is as fast"
    assert not [one for one in found["results"] if "/npy/" in one and "w0" in one], "without workers it is far behind"
    every = {run.id for run in plan.results if run.size == WHOLE}
    assert {*found["results"], *found["left_out"]} == every and not {*found["results"]} & {*found["left_out"]}


def test_faster_loaders_have_the_room_that_there_is_and_others_say_why_not(plan, monkeypatch):
    found = chosen(plan, monkeypatch, free=2.5 * FLOAT)  # four fifths of it may be written: two formats
    assert loaders(found) == ["soundfile", "ring", "lazy_memmap"], "WAV files are those of the corpus"
    assert {found["left_out"][one] for one in found["left_out"] if "/npy/" in one and "w2" in one} == {NO_ROOM}
    nothing = chosen(plan, monkeypatch, free=1000)
    assert loaders(nothing) == ["soundfile"]


def test_where_there_is_no_room_for_the_fastest_the_next_ones_are_measured_that_fit(plan, monkeypatch):
    slow = {**SPEEDS, "webdataset": 4000.0, "torchaudio": 350.0, "spdl": 340.0, "dali_wav": 330.0, "spdl_dataset": 1.0}
    raw = {**plan.config, "loaders": [*slow]}
    found = chosen(Plan(raw, project=plan.project), monkeypatch, free=1000, speeds=slow)
    assert loaders(found) == ["soundfile", "torchaudio", "spdl", "dali_wav"], "their files are the corpus's own"
    assert {code for one, code in found["left_out"].items() if "disk/ring/" in one} == {NO_ROOM}


def test_a_format_that_is_there_takes_no_room(plan, monkeypatch):
    write_json(plan.project / "results" / "formats" / "demo" / "memmap.json", {"bytes": FLOAT})
    found = chosen(plan, monkeypatch, free=1.3 * FLOAT)
    assert loaders(found) == ["soundfile", "ring", "lazy_memmap"]


def test_copies_in_ram_share_half_of_the_memory(plan, monkeypatch):
    """13 GB are never planned for RAM; of smaller formats the current loader's comes first."""
    reasons = {row["reason"] for row in plan.skipped if row["tier"] == "ram" and row["settings"] == {"cache": "warm"}}
    assert len(reasons) == 1 and "12.8 GB, and copies in RAM may take 12.0 GB" in reasons.pop()
    found = chosen(plan, monkeypatch, speeds=dict.fromkeys(SPEEDS, 1000.0))
    assert loaders(found, "ram") == ["soundfile"]
    full = {one for one, code in found["left_out"].items() if code == RAM_FULL}
    assert {one.split("/")[1] for one in full} == {"webdataset"}, "6.4 GB beside 6.4 GB"


def test_what_memory_cannot_hold_is_measured_cold(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "memory_bytes", lambda: 8 * GIGA)
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 20_000}},
        "storage": {"disk": {"path": str(tmp_path / "tier")}},
        "loaders": ["ring", "soundfile", "webdataset"],
        "sweep": {"device": ["cpu"], "workers": [0], "task": ["read"], "cache": ["warm"]},
    }
    plan = Plan(raw, project=tmp_path)
    whole = {run.loader: run.cache for run in plan.results if run.size == WHOLE}
    assert whole == {"ring": "cold", "soundfile": "warm", "webdataset": "warm"}
    assert [(row["loader"], row["settings"]) for row in plan.skipped] == [("ring", {"cache": "warm"})]
    (cold,) = [run for run in plan.results if run.cache == "cold"]
    assert cold.if_leads == f"disk/ring/{cold.slug.removesuffix('-cold')}-part"


@pytest.mark.parametrize(("asked", "part"), [("auto", 1000), ("none", None), (300, 300), (30_000, None)])
def test_how_many_items_the_part_has(plan, asked, part):
    raw = {**plan.config, "measure": {**plan.config["measure"], "part": asked}}
    again = Plan(raw, project=plan.project)
    assert again.part == part and (PART in again.groups) == bool(part)


def test_data_that_memory_can_hold_is_measured_at_once(plan):
    small = {**plan.config, "datasets": {"demo": {"source": "synthetic", "clips": 900}}}
    assert Plan(small, project=plan.project).part is None


def test_what_was_not_chosen_is_not_left_to_measure(plan, monkeypatch):
    found = chosen(plan, monkeypatch)
    write_json(plan.project / plan.folder("runs") / "whole.json", found)
    again = Plan(plan.config, project=plan.project)
    assert again.not_chosen == frozenset(found["left_out"])
    assert {again.sessions_left(run) for run in again.results if run.id in found["left_out"]} == {0}
    assert read_json(Path(plan.project, plan.folder("runs"), "whole.json"))["results"]
