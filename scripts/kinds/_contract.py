"""What a kind of data must have, the types in its signatures, and what the gate finds of one item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from scripts.common.ledger import LedgerRow
from scripts.common.sample import Sample

if TYPE_CHECKING:
    from scripts.common.decode import Rejected

Owner = Callable[[np.ndarray], int | None]  # which item of the split has these stored values, if one has


class Kind(Protocol):
    """What every item of a corpus has in common: a dataclass with a field for each option of its module.

    One that cuts a recording into several pieces may have `part` too (`part_of`).
    """

    @property
    def sample(self) -> Sample:
        """What a delivered item is."""

    def check(self) -> None:
        """Raise UserError for options that make no data."""

    def pieces(self, row: LedgerRow, path: Path) -> Iterator[np.ndarray | Rejected | Remark]:
        """Yield the items of a ledger row; raise Rejected with the reason, which keeps those before it.

        A Rejected that is yielded leaves out parts between the items, a Remark tells something of a part.
        """

    def write(self, path: Path, item: np.ndarray) -> np.ndarray:
        """Write a file of the corpus; return what the module's `read` gives of it."""

    def about(self, frames: int) -> dict[str, Any]:
        """Return what corpus.json says besides."""


class Remark(NamedTuple):
    """What a user should know of an item that is taken."""

    part: int  # of the recording, from 0
    text: str  # one line, ``kind: detail``


class Found(NamedTuple):
    """What the gate finds of one delivered item."""

    problem: str | None = None  # what is wrong with it
    difference: float = 0.0  # the largest one of a value, within what is allowed


def part_of(kind: Kind, start_seconds: float, number: int) -> str:
    """Return what a piece of a longer recording is called, beside that: by `kind.part`, else by its number from 0.

    `part(start_seconds, number)` may say where the piece begins; `start_seconds`: where the row does. Each piece of a
    recording has another name.
    """
    named = getattr(kind, "part", None)
    return named(start_seconds, number) if named else f"{number:06d}"
