"""The types in the signatures of a format's `write` and `read`, for type checkers and readers alone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from scripts.common.corpus import Corpus

Progress = Callable[[int], None]  # called as so many more items are written
Rows = Iterator[tuple[int, np.ndarray, list[int]]]  # item index, delivered item, classes, the target first

__all__ = ["Corpus", "Path", "Progress", "Rows"]
