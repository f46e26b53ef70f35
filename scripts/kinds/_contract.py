"""The types in the signatures of a kind of data, and what the gate finds of one item."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Owner = Callable[[np.ndarray], int | None]  # which clip of the split has these stored values, if one has


class Found(NamedTuple):
    """What the gate finds of one delivered item."""

    problem: str | None = None  # what is wrong with it
    difference: float = 0.0  # the largest one of a value, within what is allowed
