"""Rows of transforms.csv: what a transform costs in a worker, in the training's process and on the device, and stored.

Stored ahead of time, items are read as they are: at least as fast as the fastest loader without a transform, where they
are no larger than before. Making them takes about an epoch at the speed of the other way, so that it pays after
`time / (time - time when stored)` epochs, of whichever way is compared.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scripts.common.groups import first_of, grouped
from scripts.common.vocabulary import SCENARIO_KEYS, WHOLE, ranks_of

Row = dict[str, Any]
AHEAD = "ahead"
RANDOM, LARGER, NONE = "random", "larger", "not-measured"  # why there is no such row, or none that pays


def rows(ranking: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield a row for each device, transform and place that it was tried in, by its fastest result, and one for AHEAD.

    `ranking` has all settings; results that read all items from a warm cache in one process without a step count.
    """
    plain = ("ok", 1, WHOLE, "read", "warm", 0)
    measured = [
        row
        for row in ranking
        if (row["status"], ranks_of(row), row["size"], *(row[key] for key in SCENARIO_KEYS)) == plain
    ]
    measured.sort(key=lambda row: -row["items_per_second"])
    stored = first_of((row for row in measured if not row["transform"]), "device")
    tried = (row for row in measured if row["transform"])
    for (device, transform), same in grouped(tried, "device", "transform").items():
        without = stored.get(device)
        reason = NONE if without is None else RANDOM if same[0]["transform_random"] else ""
        reason = reason or (LARGER if same[0]["transform_size"] > 1 else "")
        for place, row in first_of(same, "transformed_in").items():
            yield {**_of(row, transform, place), **_pays(row, without, reason)}
        if without is not None:
            yield {**_of(without, transform, AHEAD), "reason": reason, "pays_after_epochs": None}


def _of(row: Mapping[str, Any], transform: str, place: str) -> Row:
    names = ("device", "loader", "tier", "slug", "items_per_second", "step_au_percent")
    return {**{name: row[name] for name in names}, "transform": transform, "way": place}


def _pays(row: Mapping[str, Any], without: Mapping[str, Any] | None, reason: str) -> Row:
    """Return after how many epochs items that are stored ahead have paid; None where they never do."""
    if reason or row["items_per_second"] >= without["items_per_second"]:
        return {"pays_after_epochs": None, "reason": reason}
    saved = 1 - row["items_per_second"] / without["items_per_second"]  # of an epoch
    return {"pays_after_epochs": 1 / saved, "reason": ""}
