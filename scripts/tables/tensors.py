"""The table of what moving tensors costs: a row a method, over the records that measure_tensors.py wrote."""

from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.groups import by_status, grouped, speed_columns
from scripts.common.statistics import median_of
from scripts.common.vocabulary import OPERATIONS

Row = dict[str, Any]
Record = Mapping[str, Any]
WHOLE = "all"  # operation and method of a record that has none: the measurement was not made, or it broke
_KEY = ("operation", "method", "device", "items")


def rows(records: Iterable[Record]) -> list[Row]:
    """Return the rows of tensors.csv: a row for each operation, method, device and number of items moved at once.

    The speed is the median over runs. A method that failed in one run has none; one that could not run in some has
    that of the others. `times_slower` compares with the fastest method that delivers something, of the same
    operation, device and number of items. Fastest first, methods without a speed last, and what only stands there to
    be compared with behind what delivers.
    """
    operations = [operation for record in records for operation in record["tensors"] or [_whole(record)]]
    found = [_row(same) for same in grouped(operations, *_KEY).values()]
    for same in grouped(found, "operation", "device", "items").values():
        compared = [row for row in same if row["delivers"] and row["items_per_second"]]
        for row in compared:
            row["times_slower"] = max(one["items_per_second"] for one in compared) / row["items_per_second"]
    return sorted(found, key=_order)


def _whole(record: Record) -> Row:
    settings = {"device": record["settings"]["device"], "items": record["settings"]["batch_size"]}
    return {"operation": WHOLE, "method": WHOLE, **settings, "delivers": True} | {
        key: record[key] for key in ("status", "reason")
    }


def _order(row: Row) -> tuple[Any, ...]:
    speed = row["items_per_second"]
    place = (*OPERATIONS, row["operation"]).index(row["operation"])
    return place, row["device"], row["items"], speed is None, not row["delivers"], -(speed or 0), row["method"]


def _row(operations: list[Record]) -> Row:
    """Return the row of a method's measurements, not compared with others."""
    status, same = by_status(operations, ("failed", "ok", "skipped"))
    measured = same if status == "ok" else []
    return {
        **{key: operations[0][key] for key in (*_KEY, "delivers")},
        **speed_columns([operation["items_per_second"] for operation in measured]),
        "megabytes_per_second": median_of(operation["megabytes_per_second"] for operation in measured),
        "times_slower": None,
        "status": status,
        "reason": "" if measured else "; ".join(dict.fromkeys(operation["reason"] for operation in same)),
    }
