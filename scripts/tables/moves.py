"""The table of what moving tensors costs: a row a way, over the records that measure_moves.py wrote."""

from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.statistics import spread

Row = dict[str, Any]
Record = Mapping[str, Any]
ORDER = ("create", "copy", "one", "many", "send")
WHOLE = "all"  # move and way of a record that has none: the measurement was not made, or it broke
_KEY = ("move", "way", "device", "clips")


def rows(records: Iterable[Record]) -> list[Row]:
    """Return the rows of moves.csv: a row for each move, way, device and number of clips moved at once.

    The speed is the median over runs. A way that failed in one run has none; one that could not run in some has that of
    the others. `times_slower` compares with the fastest way that delivers something, of the same move, device and
    number of clips. Fastest first, ways without a speed last.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        for move in record["moves"] or [_whole(record)]:
            groups.setdefault(tuple(move[key] for key in _KEY), []).append(move)
    found = [_row(dict(zip(_KEY, key, strict=True)), moves) for key, moves in groups.items()]
    _compare(found)
    found.sort(key=_rank)
    return [{key: value for key, value in row.items() if key != "delivers"} for row in found]


def _whole(record: Record) -> Row:
    settings = {"device": record["settings"]["device"], "clips": record["settings"]["batch_size"]}
    return {"move": WHOLE, "way": WHOLE, **settings, "delivers": True} | {
        key: record[key] for key in ("status", "reason")
    }


def _row(row: Row, moves: list[Record]) -> Row:
    """Return the row of a way's measurements, not compared with others."""
    by_status = {status: [move for move in moves if move["status"] == status] for status in ("failed", "ok", "skipped")}
    status = next(status for status, found in by_status.items() if found)
    measured = by_status["ok"] if status == "ok" else []
    speed = spread([move["clips_per_second"] for move in measured])
    payload = spread([move["megabytes_per_second"] for move in measured])
    return row | {
        "runs": len(measured),
        "clips_per_second": speed and speed.median,
        "lowest": speed and speed.lowest,
        "highest": speed and speed.highest,
        "megabytes_per_second": payload and payload.median,
        "times_slower": None,
        "status": status,
        "reason": "" if status == "ok" else "; ".join(dict.fromkeys(move["reason"] for move in by_status[status])),
        "delivers": moves[0]["delivers"],
    }


def _compare(found: list[Row]) -> None:
    """Set how many times slower each way that delivers something is than the fastest of its kind."""
    fastest: dict[tuple[Any, ...], float] = {}
    compared = [row for row in found if row["delivers"] and row["clips_per_second"]]
    for row in compared:
        kind = (row["move"], row["device"], row["clips"])
        fastest[kind] = max(row["clips_per_second"], fastest.get(kind, 0.0))
    for row in compared:
        row["times_slower"] = fastest[row["move"], row["device"], row["clips"]] / row["clips_per_second"]


def _rank(row: Row) -> tuple[Any, ...]:
    """Return what rows are ordered by. What only stands there to be compared with stands behind what delivers."""
    place = ORDER.index(row["move"]) if row["move"] in ORDER else len(ORDER)
    speed = row["clips_per_second"]
    return place, row["device"], row["clips"], speed is None, not row["delivers"], -(speed or 0), row["way"]
