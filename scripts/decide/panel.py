"""What the decision asks the tables: which results stand in one scenario, where their files are, what the user said."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scripts.common import sample
from scripts.common.counting import Name, Round
from scripts.common.scenarios import scenario_order, scenarios
from scripts.common.vocabulary import COLD, RAM, RANDOM, UNKNOWN

if TYPE_CHECKING:
    from scripts.decide.choice import Compared

Row = Mapping[str, Any]
Rows = Sequence[Row]
Tables = Mapping[str, Any]


def key(row: Row) -> Name:
    """Return what names a result: its loader, tier and slug."""
    return Name(row["loader"], row["tier"], row["slug"])


def asked(tables: Tables, name: str) -> Any:
    """Return what the config says below `report`."""
    return tables["dataset"]["report"].get(name)


def devices(tables: Tables) -> list[str]:
    """Return the devices that were measured, the CPU first; one empty name where nothing was."""
    rows = sorted((row for row in tables["best"] if row["scenario"]), key=scenario_order)
    return list(dict.fromkeys(row["device"] for row in rows)) or [""]


def main_panel(rows: Rows, device: str) -> Rows:
    """Return the device's rows in its first scenario with a speed: reading from a warm cache, where that ran.

    Where nothing has a speed it is the first scenario in which anything ran, else the first that there is.
    """
    own = [row for row in rows if row["device"] == device and row["scenario"]]
    ran = [row for row in own if row["status"] != "skipped"]
    names = scenarios(with_speed(ran)) or scenarios(ran) or scenarios(own)
    return [row for row in own if row["scenario"] == names[0]] if names else []


def with_speed(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that have a speed."""
    return [row for row in rows if row["items_per_second"]]


def speeds_of(tables: Tables, rows: Iterable[Row]) -> dict[Name, dict[Round, float]]:
    """Return {name: {round: items per second}} of results, of the runs that count."""
    speeds: dict[Name, dict[Round, float]] = {key(one): {} for one in rows}
    for run in tables["runs"]:
        if run["counts"] and key(run) in speeds:
            speeds[key(run)][Round(run["session"], run["repeat"])] = run["items_per_second"]
    return speeds


def compared(tables: Tables, row: Row) -> "Compared":
    """Return the comparison of a result with all of its scenario at once.

    Whatever a report says of how many times faster one is than another comes from here. From a warm cache the files of
    every local tier are in memory: there loaders are compared over their tiers (decide/choice.py).
    """
    from scripts.decide.choice import Compared  # which needs NumPy

    beside = with_speed(one for one in tables["best"] if one["scenario"] == row["scenario"])
    settings = with_speed(one for one in tables["ranking"] if one["scenario"] == row["scenario"])
    tiers = {one["tier"] for one in settings}
    together = len(tiers) > 1 and all(_from_memory(tables, one) for one in settings)
    return Compared(speeds_of(tables, (*beside, row)), speeds_of(tables, settings), together)


def _from_memory(tables: Tables, row: Row) -> bool:
    """Return whether a result read files that its machine's memory held, on a tier that is not emulated."""
    local = any(one["tier"] == row["tier"] and one["path"] for one in tables["tiers"])
    return row["cache"] not in COLD and local and not row["emulated"]


def in_memory(tables: Tables, tier: str) -> bool:
    """Return whether the files of a tier are in memory, as on tmpfs."""
    return any(one["tier"] == tier and re.fullmatch(RAM, one["filesystem"] or "") for one in tables["tiers"])


def holds_everything(tables: Tables, row: Row) -> bool:
    """Return whether a result holds the whole data set in memory: by its tier, or by itself."""
    return bool(in_memory(tables, row["tier"]) or row["declared"]["preloads"])


def in_random_order(row: Row) -> bool:
    """Return whether a loader's order is random, as it was measured; as declared where too little was seen."""
    measured = row["order_measured"] or UNKNOWN
    return measured == RANDOM or (measured == UNKNOWN and row["declared"]["order"] == RANDOM)


def had_now(tables: Tables, row: Row) -> Row | None:
    """Return the best result in the row's scenario of the loader that `report.now` names, or None."""
    now = asked(tables, "now")
    rows = [one for one in tables["best"] if (one["scenario"], one["loader"]) == (row["scenario"], now)]
    return max(with_speed(rows), key=lambda one: one["items_per_second"], default=None)


def natural_bytes(corpus: Mapping[str, Any]) -> float:
    """Return the bytes of an item as it is stored in its natural length, on average; of audio as 16-bit samples.

    Padding is no data: a format that pads takes more than the user's data, one that does not is not compressed.
    """
    item = sample.from_json(corpus["sample"])
    if item.kind != "audio":
        return float(item.stored_bytes)
    items = sum(corpus["items"].values())
    return item.stored_bytes * corpus["audio_seconds"] / (corpus["seconds"] * items)
