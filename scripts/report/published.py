"""Results beside a table that others published (`report.published`): does the same order come out here?

Machines, data and versions differ, so that no speed compares with a published one. What compares is the order of each
pair, and how many times faster than the slowest each is.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from scripts.common.published import Published, PublishedRow, published_names, read_published
from scripts.common.vocabulary import TASKS, ranks_of
from scripts.decide.panel import asked, key, speeds_of
from scripts.decide.rounds import FINAL_ERROR
from scripts.decide.sessions import table_of
from scripts.report.shown import tier_text
from scripts.report.texts import kind_of
from scripts.tables.columns import number_text

MOST_NAMED = 3  # pairs of another order

Row = Mapping[str, Any]
Tables = Mapping[str, Any]
Pair = tuple[PublishedRow, Row]


def published(tables: Tables) -> list[dict[str, Any]]:
    """Return each published table for data of this kind, with what is like its rows here.

    - `table`: what scripts/common/published.py reads. `panels`: of each task, device and tier (or all tiers, where the
      published rows name some) at least two of whose rows have a result here: `place`, `text` (how many pairs have the
      same order), and `rows`, of which each has `published` (a PublishedRow), `row` (a result), how many times faster
      than the slowest published one both are (`times`, `own_times`), and `cores`, that all its processes used.
    - `lacking`: (name, why) of each published row that nothing here is like. `absent`: how many others have no result.
    - `printed`: whether a row's number stands there in another form.

    Raises UserError where a file is absent or wrong.
    """
    found = [read_published(name) for name in published_names(asked(tables, "published"))]
    return [_beside(tables, table) for table in found if table.kind in (None, kind_of(tables))]


def _beside(tables: Tables, table: Published) -> dict[str, Any]:
    results = [row for row in tables["ranking"] if row["items_per_second"]]
    panels = [_panel(tables, place, pairs) for place, pairs in _places(table, results) if len(pairs) > 1]
    shown = {id(one["published"]) for panel in panels for one in panel["rows"]}
    return {
        "table": table,
        "panels": panels,
        "lacking": [(row.name, row.lacking) for row in table.rows if row.lacking],
        "absent": sum(row.loader is not None and id(row) not in shown for row in table.rows),
        "printed": any(row.printed for row in table.rows),
    }


def _places(table: Published, results: Sequence[Row]) -> Iterator[tuple[str, list[Pair]]]:
    """Yield each place at which published rows have results, with the pairs: the fastest result that is like a row."""
    tasks = dict.fromkeys(row.task for row in table.rows)
    tiers = [None] if any(row.tier for row in table.rows) else list(dict.fromkeys(row["tier"] for row in results))
    devices = dict.fromkeys(row["device"] for row in results)
    for task in tasks:
        for device in devices:
            for tier in tiers:
                here = [row for row in results if row["device"] == device and tier in (None, row["tier"])]
                pairs = [(one, _best(one, here)) for one in table.rows if one.loader and one.task == task]
                place = ", ".join([TASKS[task].word, device.upper()] + ([f"from {tier}"] if tier else []))
                yield place[:1].upper() + place[1:], [(one, row) for one, row in pairs if row]


def _best(wanted: PublishedRow, results: Iterable[Row]) -> Row | None:
    """Return the fastest result that is as the published one: from a warm cache, with no emulated step."""
    like = [
        row
        for row in results
        if (row["loader"], row["task"], row["cache"], row["step_ms"]) == (wanted.loader, wanted.task, "warm", 0)
        and ranks_of(row) == ranks_of(wanted.settings)
        and (wanted.tier is None or tier_text(wanted.tier, row["emulated"]) == row["tier"])
        and wanted.settings.items() <= _settings(row).items()
    ]
    return max(like, key=lambda row: row["items_per_second"], default=None)


def _settings(row: Row) -> dict[str, Any]:
    options = json.loads(row["options"] or "{}")
    return {**(row["declared"] or {}).get("options", {}), **row, **options}


def _panel(tables: Tables, place: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    ordered = sorted(pairs, key=lambda pair: -pair[0].speed)
    slowest, own_slowest = ordered[-1][0].speed, ordered[-1][1]["items_per_second"]
    rows = [
        {
            "published": one,
            "row": row,
            "times": one.speed / slowest,
            "own_times": row["items_per_second"] / own_slowest,
            "cores": row["cores_used"],
        }
        for one, row in ordered
    ]
    return {"place": place, "rows": rows, "text": _order_text(tables, ordered)}


def _order_text(tables: Tables, ordered: Sequence[Pair]) -> str:
    """Return how many pairs have the published order here, and which significantly have the other."""
    table = table_of(speeds_of(tables, [row for _, row in ordered]), FINAL_ERROR)
    same, other, pairs = 0, [], 0
    for (faster, row), (slower, beside) in combinations(ordered, 2):
        if faster.speed == slower.speed or key(row) == key(beside):
            continue
        pairs += 1
        found = table.compare(key(row), key(beside))
        same += found.faster
        if found.slower:
            other.append((1 / found.ratio, f"{slower.name} before {faster.name}"))
    text = (
        f"Of {pairs} pair{'s' if pairs != 1 else ''} {same} have the published order here, {len(other)} the other one"
    )
    named = [f"{words} ({number_text(times, 2)} times)" for times, words in sorted(other, reverse=True)[:MOST_NAMED]]
    text += f": {', '.join(named)}{', ...' if len(other) > MOST_NAMED else ''}" if named else ""
    left = pairs - same - len(other)
    return f"{text}; {left} cannot be distinguished." if left else f"{text}."
