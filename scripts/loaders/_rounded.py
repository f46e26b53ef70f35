"""Tells wide values that went through 16 bits: float32 in type, float16 or bfloat16 in what they hold.

Each value equals its own rounding. So do those of data with few steps, such as 8-bit audio or quiet 16-bit audio. These
say nothing: only values count that are beyond the grid which a narrow type holds whole, of which float32 data has many
that are no multiple of anything.
"""

from typing import Any

import numpy as np

from scripts.loaders._traced import NARROW, Column, parts_of, wide

DIGITS = {"torch.bfloat16": 8, "torch.float16": 11}  # binary ones: a grid of 2 to their power has all of its steps
LEAST_DISTINCT = 1000  # values of a part in a batch that are beyond the grid of their item


def rounded(items: Any) -> dict[int, str]:
    """Return the narrow type that holds all values of a wide part, by the number of the part.

    `items`: a list of them, or a batch that its data set made as a whole. An empty name: some value is in none of these
    types. A part of which too little is known is left out.
    """
    parts = parts_of(items if isinstance(items, list) else [items])
    of_part = ((number, _type_of(part)) for number, part in enumerate(parts) if all(map(wide, part)))
    return {number: name for number, name in of_part if name is not None}


def _type_of(part: Column) -> str | None:
    import torch

    fits = False
    for name in sorted(NARROW, key=DIGITS.__getitem__):
        narrow = getattr(torch, name.removeprefix("torch."))
        if all(torch.equal(value.to(narrow).to(value.dtype), value) for value in part):
            fits, beyond = True, (_beyond_grid(value, DIGITS[name]) for value in part)
            if len(set().union(*beyond)) >= LEAST_DISTINCT:
                return name.removeprefix("torch.")
    return None if fits else ""


def _beyond_grid(values: Any, digits: int) -> set[float]:
    """Return the distinct values further from 0 than 2 to the power of `digits` of the finest step among them."""
    distinct = values.unique().double().numpy()
    distinct = distinct[(distinct != 0) & np.isfinite(distinct)]
    if not len(distinct):
        return set()
    fractions, exponents = np.frexp(distinct)
    whole = np.abs(fractions * 2.0**digits).astype(np.int64)  # not a fraction is left: the type holds the value
    finest = (exponents - digits + np.log2(whole & -whole)).min()
    return set(distinct[np.abs(distinct) > 2.0 ** (finest + digits)].tolist())
