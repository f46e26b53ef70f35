"""How many bytes a session still has to write, file system by file system, and whether there is room for them."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.machine import devices
from scripts.machine.copies import free_bytes, nearest_existing
from scripts.plan.estimate import items_of
from scripts.plan.experiment import Plan

GONE_SHARE = 0.25  # of the items that a source expects so many may never come: no reason to refuse


@dataclass
class Room:
    """What is to be written to one file system."""

    places: list[str]  # on it: the results' folder, tiers by name
    free: int  # bytes
    needed: int = 0  # bytes

    def words(self) -> str:
        """Return it as a part of a line."""
        return f"{self.needed / 1e9:,.1f} GB for {' and '.join(self.places)} ({self.free / 1e9:,.1f} GB free)"


def rooms(plan: Plan, loaders: Collection[str] = ()) -> list[Room]:
    """Return what is still to be written for results without a run, of `loaders` where some are given.

    The corpus counts as whole items of 16 bits, a format and its copies by what an item takes, of encoded images about.
    A tier whose bytes are not on this machine is left out.
    """
    items, _ = items_of(plan)
    left = [result for result in plan.results if result.loader in (loaders or plan.loaders)]
    left = [result for result in left if not plan.settled(result)]
    found: dict[int, Room] = {}

    def add(place: str, path: Path, bytes_per_item: int) -> None:
        device = os.stat(nearest_existing(path)).st_dev
        if device not in found:
            free = free_bytes(path)
            found[device] = Room([], min(free, devices.available_ram()) if devices.in_memory(path) else free)
        found[device].places += [] if place in found[device].places else [place]
        found[device].needed += items * bytes_per_item

    results = plan.project / "results"
    if left and not (plan.project / plan.folder("corpus") / "corpus.json").is_file():
        add("results", results, plan.sample.file_bytes)
    sizes = {name: plugins.takes(module, plan.sample) for name, module in plan.formats.items()}
    for name in dict.fromkeys(result.format for result in left):
        if not (plan.project / plan.folder("formats") / f"{name}.json").is_file():
            add("results", results, sizes[name])
    copies: dict[str, dict[Path, int]] = {}
    for result in left:
        held_in = plan.location(result.tier, result.loader).held_in
        if held_in is not None and not (plan.project / held_in).exists():
            copies.setdefault(result.tier, {})[plan.project / held_in] = sizes[result.format]
    for tier, each in copies.items():
        one = plan.in_memory(tier) and plan.config["measure"]["ram_copies"] == "one"
        add(f"tier {tier}", next(iter(each)), max(each.values()) if one else sum(each.values()))
    return list(found.values())


def words(plan: Plan, loaders: Collection[str] = ()) -> str:
    """Return what is to be written as a line for the terminal, empty for nothing."""
    parts = [room.words() for room in rooms(plan, loaders) if room.needed]
    return f"To be written: about {'; '.join(parts)}." if parts else ""


def check(plan: Plan, loaders: Collection[str] = ()) -> None:
    """Raise UserError where a file system has too little room; of an unknown number of items nothing is known."""
    items, counted = items_of(plan)
    indexed = (plan.project / plan.folder("corpus") / "corpus.json").is_file()
    share = 1.0 if indexed else 1.0 - GONE_SHARE
    short = [room for room in rooms(plan, loaders) if counted and share * room.needed > room.free]
    if short:
        raise UserError(
            f"found too little room for {items:,} items: {'; '.join(room.words() for room in short)}. Free some space, "
            "use fewer items or loaders, or set a path on a larger file system. To leave a tier out, type "
            "storage='{NAME: null}' behind --config; to hold one copy in RAM at a time, measure='{ram_copies: one}'."
        )
