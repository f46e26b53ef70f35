"""The types in the signatures of a format's `write` and `read`, for readers and type checkers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scripts.common.corpus import Corpus
else:
    Corpus = Any  # where formats are only named there may be no NumPy

Progress = Callable[[int], None]  # called as so many more items are written
Rows = Iterator[tuple[int, Any, list[int]]]  # item index, delivered item (an array), classes, the target first

__all__ = ["Corpus", "Path", "Progress", "Rows"]
