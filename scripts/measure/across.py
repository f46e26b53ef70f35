"""The gate across ranks: what all ranks together delivered, epoch by epoch.

Each rank's own batches are compared with the manifest where it runs (measure/verify.py); which items they were is
looked at here: every item exactly once over all ranks, or that which the loader declares (SHARING), and a new order in
each epoch on each rank.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from scripts.measure.checksums import SHOWN, some
from scripts.measure.verify import LEAST_SHUFFLED

Orders = Sequence[Sequence[Sequence[int]]]  # of each rank, of each epoch: the items in the order of their delivery
LEAST_EPOCHS = 2  # fewer say nothing of a new order


def check(orders: Orders, items: Collection[int], sharing: str, batch_size: int) -> tuple[list[str], dict[str, Any]]:
    """Return (problems, counts) of what the ranks delivered of a split of these `items`.

    `sharing`: a key of SHARING. A loader that repeats or drops may do so with less than a batch a rank. `counts`: the
    `epochs` that were looked at, and of the worst of them the items that were `repeated` and `missing`.
    """
    epochs = [len(of_rank) for of_rank in orders]
    if len(set(epochs)) > 1 or min(epochs) < LEAST_EPOCHS:
        found = ", ".join(map(str, epochs))
        return [f"epochs: the ranks delivered {found}; expected is the same number, at least {LEAST_EPOCHS}"], {}
    problems: list[str] = []
    repeated = missing = 0
    for number in range(epochs[0]):
        of_epoch = [of_rank[number] for of_rank in orders]
        counts = Counter(item for of_rank in of_epoch for item in of_rank)
        more, absent = sum(counts.values()) - len(counts), set(items) - set(counts)
        repeated, missing = max(repeated, more), max(missing, len(absent))
        found = _of_epoch(of_epoch, counts, absent, sharing, batch_size * len(orders))
        problems += [f"{problem} (epoch {number})" for problem in found]
    problems += _same_orders(orders)
    return problems[:SHOWN], {"epochs": epochs[0], "repeated": repeated, "missing": missing}


def _of_epoch(
    of_epoch: Sequence[Sequence[int]], counts: Counter[int], absent: set[int], sharing: str, limit: int
) -> list[str]:
    """Return what is wrong with one epoch; `limit`: as many items may not be repeated or dropped, where any may."""
    sets = [set(order) for order in of_epoch]
    empty = [rank for rank, found in enumerate(sets) if not found]
    if empty:
        return [f"{_ranks(empty)} delivered nothing: it has no shard; write more shards, or use fewer ranks"]
    for later, found in enumerate(sets):
        for earlier in range(later):
            if found == sets[earlier]:
                return [f"rank {later} delivered the items of rank {earlier}: the loader does not use its share"]
    problems = []
    shared = sorted(item for item, count in counts.items() if count > 1)
    if shared and (sharing != "repeats" or sum(counts.values()) - len(counts) >= limit):
        owners = [rank for rank, found in enumerate(sets) if shared[0] in found]
        problems.append(
            f"{len(shared)} items were delivered twice: {some(shared)}, the first by {_ranks(owners)}: where that are "
            "several, is their seed the same?"
        )
    if absent and (sharing != "drops" or len(absent) >= limit):
        problems.append(f"{len(absent)} of {len(counts) + len(absent)} items came on no rank: {some(sorted(absent))}")
    return problems


def _same_orders(orders: Orders) -> list[str]:
    """Return a line for each epoch whose order is that of the epoch before, on whichever rank."""
    problems = []
    for number in range(1, len(orders[0])):
        same = [rank for rank, of_rank in enumerate(orders) if of_rank[number] == of_rank[number - 1]]
        enough = [rank for rank in same if len(orders[rank][number]) >= LEAST_SHUFFLED]
        if enough or (len(same) == len(orders) and sum(len(of_rank[number]) for of_rank in orders) >= LEAST_SHUFFLED):
            problems.append(
                f"not shuffled: epoch {number} has the order of epoch {number - 1} on {_ranks(enough or same)}: was "
                "set_epoch forgotten?"
            )
    return problems


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
