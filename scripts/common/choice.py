"""Which of the results that lead is to be used, and how much slower than another of them it may be.

The report chooses by it, and a session looks for what explains the result that the report will name.
"""

from collections.abc import Callable, Hashable, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np

from scripts.common.blocks import Table

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
    means, halves = table.among(leading)  # of the log ratios of the result in a row to that in a column
    most = np.where(np.isnan(halves), np.inf, means + halves)
    np.fill_diagonal(most, 0.0)
    behind = np.exp(most.max(axis=0))
    near = [place for place, times in enumerate(behind) if times <= CLOSE]
    if near:
        chosen = min(near, key=lambda place: expense(leading[place]))
        return Choice(leading[chosen], "equal" if behind.max() <= CLOSE else "use", float(behind[chosen]), 1.0)
    room = np.where(means < log(CLOSE), log(CLOSE) - means, np.nan)  # half lengths shrink with the root of the blocks
    longer = np.nan_to_num((halves / room) ** 2, nan=np.inf)
    np.fill_diagonal(longer, 0.0)
    chosen = int(behind.argmin())
    return Choice(leading[chosen], "noisy", float(behind[chosen]), float(longer.max(axis=0).min()))
