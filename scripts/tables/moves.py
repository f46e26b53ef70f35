"""The table of what moving tensors costs: a row a way, over the records that measure_moves.py wrote."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from scripts.common.statistics import median_of
from scripts.common.vocabulary import MOVES
from scripts.tables.columns import COLUMNS
from scripts.tables.groups import grouped, speed_columns

Row = dict[str, Any]
Record = Mapping[str, Any]
WHOLE = "all"  # move and way of a record that has none: the measurement was not made, or it broke
_KEY = ("move", "way", "device", "clips")


def rows(records: Iterable[Record]) -> list[Row]:
    """Return the rows of moves.csv: a row for each move, way, device and number of clips moved at once.

    The speed is the median over runs. A way that failed in one run has none; one that could not run in some has that of
    the others. `times_slower` compares with the fastest way that delivers something, of the same move, device and
    number of clips. Fastest first, ways without a speed last, and what only stands there to be compared with behind
    what delivers.
    """
    moves = [move for record in records for move in record["moves"] or [_whole(record)]]
    found = pd.DataFrame([_row(same) for same in grouped(moves, *_KEY)], columns=[*COLUMNS["moves"], "delivers"])
    speeds = found["clips_per_second"].astype(float)
    compared = speeds.where(found["delivers"].astype(bool))
    found["times_slower"] = compared.groupby([found[key] for key in _KEY if key != "way"]).transform("max") / compared
    found["place"] = [(*MOVES, move).index(move) for move in found["move"]]
    found["silent"], found["slowness"] = ~found["delivers"].astype(bool), -speeds
    by = ["place", "device", "clips", "lacking", "silent", "slowness", "way"]
    found = found.assign(lacking=speeds.isna()).sort_values(by)[list(COLUMNS["moves"])].astype(object)
    return found.where(found.notna(), None).to_dict("records")


def _whole(record: Record) -> Row:
    settings = {"device": record["settings"]["device"], "clips": record["settings"]["batch_size"]}
    return {"move": WHOLE, "way": WHOLE, **settings, "delivers": True} | {
        key: record[key] for key in ("status", "reason")
    }


def _row(moves: list[Record]) -> Row:
    """Return the row of a way's measurements, not compared with others."""
    by_status = {status: [move for move in moves if move["status"] == status] for status in ("failed", "ok", "skipped")}
    status = next(status for status, found in by_status.items() if found)
    measured = by_status["ok"] if status == "ok" else []
    return {
        **{key: moves[0][key] for key in (*_KEY, "delivers")},
        **speed_columns([move["clips_per_second"] for move in measured]),
        "megabytes_per_second": median_of(move["megabytes_per_second"] for move in measured),
        "status": status,
        "reason": "" if status == "ok" else "; ".join(dict.fromkeys(move["reason"] for move in by_status[status])),
    }
