"""What to know before one acts on a result: codes with their numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.decide.choice import Compared
from scripts.decide.panel import asked, had_now, holds_everything, in_random_order, key, with_speed
from scripts.decide.utilisation import CHECKED_POINTS

FEW_ROUNDS = 5

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def cautions(tables: Tables, row: Row) -> list[dict[str, Any]]:
    """Return the cautions of a result, each with its `code` and `values` (docs/decision.md lists the codes)."""
    return [
        {"code": code, "values": values} for code, values in (*_of_the_data(tables, row), *_of_the_runs(tables, row))
    ]


def _of_the_data(tables: Tables, row: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    size = next((one["bytes"] for one in tables["formats"] if one["format"] == row["format"]), None)
    if row["declared"]["preloads"]:
        yield "preloads", {"bytes": size, "peak_bytes": row["pss_peak_bytes"]}
    elif holds_everything(tables, row):
        yield "in_memory", {"tier": row["tier"], "bytes": size}
    if not in_random_order(row):
        measured = {name: row[f"order_{name}"] for name in ("neighbours_percent", "repeated_percent")}
        yield "order", {"order": row["order_measured"] or row["declared"]["order"], **measured}
    if row["emulated"]:
        yield "emulated", {"tier": row["tier"]}
    if row["task"] == "iterate":
        yield "plain_loop", {}
    if row["batch_lifetime"] == "next":
        yield "batch_lifetime", {}


def _of_the_runs(tables: Tables, row: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    now = asked(tables, "now")
    if now and not had_now(tables, row):
        own = [one for one in with_speed(tables["best"]) if one["loader"] == now and one.get("check")]
        fastest = max((one["items_per_second"] for one in own), default=None)
        if fastest:
            yield "now_own_items", {"loader": now, "items_per_second": fastest}
        else:
            yield "now_unmeasured", {"loader": now}
    if row["step_check_points"] is not None and abs(row["step_check_points"]) > CHECKED_POINTS:
        yield "au_model_off", {"points": row["step_check_points"]}
    if row["runs"] < FEW_ROUNDS:
        yield "few_rounds", {"rounds": row["runs"]}
    if row["disturbed"]:
        yield "disturbed", {"runs": row["disturbed"], "of": row["runs"]}
    if row["left_out"]:
        yield "left_out", {"runs": row["left_out"]}
    if row["works_outside"]:
        yield "works_outside", {}
    if row["reason"]:
        yield "partly", {"reason": row["reason"]}
    more = (row["warnings"] or 0) - (row["disturbed"] or 0)
    if more > 0:
        yield "warnings", {"count": more}


def slower_with_workers(table: Compared | None, rows: list[Row]) -> list[dict[str, Any]]:
    """Return a caution that names the `loaders` which are significantly slower with workers than without any.

    `rows`: results of one scenario. `times`: how many times slower at least, the least of these loaders.
    """
    found: dict[str, float] = {}
    speeds = with_speed(rows) if table else []
    for none in (row for row in speeds if row["workers"] == 0):
        for some in (row for row in speeds if row["workers"] and _same(row, none)):
            low = table.results.compare(key(none), key(some)).low
            if low and low > found.get(none["loader"], 1.0):
                found[none["loader"]] = low
    values = {"loaders": sorted(found), "times": min(found.values(), default=1.0)}
    return [{"code": "workers_slower", "values": values}] if found else []


def _same(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in ("loader", "tier", "batch_size", "device", "options"))
