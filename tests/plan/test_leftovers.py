"""Copies in RAM that nobody uses any more go when a call begins; those of the call and of others stay."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.plan.experiment import Plan
from scripts.plan.leftovers import remove_from_ram
from tests.support.workflow_copy import folders


@pytest.fixture
def ram() -> Iterator[Path]:
    """An empty folder in RAM."""
    with folders() as (_, made):
        yield made


def plan_of(project: Path, **storage) -> Plan:
    demo = {"dataset": "demo", "datasets": {"demo": {"source": "synthetic", "clips": 8}}}
    return Plan({**demo, "storage": storage, "loaders": ["npy", "soundfile"]}, project=project)


def placed(plan: Plan) -> dict[str, Path]:
    """Make a copy for each loader on the tier `ram` as place_format does, with its record, and return them."""
    made = {}
    for loader, format in (("npy", "npy"), ("soundfile", "wav")):
        place = plan.location("ram", loader)
        (place.held_in / "train").mkdir(parents=True)
        record = plan.project / f"results/placed/demo/ram/{format}.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"uri": place.uri}))
        made[loader] = place.held_in
    return made


def test_what_the_call_reads_stays_and_a_half_copy_goes(tmp_path, ram):
    plan = plan_of(tmp_path, ram={"path": str(ram)})
    copies = placed(plan)
    half = copies["npy"].with_name(".wav.partial-1")
    half.mkdir()
    of_another = copies["npy"].parents[1] / "other" / "npy"
    of_another.mkdir(parents=True)
    assert remove_from_ram(plan) == [half, of_another.parent]
    assert all(copy.is_dir() for copy in copies.values())
    assert remove_from_ram(plan) == []


@pytest.mark.parametrize("sub", ["", "a b"])
def test_without_the_tier_nothing_of_this_checkout_stays(tmp_path, ram, sub):
    copies = placed(plan_of(tmp_path, ram={"path": str(ram / sub)}))
    checkout = copies["npy"].parents[1]
    another = checkout.with_name("feedrate-01234567")
    another.mkdir()
    disk = {"path": str(tmp_path / "tier")}
    assert remove_from_ram(plan_of(tmp_path, disk=disk)) == [checkout]
    assert another.is_dir() and not checkout.exists()


def test_copies_on_a_disk_stay(tmp_path):
    with folders() as (disk, _):
        copies = placed(plan_of(tmp_path, ram={"path": str(disk / "tier")}))
        assert remove_from_ram(plan_of(tmp_path, disk={"path": str(disk / "other")})) == []
        assert all(copy.is_dir() for copy in copies.values())
