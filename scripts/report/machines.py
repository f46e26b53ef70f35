"""This machine beside others: what each is called, its best result of every loader, and what differs beside it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scripts.common.groups import first_of
from scripts.common.scenarios import scenarios
from scripts.decide.panel import asked
from scripts.report.config import code_text
from scripts.report.groups import machine_text
from scripts.report.others import data_text
from scripts.report.texts import interval_text, place, rank_text
from scripts.tables.columns import number_text

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


class Machine(NamedTuple):
    """A machine: its unique name, what it is in a few words, and its tables."""

    name: str
    about: str
    tables: Tables


def machines(tables: Tables) -> list[Machine]:
    """Return this machine and the others of `with_others`; none where there are no others.

    A machine without a name is called what it is; equal names get a number.
    """
    others = tables.get("machines") or []
    if not others:
        return []
    sessions = [tables, *(one["tables"] for one in others)]
    abouts = [_about(one["host"]["hosts"]) for one in sessions]
    names = numbered(name or about for name, about in zip(["", *(one["name"] for one in others)], abouts, strict=True))
    return [Machine(*one) for one in zip(names, abouts, sessions, strict=True)]


def _about(hosts: list[Mapping[str, Any]]) -> str:
    return machine_text(hosts) or "unknown machine"


def numbered(names: Iterable[str]) -> list[str]:
    """Return the names, those that are equal with a number behind them."""
    names = list(names)
    counts, seen = Counter(names), Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if counts[name] == 1 else f"{name} ({seen[name]})")
    return found


def loader_rows(found: Sequence[Machine]) -> list[dict[str, Any]]:
    """Return `scenario`, `loader` and `cells` of each loader: of each machine its best result there, or None.

    Of the scenarios in which at least two machines have a speed; within one, by the speed on the first machine.
    """
    best = [first_of(sorted(one.tables["best"], key=_slowness), "scenario", "loader") for one in found]
    rows = []
    for scenario in scenarios(row for one in found for row in one.tables["best"]):
        names = dict.fromkeys(loader for one in best for at, loader in one if at == scenario)
        lines = {loader: [one.get((scenario, loader)) for one in best] for loader in names}
        if sum(any(map(speed, cells)) for cells in zip(*lines.values(), strict=True)) < 2:
            continue
        for loader in sorted(lines, key=lambda name: list(map(_slowness, lines[name]))):
            rows.append({"scenario": scenario, "loader": loader, "cells": lines[loader]})
    return rows


def _slowness(row: Row | None) -> float:
    return -speed(row)


def speed(row: Row | None) -> float:
    """Return a result's items/s; 0 where it has none."""
    return (row and row["items_per_second"]) or 0.0


def compared(tables: Tables) -> dict[str, Any] | None:
    """Return what page and terminal say of several machines; None where there is but this one.

    `machines`: of each its `name`, what it is (`about`), its `fastest` result in the first `scenario` that two
    machines share (None: nothing has a speed there), and `notes`, what differs beside the machine. `rows`: as of
    `loader_rows`.
    """
    found = machines(tables)
    if not found:
        return None
    rows = loader_rows(found)
    scenario = rows[0]["scenario"] if rows else ""
    first = [row["cells"] for row in rows if row["scenario"] == scenario]
    fastest = [max(cells, key=speed) for cells in zip(*first, strict=True)] or [None] * len(found)
    return {
        "scenario": scenario,
        "scenarios": list(dict.fromkeys(row["scenario"] for row in rows)),
        "rows": rows,
        "machines": [
            {
                **{"name": one.name, "about": one.about, "fastest": row if speed(row) else None},
                "notes": list(_differences(found[0].tables, one.tables)) if number else [],
            }
            for number, (one, row) in enumerate(zip(found, fastest, strict=True))
        ],
    }


def _differences(here: Tables, there: Tables) -> Iterator[str]:
    """Yield what differs between two sessions beside the machine, and that may be in their speeds."""
    yield from _other("", data_text(there), data_text(here))
    ids = [(one["dataset"]["corpus"] or {}).get("ids_hash") for one in (here, there)]
    if ids[0] != ids[1] and data_text(here) == data_text(there):
        yield "other items, of the same number"
    yield from _other("batch size ", _batch_sizes(there), _batch_sizes(here))
    yield from _other("AU at a step of ", _step(there), _step(here))
    theirs, ours = (one["host"]["versions"] for one in (there, here))
    for name in (name for name in ours if name in theirs):
        yield from _other(f"{name} ", " and ".join(theirs[name]), " and ".join(ours[name]))
    yield from _other("commit ", code_text(there["host"]["commits"]), code_text(here["host"]["commits"]))


def _other(what: str, there: str, here: str) -> Iterator[str]:
    if there != here:
        yield f"{what}{there} (here {here})"


def _batch_sizes(tables: Tables) -> str:
    return ", ".join(map(str, sorted({row["batch_size"] for row in tables["best"] if row["batch_size"]}))) or "unknown"


def _step(tables: Tables) -> str:
    step = asked(tables, "step_ms")
    return "none" if step is None else f"{step:g} ms"


def speed_and_rank(row: Row) -> str:
    """Return the speed of a result with its interval, and its rank on its machine."""
    return f"{number_text(row['items_per_second'])} items/s ({interval_text(row)}), rank {rank_text(row)}"


def machine_lines(tables: Tables) -> Iterator[str]:
    """Yield what the terminal says of several machines; nothing where there is but this one."""
    found = compared(tables)
    if found is None:
        return
    yield " ".join(filter(None, ("On other machines, the fastest:", found["scenario"])))
    for number, one in enumerate(found["machines"]):
        about = f" ({one['about']})" if one["about"] != one["name"] else ""
        row = one["fastest"]
        said = f"{place(row)}, {speed_and_rank(row)}" if row else "nothing has a speed"
        yield f"  {one['name']}{about}{'' if number else ', this machine'}: {said}"
        if one["notes"]:
            yield f"    differs beside the machine: {'; '.join(one['notes'])}"
