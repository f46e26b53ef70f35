"""What the formats share that keep an item's values in one dimension."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Corpus, Item


def flattened(corpus: Corpus, item: Item) -> np.ndarray:
    """Return the stored values (n,) of an item: of audio int16 in its natural length, cut to the fixed one."""
    return corpus.stored(item).reshape(-1)[: prod(corpus.sample.shape)]
