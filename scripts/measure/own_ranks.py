"""What the ranks of a user's own loader delivered together: their counts as one, as of a loader in one process.

Each rank looks at its own batches (measure/own_items.py). What came twice or not at all is known of all ranks only.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Found = Mapping[str, Any]
SUMMED = ("items", "idle_workers")
ANY = ("same_order", "epochs_alike")
FIRST = ("swapped", "narrowed", "items_narrowed", "workers_alike")  # of the first rank that saw it


def together(ranks: Sequence[Found], orders: Sequence[Sequence[Sequence[int]]]) -> dict[str, Any]:
    """Return one `own` of a record for all ranks, with the batches of each in `rank_batches`.

    `orders`: of each rank, of each epoch, the items in the order of their delivery; the first epoch counts.
    """
    first = ranks[0]
    items, expected = sum(one["items"] for one in ranks), first["expected"]
    distinct = len(Counter(item for of_rank in orders for item in of_rank[0]))
    numbered = first["doubled"] is not None
    lengths = max(ranks, key=_off_length)
    values = {name: sum(one[name] for one in ranks) for name in SUMMED}
    values |= {name: any(one[name] for one in ranks) for name in ANY}
    values |= {name: next((one[name] for one in ranks if one.get(name)), None) for name in FIRST}
    values |= {name: _mean(ranks, name) for name in ("padding_percent", "item_bytes")}
    return {
        **first,
        **values,
        "substituted": sum(one["substituted"] for one in ranks) if numbered else None,
        "doubled": items - distinct if numbered else None,
        "missing": expected - distinct if numbered and expected else None,
        **{name: lengths[name] for name in ("batches", "said_batches", "rough_batches")},
        "rank_batches": [one["batches"] for one in ranks],
    }


def _off_length(one: Found) -> int:
    """Return by how many batches an epoch of a rank was off what its loader says."""
    return 0 if one["said_batches"] is None else abs(one["batches"] - one["said_batches"])


def _mean(ranks: Sequence[Found], name: str) -> float | None:
    """Return the mean over items of what ranks know."""
    known = [(one[name], one["items"]) for one in ranks if one[name] is not None]
    return sum(value * items for value, items in known) / sum(items for _, items in known) if known else None
