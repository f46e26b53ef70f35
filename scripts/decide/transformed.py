"""What another loader would give with the user's transform, and what without: transforms change which loader matters.

Results are compared with the same transform at the same place of work (`transform_in`), in the scenario of the answer.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scripts.common.groups import first_of, grouped
from scripts.common.scenarios import scenario_order
from scripts.decide.goals import by_speed
from scripts.decide.panel import compared, had_now, key, main_panel, with_speed

Row = Mapping[str, Any]
Tables = Mapping[str, Any]
PLACE = "worker"  # of a result whose options name none


def with_transforms(tables: Tables, device: str) -> list[dict[str, Any]]:
    """Return how the leader compares with the current loader (`report.now`), for each transform and place of work.

    `id` is the leader's result, `now` the current loader's; `times`, `low` and `high` say how many times faster the
    first is. `without` has the same without a transform, or None: the current loader has no speed there.
    """
    main = main_panel(tables["ranking"], device)
    if not main:
        return []
    rows = [
        one for one in with_speed(tables["ranking"]) if _apart_from_transform(one) == _apart_from_transform(main[0])
    ]
    without = _led(tables, [row for row in rows if not row["transform"]])
    return [
        {"transform": transform, "transform_in": place, **found, "without": without}
        for transform, place, same in _tried(rows)
        if (found := _led(tables, same))
    ]


def _tried(rows: list[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield each transform and place of work, with the results that have them."""
    placed = [{**row, "place": json.loads(row["options"] or "{}").get("transform_in", PLACE)} for row in rows]
    for (transform, place), same in grouped((row for row in placed if row["transform"]), "transform", "place").items():
        yield transform, place, same


def _apart_from_transform(row: Row) -> tuple[Any, ...] | None:
    return scenario_order({**row, "transform": ""}) if row["scenario"] else None


def _led(tables: Tables, rows: list[Row]) -> dict[str, Any] | None:
    """Return how the leader of these results, the cheapest of those tied with the fastest, compares with the current
    loader; None where that has no speed.
    """
    best = first_of(sorted(rows, key=lambda row: -row["items_per_second"]), "loader", "tier")
    alone = {**tables, "ranking": rows, "best": [*best.values()]}
    had = had_now(alone, rows[0]) if rows else None
    if had is None:
        return None
    name = by_speed(alone, alone["best"], "fastest", "no_run")["id"]
    leader = next(row for row in rows if row["id"] == name)
    times, low, high = (
        compared(alone, leader).compare(key(leader), key(had)) if leader is not had else (1.0, None, None)
    )
    return {"id": name, "now": had["id"], "times": times, "low": low, "high": high}
