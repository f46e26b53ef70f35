"""Rows of break_even.csv: after how many epochs a faster format has paid for its conversion.

What a format costs to prepare is `seconds` of formats.csv alone: writing it from the corpus, once, on this machine.
What comes before is the same for all formats, and copying to a tier is not counted.
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from scripts.common.groups import first_of, grouped, key_of
from scripts.common.vocabulary import SCENARIO_KEYS, ranks_of
from scripts.decide.rounds import FINAL_ERROR, Table
from scripts.decide.sessions import table_of

Row = dict[str, Any]
ALONE = "no other format was measured here"
CHEAPEST = "itself the cheapest to prepare"
SLOWER = "slower: it never pays"
UNTOLD = "not distinguishable in speed: whether it ever pays is not known"


def rows(best: Iterable[Mapping[str, Any]], formats: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield a row for each device, tier and format that was written and has a verified speed.

    `best`: rows as `ranking.best` gives them, with their `speeds`; those that read from a warm cache without a step
    count. `formats`: rows of formats.csv. A format stands for its fastest loader; an epoch reads all items that were
    written. It is held against the cheapest to prepare, and the cheapest itself, where it is also the fastest, against
    the next cheapest: it pays at once (0 epochs). Which is faster is told as ranks are, from one comparison of all
    results of a device. `break_even_epochs` is None with a reason where a format never pays, is itself the cheapest or
    alone, or are not distinguishable in speed.
    """
    written = {one["format"]: one for one in formats if one["seconds"] is not None and one["items"]}
    plain = ("ok", 1, "read", "warm", 0)
    measured = [row for row in best if (row["status"], ranks_of(row), *(row[key] for key in SCENARIO_KEYS)) == plain]
    measured = [row for row in measured if not row.get("transform")]
    measured.sort(key=lambda row: (row["device"], row["tier"], -row["items_per_second"]))
    for beside in grouped(measured, "device").values():
        table = table_of({key_of(row): row["speeds"] for row in beside}, FINAL_ERROR)
        for same in grouped((row for row in beside if row["format"] in written), "tier").values():
            fastest = first_of(same, "format").items()
            costs = [_costs(row, written[name]) for name, row in fastest]
            yield from _held_against(sorted(costs, key=itemgetter("prepare_seconds", "epoch_seconds")), table)


def _costs(row: Mapping[str, Any], written: Mapping[str, Any]) -> Row:
    names = {key: row[key] for key in ("device", "tier", "format", "loader", "slug")}
    seconds = written["items"] / row["items_per_second"]
    return {**names, "prepare_seconds": written["seconds"], "epoch_seconds": seconds}


def _held_against(costs: list[Row], table: Table) -> Iterator[Row]:
    """Yield the rows of one device and tier, the cheapest to prepare first."""
    cheapest, *others = costs
    if not others:
        yield cheapest | {"break_even_epochs": None, "reason": ALONE}
    elif all(table.compare(key_of(cheapest), key_of(other)).faster for other in others):
        yield _pair(cheapest, others[0], table)
    else:
        yield cheapest | {"break_even_epochs": None, "reason": CHEAPEST}
    for other in others:
        yield _pair(other, cheapest, table)


def _pair(one: Row, other: Row, table: Table) -> Row:
    columns = ("format", "loader", "prepare_seconds", "epoch_seconds")
    row = one | {f"against_{column}": other[column] for column in columns}
    found = table.compare(key_of(one), key_of(other))
    if not found.faster:
        return row | {"break_even_epochs": None, "reason": SLOWER if found.slower else UNTOLD}
    dearer, sooner = one["prepare_seconds"] - other["prepare_seconds"], other["epoch_seconds"] - one["epoch_seconds"]
    return row | {"break_even_epochs": max(0.0, dearer / sooner), "reason": ""}
