"""Data in object storage: stream it, cache it or copy it first? Reckoned from what was measured here."""

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.common.statistics import Comparison
from scripts.common.text import duration_text
from scripts.common.vocabulary import OBJECTS, SPLIT
from scripts.decide.capacity import able_of, yours_of
from scripts.decide.panel import asked, compared, in_memory, key, main_panel, natural_bytes
from scripts.report.texts import place, times_text
from scripts.tables.columns import number_text

SHARES = (0.25, 0.5, 0.75, 1.0)  # of the data, that a cache on a local disk holds
INSTANT = 1.0  # epochs

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def away(tables: Tables) -> list[dict[str, Any]]:
    """Return of each tier of object storage and device what to do with data there; none where nothing read from it.

    - `row`: its fastest result. `local`: the fastest from a disk of this machine, None of none. `text`: the answer.
    - `epoch_seconds`, `local_seconds`: of an epoch, streamed and from the local copy. `copy_seconds`: fetching every
      item once at the most that raw GETs gave; a copy that is written takes longer. None where it is not known.
    - `break_even_epochs`: from which on copying first takes less time in all; None where it never does, or where that
      is not known.
    - `caches`: of each of SHARES the `bytes` that the cache holds, those that are still read of the storage in an epoch
      (`left_bytes`), and `epoch_seconds`; reckoned with a cache that keeps what it has, which one that drops the
      oldest does not reach. Empty without a local result.

    - `bytes`: of the data, in the format of `local` or of `row`; None where they are not known.

    All scaled to `report.gigabytes` where the config names the size of the user's own data, as it is stored in the
    corpus (audio as 16-bit samples).
    """
    remote = [one["tier"] for one in tables["tiers"] if one["kind"] == OBJECTS]
    devices = dict.fromkeys(row["device"] for row in tables["best"])
    return [found for device in devices for tier in remote for found in _of(tables, device, tier, remote)]


def _of(tables: Tables, device: str, tier: str, remote: list[str]) -> Iterator[dict[str, Any]]:
    rows = [row for row in main_panel(tables["best"], device) if row["items_per_second"]]
    here = [row for row in rows if row["tier"] == tier]
    if not here:
        return
    row = max(here, key=_speed)
    beside = [one for one in rows if one["tier"] not in remote and not in_memory(tables, one["tier"])]
    shares = {key(one): _share_of_speed(tables, one) for one in beside}
    beside = [one for one in beside if shares[key(one)]]
    local = max(beside, key=lambda one: shares[key(one)] * _speed(one), default=None)
    size, items = _size(tables, local or row)
    found = {"tier": tier, "row": row, "local": local, "bytes": size, "epoch_seconds": items / _speed(row)}
    found |= dict.fromkeys(("local_seconds", "copy_seconds", "break_even_epochs")) | {"caches": []}
    if local is None:
        yield found | {"text": f"{place(row)} streams {number_text(_speed(row))} items/s; {_LACKING}"}
        return
    gets = [one["items_per_second"] for one in tables["bounds"] if (one["bound"], one["tier"]) == ("storage", tier)]
    share = shares[key(local)]
    found["local_seconds"] = items / (share * _speed(local))
    found["copy_seconds"] = items / max(gets) if gets else None
    ratio = _times(compared(tables, row).compare(key(local), key(row)), share)
    if ratio.faster:
        saved = found["epoch_seconds"] - found["local_seconds"]
        found["break_even_epochs"] = found["copy_seconds"] and found["copy_seconds"] / saved
        found["caches"] = [_cache(found, share, size) for share in SHARES] if size else []
    yield found | {"text": _text(found, ratio) + (_LIMITED if share < 1 else "")}


_LACKING = "whether a local copy would be faster was not measured: add a tier on a disk."


_LIMITED = " The data does not fit into memory: the local epoch is what its storage gives, which no loader passes."


def _share_of_speed(tables: Tables, row: Row) -> float:
    """Return what part of its measured speed a local result has on the user's own data: 1 where that fits into memory.

    Else its storage limits it; 0: it keeps all in memory, or what its storage gives is not known.
    """
    size, _ = _size(tables, row)
    yours = yours_of(tables, row["batch_size"])
    if not yours.gigabytes or not yours.ram_gigabytes or not size or size <= 1e9 * yours.ram_gigabytes:
        return 1.0
    storage_ms = able_of(tables, row).storage_ms(yours)
    if row["declared"]["preloads"] or not storage_ms:
        return 0.0
    return min(1.0, 1000 / storage_ms / _speed(row))


def _times(found: Comparison, share: float) -> Comparison:
    """Return a comparison whose first result has but a share of its speed."""
    ends = (None if end is None else share * end for end in (found.low, found.high))
    return Comparison(share * found.ratio, *ends)


def _speed(row: Row) -> float:
    return row["items_per_second"]


def _size(tables: Tables, row: Row) -> tuple[float | None, float]:
    """Return the bytes of the data in the format of a result, None where they are not known, and its items."""
    corpus, wanted = tables["dataset"]["corpus"], asked(tables, "gigabytes")
    items = 1e9 * wanted / natural_bytes(corpus) if wanted else corpus["items"][SPLIT]
    written = next((one for one in tables["formats"] if one["format"] == row["format"] and one["bytes"]), None)
    if not written:
        return None, items
    return items * written["bytes"] / written["items"], items


def _cache(found: Row, share: float, size: float) -> dict[str, float]:
    seconds = share * found["local_seconds"] + (1 - share) * found["epoch_seconds"]
    return {"share": share, "bytes": share * size, "left_bytes": (1 - share) * size, "epoch_seconds": seconds}


def _text(found: Row, ratio: Comparison) -> str:
    row, local = found["row"], found["local"]
    streamed = f"{place(row)} takes {duration_text(found['epoch_seconds'])} an epoch"
    copied = f"{place(local)} {duration_text(found['local_seconds'])}"
    if not ratio.faster:
        how = "which is faster" if ratio.slower else "and the two are not distinguishable"
        return f"Stream it: {streamed}, {copied}, {how}. A copy gains no time here."
    gain = f"{streamed}, {copied}, {times_text(ratio.low, ratio.high)} faster"
    fits = "A cache that holds all of it makes the second epoch a local one"
    if found["break_even_epochs"] is None:
        return f"Copy or cache it: {gain}. How long a copy takes was not measured. {fits}."
    takes = f"fetching all of it takes at least {duration_text(found['copy_seconds'])}"
    if found["break_even_epochs"] <= INSTANT:
        return f"Copy it first, even for one epoch: {gain}, and {takes}. {fits}, but not the first."
    epochs = number_text(found["break_even_epochs"])
    return f"Stream up to {epochs} epochs, copy or cache for more: {gain}, and {takes}. {fits}."
