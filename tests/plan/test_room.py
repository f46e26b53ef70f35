"""What a session has to write is added up for each file system, and refused where it does not fit."""

import json
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.plan import room
from scripts.plan.experiment import Plan
from tests.support.made_runs import measured

ITEMS, SAMPLES = 200, 160_000
FLOAT, PCM = 4 * SAMPLES, 2 * SAMPLES


@pytest.fixture
def raw(tmp_path) -> dict:
    """Two loaders of two formats on a disk and in RAM."""
    return {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": ITEMS}},
        "storage": {"disk": {"path": str(tmp_path / "tier")}, "ram": {"path": "/dev/shm"}},
        "loaders": ["npy", "soundfile"],
        "sweep": {"device": ["cpu"], "workers": [0], "task": ["read"], "cache": ["warm"]},
    }


def needed(plan: Plan, *loaders: str) -> dict[str, int]:
    """Return the bytes by the places that share a file system."""
    return {" ".join(found.places): found.needed for found in room.rooms(plan, loaders)}


def test_corpus_formats_and_copies_are_added_up_by_file_system(raw, tmp_path):
    plan = Plan(raw, project=tmp_path)
    both = FLOAT + PCM
    assert needed(plan) == {"results": ITEMS * both, "tier ram": ITEMS * both}, "WAV files are those of the corpus"
    assert needed(plan, "soundfile") == {"results": ITEMS * PCM, "tier ram": ITEMS * PCM}
    one = Plan({**raw, "measure": {"ram_copies": "one"}}, project=tmp_path)
    assert needed(one)["tier ram"] == ITEMS * FLOAT


def test_what_is_there_is_not_written_again(raw, tmp_path):
    plan = Plan(raw, project=tmp_path)
    for name, content in (
        ("corpus/demo/corpus", {"items": {"train": 150, "validation": 30}}),
        ("formats/demo/wav", {}),
    ):
        (tmp_path / f"results/{name}.json").parent.mkdir(parents=True)
        (tmp_path / f"results/{name}.json").write_text(json.dumps(content))
    Path(plan.location("disk", "npy").held_in).mkdir(parents=True)
    assert needed(plan)["results"] == 180 * FLOAT, "one format; a copy on its file system is the same files"
    measured(plan, plan.results)
    plan = Plan(raw, project=tmp_path)
    assert needed(plan) == {} and room.words(plan) == ""


def test_files_that_are_placed_anew_are_written_again(raw, tmp_path):
    again = Plan({**raw, "measure": {"sessions": 2}}, project=tmp_path)
    assert needed(again)["results tier disk"] == ITEMS * 2 * (FLOAT + PCM)


@pytest.mark.parametrize(("free", "fits"), [(1.0, True), (0.8, True), (0.7, False)])
def test_too_little_room_is_refused_before_anything_is_made(raw, tmp_path, monkeypatch, free, fits):
    plan = Plan(raw, project=tmp_path)
    monkeypatch.setattr(room, "free_bytes", lambda _path: round(free * ITEMS * (PCM + FLOAT)))
    if fits:
        return room.check(plan)
    with pytest.raises(UserError, match=r"0\.2 GB .* \(0\.1 GB free"):
        room.check(plan)


def test_memory_that_is_left_is_the_room_of_a_tier_in_ram(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(room.devices, "available_ram", lambda: 1000)
    with pytest.raises(UserError, match="tier ram"):
        room.check(Plan(raw, project=tmp_path))


def test_of_an_unknown_number_of_items_nothing_is_refused(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "free_bytes", lambda _path: 1)
    mine = {"dataset": "mine", "datasets": {"mine": {"source": "folder", "path": str(tmp_path)}}}
    room.check(Plan({**raw, **mine}, project=tmp_path))
