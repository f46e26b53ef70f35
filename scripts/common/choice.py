"""Which of the results that lead is to be used, and how much slower than another of them it may be.

The report chooses by it, and a session looks for what explains the result that the report will name.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from math import inf, log
from typing import Any, NamedTuple

from scripts.common.blocks import Table
from scripts.common.statistics import Comparison

CLOSE = 1.25  # times slower: what is surely no further behind may be used, beyond it the machine is too noisy to choose


class Choice(NamedTuple):
    """The one of several leading results to use.

    - `form`: ``use`` (it is surely at most CLOSE times slower than any of them), ``equal`` (so is each) or ``noisy``
      (none is; `key` is the one that is the least behind).
    - `behind`: how many times slower than any of them it is at most; infinite where too few blocks are shared.
    - `longer`: how many times as many blocks would make it ``use``, if all went on as so far; infinite where unknown.
    """

    key: Hashable
    form: str
    behind: float
    longer: float


def choose(table: Table, leading: Sequence[Hashable], expense: Callable[[Hashable], Any]) -> Choice:
    """Return the choice among results of `table`, none of which is surely the fastest unless it is the only one.

    Of those that are surely at most CLOSE times slower than any other, the one with the least `expense` is chosen.
    """
    if len(leading) == 1:
        return Choice(leading[0], "use", 1.0, 1.0)
    behind = {key: max(_most(table.compare(one, key)) for one in leading if one != key) for key in leading}
    near = [key for key in leading if behind[key] <= CLOSE]
    if near:
        chosen = min(near, key=expense)
        apart = max(_apart(table.compare(one, other)) for one, other in combinations(leading, 2))
        return Choice(chosen, "equal" if apart <= CLOSE else "use", behind[chosen], 1.0)
    chosen = min(leading, key=behind.__getitem__)
    longer = min(max(_longer(table.compare(one, key)) for one in leading if one != key) for key in leading)
    return Choice(chosen, "noisy", behind[chosen], longer)


def _most(found: Comparison) -> float:
    return inf if found.high is None else max(1.0, found.high)


def _apart(found: Comparison) -> float:
    return max(found.high, 1 / found.low) if found.low and found.high else inf


def _longer(found: Comparison) -> float:
    """Return how many times as many blocks bring the upper end to CLOSE: half lengths shrink with the root of these."""
    if found.high is None or found.ratio >= CLOSE:
        return inf
    return (log(found.high / found.ratio) / log(CLOSE / found.ratio)) ** 2
