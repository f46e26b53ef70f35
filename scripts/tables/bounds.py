"""What the hardware allows: the bounds that were measured, and which of them applies to a result.

`in_memory`: the consumer on batches that stream through memory, in the process of each run. `storage`: what fio
reads from a tier at an item's size, with as many readers as the loader keeps reads under way; of object storage, what
raw GETs of such objects give with as many in flight. `compute`: the steps alone, if nothing had to be waited for.
`decode`: decoding alone, by what a loader saves when it leaves decoding out.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scripts.common.files import block_of
from scripts.common.groups import grouped, names_of, speed_columns
from scripts.tables import bottlenecks
from scripts.tables.columns import in_flight

GET = "get"  # the pattern of raw GETs in a profile
Row = dict[str, Any]
Record = Mapping[str, Any]


def rows(
    plan: Mapping[str, Any], records: Iterable[Record], tiers: Mapping[str, Record | None], sizes: Mapping[str, int]
) -> Iterator[Row]:
    """Yield the rows of bounds.csv: the in-memory ceilings, without a speed where none could be measured, and storage.

    `records`: those of the control runs. `tiers`: the profiles. `sizes`: the bytes that an item takes in each format.
    Of objects of another size than those that were measured nothing is said: larger ones come more slowly. No column is
    `method`: raw GETs apply to every cache.
    """
    yield from _memory_rows(plan, records)
    counts = sorted({max(1, entry["settings"]["workers"] or 0) for entry in plan["results"]})
    formats = {
        size: ", ".join(sorted(name for name in sizes if sizes[name] == size)) for size in sizes.values() if size
    }
    for tier, profile in tiers.items():
        reads = ((profile or {}).get("fio") or {}).get("reads") or []
        measured = [(size, count, storage(reads, size, count), "") for size in sorted(formats) for count in counts]
        gets = [(read["block_bytes"], read["readers"], _speed(read), GET) for read in reads if read["pattern"] == GET]
        for size, readers, speed, method in (*gets, *measured):
            if size in formats and speed is not None:
                names = {"tier": tier, "formats": formats[size], "readers": readers, "method": method}
                yield {"bound": "storage", **names, **speed_columns([speed])}


def stored_bytes(record: Record) -> int | None:
    """Return the bytes that an item takes in a format that was written: its payload, or less where it is encoded.

    None: nobody knows how many items files of the user's own hold.
    """
    if record["item_bytes"] is None:
        return None
    if not record["items"] or record["bytes"] is None:  # it could not be written
        return record["item_bytes"]
    return min(record["item_bytes"], -(-record["bytes"] // record["items"]))


def _speed(read: Record) -> float:
    """Return the objects/s of raw GETs."""
    return read["megabytes_per_second"] * 1e6 / read["block_bytes"]


def _memory_rows(plan: Mapping[str, Any], records: Iterable[Record]) -> Iterator[Row]:
    records = list(records)
    measured = (record for record in records if record["status"] == "ok")
    works = [{**one["settings"], **one} for one in (*plan["bounds"], *measured)]
    for same in grouped(works, "bound", "device", "batch_size").values():
        names = {key: same[0][key] for key in ("bound", "device", "batch_size")}
        pool = max((one["pool_bytes"] or 0 for one in same if "pool_bytes" in one), default=0)
        names |= {"pool_bytes": pool or None, "fits_cache": fits_cache(pool or None, records)}
        yield names | speed_columns([one["items_per_second"] for one in same if "items_per_second" in one])


def fits_cache(size: int | None, records: Iterable[Record]) -> bool | None:
    """Return whether so many bytes fit into the last-level caches of the machine that made `records`; None: unknown."""
    caches = [((record["host"] or {}).get("last_level_cache_bytes") or 0) for record in records]
    return None if size is None or not any(caches) else size <= max(caches)


def storage(reads: Iterable[Record], item_bytes: int, readers: int) -> float | None:
    """Return items/s that a tier's storage gives at most to so many readers at once, or None where fio did not measure.

    The fastest way to read counts, whichever a loader uses: at random in reads of an item, past the page cache or
    through it, or one after the other, for which the kernel reads ahead. Fewer readers that are faster count too, since
    a loader with more workers could keep some of them idle. Where no reads are of an item's size (how small JPEG makes
    images is known only when they are there), those of the next larger size count, which are as fast or faster.
    """
    reads = [read for read in reads if read["pattern"] != GET]
    sized = ("random", "positioned")
    blocks = {read["block_bytes"] for read in reads if read["pattern"] in sized}
    block = min((one for one in blocks if one >= block_of(item_bytes)), default=None)
    fitting = [read for read in reads if read["pattern"] not in sized or read["block_bytes"] == block]
    ahead = [read for read in fitting if read["pattern"] == "readahead"]
    some = [read for read in fitting if read["pattern"] != "readahead" and read["readers"] <= readers]
    measured = any(read["readers"] == readers for read in some)
    speeds = (read["megabytes_per_second"] * 1e6 / item_bytes for read in (*ahead, *(some if measured else ())))
    return max(speeds, default=None)


def apply(results: Iterable[Row], bound_rows: Iterable[Row], limited_share: float) -> list[Row]:
    """Return the results with `bound`, the name of the bound that applies, and `bound_items_per_second`; None of none.

    It is the lowest that applies: the in-memory ceiling, that of its own runs (of ranks: of all at once), else of one
    process the control runs', to all that read every byte; the storage bound to a cold cache, and to what does not fit
    into a limited one; the steps alone to a task that computes. None applies to a plain loop, which need not read what
    it is given, nor to transformed items and a user's own, which have another size, nor the ceiling alone to a tier
    that fio did not measure.
    """
    bound_rows = list(bound_rows)
    return [_with_bound(row, bound_rows, limited_share) for row in results]


def _with_bound(row: Row, bound_rows: list[Row], limited_share: float) -> Row:
    other = row["task"] == "iterate" or row.get("transform") or row.get("check")
    found = {} if other else dict(_applying(row, bound_rows, limited_share))
    if row["au_percent"] and row["items_per_second"]:
        found["compute"] = row["items_per_second"] * 100 / row["au_percent"]
    if row["cache"] != "warm" and "storage" not in found:
        found.pop("in_memory", None)  # what limits it was not measured
    name = min(found, key=found.__getitem__, default=None)
    return {**row, "bound": name, "bound_items_per_second": name and found[name]}


def _applying(row: Row, bound_rows: list[Row], limited_share: float) -> Iterator[tuple[str, float]]:
    """Yield the bounds of what reads every byte but its own steps: of one name the last counts."""
    missed = {"warm": 0.0, "cold": 1.0, "limited": 1 - limited_share}[row["cache"]]  # share of reads
    work = "in_memory", row["device"], row["batch_size"]
    alike = (one for one in bound_rows if work == (one["bound"], one.get("device"), one.get("batch_size")))
    for bound in alike if row["world"] == 1 else ():
        if bound["items_per_second"]:
            yield "in_memory", bound["items_per_second"]
    stored = [one for one in bound_rows if one["bound"] == "storage" and one["tier"] == row["tier"]]
    stored = [one for one in stored if row["format"] in one["formats"].split(", ")]
    for bound in stored:
        if bound["method"] != GET and bound["readers"] == max(1, row["workers"] or 0) and missed:
            yield "storage", bound["items_per_second"] / missed
    if gets := [one for one in stored if one["method"] == GET]:
        yield "storage", max(one["items_per_second"] for one in gets if one["readers"] <= _in_flight(row, gets))
    if row["ceiling_items_per_second"]:
        yield "in_memory", row["ceiling_items_per_second"]  # in place of the control runs'


def _in_flight(row: Row, gets: Iterable[Row]) -> int:
    """Return how many GETs were measured at once that are at least as many as a result keeps in flight, or the most."""
    counts = sorted({one["readers"] for one in gets})
    wanted = in_flight(row) or counts[-1]
    return next((count for count in counts if count >= wanted), counts[-1])


def decode_rows(results: Iterable[Row]) -> Iterator[Row]:
    """Yield a row of bounds.csv for each result that decodes: items/s if it did nothing but decode."""
    for row in results:
        trials = row["bottleneck_trials"]
        if trials and "decode" in trials["without"]:
            cost = bottlenecks.costs(trials)["decode"]
            if cost > 0:
                names = {**names_of(row), "device": row["device"], "batch_size": row["batch_size"]}
                yield {"bound": "decode", **names} | speed_columns([1 / cost])
