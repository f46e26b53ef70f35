"""How many bytes a session still has to write, file system by file system, and whether there is room for them."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.vocabulary import PART, WHOLE
from scripts.machine import devices
from scripts.machine.copies import free_bytes, nearest_existing
from scripts.plan.experiment import Plan
from scripts.plan.sizes import FREE_SHARE, corpus_bytes, format_bytes, is_linked, items_of

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
    Copies on the file system of the results are other names of the same files, but in further sessions. A tier whose
    bytes are not on this machine is left out. Where a part of the items is measured first, formats of all items take no
    more than there is room for beside it (measure/choose_whole.py).
    """
    left = [result for result in plan.results if result.loader in (loaders or plan.loaders)]
    left = [result for result in left if not plan.settled(result, by_name=bool(loaders))]
    found: dict[int, Room] = {}

    def room_of(place: str, path: Path) -> Room:
        device = os.stat(nearest_existing(path)).st_dev
        if device not in found:
            free = free_bytes(path)
            found[device] = Room([], min(free, devices.available_ram()) if devices.in_memory(path) else free)
        found[device].places += [] if place in found[device].places else [place]
        return found[device]

    results = plan.project / "results"
    if left and not (plan.project / plan.folder("corpus") / "corpus.json").is_file():
        room_of("results", results).needed += corpus_bytes(plan)
    chosen = bool(plan.part) and not loaders  # of all items only what is chosen
    for size in (PART, WHOLE) if chosen else (WHOLE,):
        of_size = [result for result in left if result.size == size]
        formats = dict.fromkeys(result.format for result in of_size)
        written = [
            name for name in formats if not (plan.project / plan.folder("formats", size) / f"{name}.json").is_file()
        ]
        sizes = {name: 0 if is_linked(plan.formats[name]) else format_bytes(plan, name, size) for name in formats}
        wanted: dict[tuple[str, Path], int] = {("results", results): sum(sizes[name] for name in written)}
        copies: dict[str, dict[Path, int]] = {}
        for result in of_size:
            held_in = plan.location(result.tier, result.loader, size).held_in
            absent = held_in is not None and not (plan.project / held_in).exists()
            if absent and not _same_files(plan, result.tier, plan.project / held_in):
                bytes_ = format_bytes(plan, result.format, size)
                copies.setdefault(result.tier, {})[plan.project / held_in] = bytes_
        for tier, each in copies.items():
            one = plan.in_memory(tier) and plan.config["measure"]["ram_copies"] == "one" and not plan.part
            wanted[f"tier {tier}", next(iter(each))] = max(each.values()) if one else sum(each.values())
        for (place, path), needed in wanted.items():
            if needed:
                room = room_of(place, path)
                limit = plan.ram_bytes if devices.in_memory(path) else FREE_SHARE * (room.free - room.needed)
                room.needed += int(min(needed, max(0.0, limit))) if chosen and size == WHOLE else needed
    return list(found.values())


def _same_files(plan: Plan, tier: str, copy: Path) -> bool:
    """Return whether a copy is another name of the format's files: on their file system, in the first session."""
    links = hasattr(plugins.load("tiers", plan.tiers[tier]["kind"]), "place_anew")
    devices_of = {os.stat(nearest_existing(path)).st_dev for path in (copy, plan.project / "results")}
    return links and len(devices_of) == 1 and plan.config["measure"]["sessions"] == 1


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
