"""What later runs of a result are held to: the checksums of the epoch that was verified in full.

A checksum says what an item's tensors held (scripts/measure/sink.py). Those of the verify epoch are kept in a file, so
that a later process need not hash every item against the manifest again.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from scripts.common.errors import reading
from scripts.common.files import whole_file
from scripts.measure.sink import MEANS, Checksums

COLUMNS = ("item", "target", "data", "labels")  # of a file
SHOWN = 5  # items named in full; the rest is counted
LEAST_SHUFFLED = 16  # items; fewer may come in the same order by chance


def rows_of(checksums: Iterable[Checksums]) -> tuple[list[tuple[int, ...]], list[str]]:
    """Return (item, target, data, labels) of each delivered item, and what is wrong with whole batches.

    Of a task that takes no sums the rows are (item, target). A batch whose tensors have different numbers of items has
    no rows.
    """
    rows: list[tuple[int, ...]] = []
    wrong = []
    for checksum in checksums:
        columns = [column.tolist() for column in checksum if column is not None]
        if len({len(column) for column in columns}) > 1:
            wrong.append(f"tensors of {', '.join(str(len(column)) for column in columns)} items")
            continue
        rows += zip(*columns, strict=True)
    return rows, wrong


def checksums_of(checksums: Iterable[Checksums]) -> dict[int, tuple[int, ...]]:
    """Return {item: (target, data, labels)} of an epoch, of an item that came twice the last one."""
    return {index: tuple(sums) for index, *sums in rows_of(checksums)[0]}


def save(path: Path, expected: Mapping[int, tuple[int, ...]]) -> None:
    """Write what `checksums_of` returned: int64 (items, 4), in order of the items; whole or not at all.

    Raises ValueError for checksums without sums.
    """
    rows = np.array([(index, *expected[index]) for index in sorted(expected)], dtype=np.int64)
    with whole_file(path, "wb") as file:
        np.save(file, rows.reshape(len(expected), len(COLUMNS)), allow_pickle=False)


class Proven(Mapping[int, tuple[int, ...]]):
    """What `save` wrote, of millions of items: {item: (target, data, labels)}, looked up in the array."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def __getitem__(self, item: int) -> tuple[int, ...]:
        place = int(np.searchsorted(self.rows[:, 0], item))
        if place == len(self.rows) or self.rows[place, 0] != item:
            raise KeyError(item)
        return tuple(self.rows[place, 1:].tolist())

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows[:, 0].tolist())

    def __len__(self) -> int:
        return len(self.rows)


def load(path: Path) -> Proven:
    """Return what `save` wrote. Raises UserError for any other array."""
    with reading(path, "its proof", delete=path.with_suffix(".json")):
        rows = np.load(path, allow_pickle=False)
        if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != len(COLUMNS):
            raise ValueError(f"it holds {rows.dtype} {rows.shape}, expected int64 (items, {len(COLUMNS)})")
        if np.any(np.diff(rows[:, 0]) <= 0):
            raise ValueError("its items are not in order")
    return Proven(rows)


def hash_of(path: Path) -> str:
    """Return a hash of what `save` wrote: what was proven is the same where it is."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def differ(found: tuple[int, ...], right: tuple[int, ...], tolerance: int = 0) -> bool:
    """Return whether an item's (target, data, labels) are others than those verified; of a task without sums (target,).

    `tolerance`: of each of the data's means, in 255ths (`sink.means`); 0: the data is a checksum, which must be equal.
    """
    if not tolerance or len(found) == 1:
        return found != right[: len(found)]
    means = zip(*((sums[1] % (1 << 64)).to_bytes(MEANS, "little") for sums in (found, right)), strict=True)
    return (found[0], found[2]) != (right[0], right[2]) or any(abs(one - other) > tolerance for one, other in means)


def check_against(
    expected: Mapping[int, tuple[int, ...]],
    checksums: Iterable[Checksums],
    whole: bool,
    tolerance: int = 0,
    differing: Callable[[list[tuple[int, ...]]], list[int]] | None = None,
) -> list[str]:
    """Return what is wrong with one epoch, a line for each kind of fault; none where it holds what was verified.

    `whole`: the epoch was not ended early, so that every item must be there. Checksums without sums are held to the
    items and the targets only. `tolerance`: of `differ`. `differing`: in its place, which items of rows have other data
    than they are to have, where that is another in each epoch; labels are compared.
    """
    rows, wrong = rows_of(checksums)
    counts = Counter(index for index, *_ in rows)
    right = {index: expected[index] for index in counts if index in expected}
    unknown = sorted(counts.keys() - right.keys())
    doubled = sorted(index for index, count in counts.items() if count > 1)
    known = [(index, tuple(sums)) for index, *sums in rows if index in right]
    if differing:
        labels = {index for index, found in known if found[::2] != right[index][::2] and len(found) > 1}
        other = sorted({*differing(rows), *labels})
    else:
        other = sorted({index for index, found in known if differ(found, right[index], tolerance)})
    missing = sorted(index for index in expected if index not in counts) if whole else []
    kinds = {
        "items that are not in the split": unknown,
        "doubled items": doubled,
        "other data than was verified": other,
        "missing items": missing,
    }
    problems = [f"wrong batch: {'; '.join(wrong[:SHOWN])}"] if wrong else []
    return problems + [f"{kind}: {len(found)}: {some(found)}" for kind, found in kinds.items() if found]


def same_orders(epochs: Iterable[Iterable[Checksums]]) -> list[str]:
    """Return what is wrong where a whole epoch has the order of the one before; nothing where each has a new one."""
    before: list[int] = []
    for number, taken in enumerate(epochs):
        order = [item for checksum in taken for item in checksum.item.tolist()]
        if order == before and len(order) >= LEAST_SHUFFLED:
            return [f"not shuffled: epoch {number} has the order of the epoch before"]
        before = order
    return []


def some(numbers: list[int]) -> str:
    """Return the first few numbers as text."""
    more = ", ..." if len(numbers) > SHOWN else ""
    return ", ".join(map(str, numbers[:SHOWN])) + more
