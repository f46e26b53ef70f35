"""Chooses which results are measured with all items, by the speeds of a part of them.

    python -m scripts.measure.choose_whole --plan PLAN.json --out results/runs/demo/whole.json

What is within a factor of two of the fastest (at least four loaders), and the current loader, as far as disks and RAM
have room: the current loader first, then the faster ones before others. Where that leaves fewer than four loaders, the
fastest of those for which there is room. The file names the results, and of the others why they are not.
"""

import argparse
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.common.groups import first_of
from scripts.common.location import from_json
from scripts.common.plan_file import read_plan
from scripts.common.vocabulary import NO_ROOM, PART, RAM_FULL, SLOWER
from scripts.machine.copies import nearest_existing
from scripts.plan.planned import Planned
from scripts.plan.results import Result
from scripts.plan.sizes import FREE_SHARE
from scripts.tables.chain import chain

VERSION = 2
NEAR, LEAST_LOADERS = 2.0, 4  # times as slow as the fastest, at most; so many loaders, however slow

Row = Mapping[str, Any]


def near(rows: list[Row], now: str | None) -> Iterator[Row]:
    """Yield the rows with speeds that are near the fastest of their device, the current loader's fastest first.

    These are at least LEAST_LOADERS loaders, for another size may have another order. Of a loader that is the fastest,
    and whatever has fewer workers than those that are faster.
    """
    for device in dict.fromkeys(row["device"] for row in rows):
        found = sorted((one for one in rows if one["device"] == device), key=lambda one: -one["items_per_second"])
        own = [one for one in found if one["loader"] == now][:1]
        fast = [one for one in found if one["items_per_second"] * NEAR >= found[0]["items_per_second"]]
        first = [*first_of(found, "loader").values()][:LEAST_LOADERS]
        fast += [one for one in first if one not in fast]
        seen: dict[str, int] = {}
        for row in (*own, *fast):
            if row["loader"] not in seen or (row["workers"] or 0) < seen[row["loader"]]:
                seen[row["loader"]] = row["workers"] or 0
                yield row


class Room:
    """What is still to be written, file system by file system, and in RAM."""

    def __init__(self, plan: Planned, root: Path) -> None:
        self.plan, self.root = plan, root
        self.free: dict[int, float] = {}
        self.in_ram, self.cached = 0, 0  # bytes: of copies in RAM, of the largest format that is read from a disk
        self.taken: set[Path] = set()

    def take(self, result: Result) -> str | None:
        """Take the room of a result's format and copy; return the code of why there is none, or None."""
        size, location = self.plan.content["part"]["bytes"][result.format], from_json(result.location)
        written, copy = self.root / result.written, location.held_in and self.root / location.held_in
        wanted: dict[Path, int] = {}
        if not written.with_name(f"{written.name}.json").is_file():
            wanted[written] = 0 if result.format in self.plan.content["part"]["linked"] else size
        if copy and location.in_memory:
            part, ram = self.plan.content["part"], self.in_ram + size
            if copy not in self.taken and (ram > part["ram_bytes"] or ram + self.cached > part["cached_bytes"]):
                return RAM_FULL
        elif copy and self._device(copy) != self._device(written) and not copy.exists():
            wanted[copy] = size
        wanted = {path: size for path, size in wanted.items() if path not in self.taken}
        by_device: dict[int, int] = {}
        for path, bytes_ in wanted.items():
            by_device[self._device(path)] = by_device.get(self._device(path), 0) + bytes_
        if any(self._free(device, path) < by_device[device] for path in wanted for device in [self._device(path)]):
            return NO_ROOM
        for device, bytes_ in by_device.items():
            self.free[device] -= bytes_
        if copy and not location.in_memory:
            self.cached = max(self.cached, size)
        elif copy and copy not in self.taken:
            self.in_ram += size
            self.taken.add(copy)
        self.taken |= wanted.keys()
        return None

    @staticmethod
    def _device(path: Path) -> int:
        return os.stat(nearest_existing(path)).st_dev

    def _free(self, device: int, path: Path) -> float:
        return self.free.setdefault(device, FREE_SHARE * shutil.disk_usage(nearest_existing(path)).free)


def choose(plan: Planned, root: Path = Path()) -> dict[str, Any]:
    """Return {"results": ids of those to measure with all items, "left_out": {id: code}}."""
    whole = [one for one in plan.results.values() if one.size != PART]
    parts = {one.id for one in plan.results.values() if one.size == PART}
    ranking = chain(plan.content, root, of=parts).ranking if parts else []
    read = [row for row in ranking if row["size"] == PART and row["items_per_second"]]
    read = [row for row in read if (row["task"], row["cache"], row["step_ms"]) == ("read", "warm", 0)]
    room, found = Room(plan, root), {"results": [], "left_out": {one.id: SLOWER for one in whole}}
    wanted = [*near(read, plan.config["report"]["now"])]
    further = first_of(sorted(read, key=lambda row: -row["items_per_second"]), "device", "loader").values()
    depends = {one.id: one.if_leads for one in whole}
    # What is cold with all items depends on the same from a warm cache, and that on a part of them.
    leads = {one.id: depends.get(one.if_leads) or one.if_leads for one in whole}
    always = [one for one in whole if leads[one.id] is None]

    def of(rows: Iterable[Row]) -> list[Result]:
        led = [f"{row['tier']}/{row['loader']}/{row['slug']}" for row in rows]
        return [one for lead in led for one in whole if leads[one.id] == lead]

    def take(results: Iterable[Result]) -> None:
        for result in results:
            code = room.take(result)
            if code:
                found["left_out"][result.id] = code
            else:
                found["results"].append(result.id)
                found["left_out"].pop(result.id)

    asked = [*always, *of(wanted)]
    # Copies in RAM come last: they take room from the page cache, in which the files on disks are to stay.
    take(one for one in asked if not one.location.get("in_memory"))
    for row in further:  # the fastest of those for which there is room, where there is none for faster ones
        measured = {one.split("/")[1] for one in found["results"]}
        if row not in wanted and len(measured) < LEAST_LOADERS:
            take(one for one in of([row]) if not one.location.get("in_memory"))
    take(one for one in asked if one.location.get("in_memory"))
    return found


def main() -> None:
    """Write which results are measured with all items, and print how many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json, as the workflow wrote it")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    found = choose(Planned(read_plan(arguments.plan)))
    write_json(arguments.out, found)
    loaders = list(dict.fromkeys(result.split("/")[1] for result in found["results"]))
    print(f"measured with all items: {', '.join(loaders)}")


if __name__ == "__main__":
    run_main(main)
