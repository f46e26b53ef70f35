"""The table of what moving tensors costs: a row a method, over the records that measure_tensors.py wrote."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from scripts.common.statistics import median_of
from scripts.common.vocabulary import OPERATIONS
from scripts.tables.columns import COLUMNS
from scripts.tables.groups import grouped, speed_columns

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
    found = pd.DataFrame(
        [_row(same) for same in grouped(operations, *_KEY).values()], columns=[*COLUMNS["tensors"], "delivers"]
    )
    speeds = found["items_per_second"].astype(float)
    compared = speeds.where(found["delivers"].astype(bool))
    found["times_slower"] = (
        compared.groupby([found[key] for key in _KEY if key != "method"]).transform("max") / compared
    )
    found["place"] = [(*OPERATIONS, operation).index(operation) for operation in found["operation"]]
    found["silent"], found["slowness"] = ~found["delivers"].astype(bool), -speeds
    by = ["place", "device", "items", "lacking", "silent", "slowness", "method"]
    found = found.assign(lacking=speeds.isna()).sort_values(by)[list(COLUMNS["tensors"])].astype(object)
    return found.where(found.notna(), None).to_dict("records")


def _whole(record: Record) -> Row:
    settings = {"device": record["settings"]["device"], "items": record["settings"]["batch_size"]}
    return {"operation": WHOLE, "method": WHOLE, **settings, "delivers": True} | {
        key: record[key] for key in ("status", "reason")
    }


def _row(operations: list[Record]) -> Row:
    """Return the row of a method's measurements, not compared with others."""
    by_status = {
        status: [operation for operation in operations if operation["status"] == status]
        for status in ("failed", "ok", "skipped")
    }
    status = next(status for status, found in by_status.items() if found)
    measured = by_status["ok"] if status == "ok" else []
    return {
        **{key: operations[0][key] for key in (*_KEY, "delivers")},
        **speed_columns([operation["items_per_second"] for operation in measured]),
        "megabytes_per_second": median_of(operation["megabytes_per_second"] for operation in measured),
        "status": status,
        "reason": ""
        if status == "ok"
        else "; ".join(dict.fromkeys(operation["reason"] for operation in by_status[status])),
    }
