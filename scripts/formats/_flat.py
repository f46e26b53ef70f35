"""What the formats share that keep a clip's values in one dimension."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Clip, Corpus


def flattened(corpus: Corpus, clip: Clip) -> np.ndarray:
    """Return the stored values (n,) of a clip: of audio int16 in its natural length, cut to the fixed one."""
    return corpus.stored(clip).reshape(-1)[: prod(corpus.sample.shape)]
