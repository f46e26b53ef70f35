"""Compares a batch with the items that a user's collate function got: which item did each row come from?

A row comes from an item whose value it equals: rounded to the row's type, cut, or followed by one repeated value
(padding). What matches no item, such as a mixture or a spectrogram, is not known. Only untimed epochs are compared.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np

MOST_ITEMS = 512  # of a batch,
MOST_PARTS = 16  # of an item, and
MOST_SEARCHED = 64  # batches of a process in another order than their items: looking for each row takes long
FEW_VALUES = 8  # below which a row equals an item by chance
NARROW = ("torch.float16", "torch.bfloat16")
WIDE = ("torch.float32", "torch.float64")
Column = list[Any]  # of each row, or item: a tensor without axes of length 1, or what is no number


class Traced(NamedTuple):
    """What is known of one batch; the parts of an item count in the order of its leaves."""

    order: list[int] | None  # the item that each row came from; None: that of the items, or not known
    pairs: list[tuple[int, int]]  # parts of an item that are both in the batch,
    swapped: list[tuple[int, int]]  # and those whose rows come from different items
    narrowed: tuple[str, str] | None  # the type of a part, and that of 16 bits by which its values changed


class Tracer:
    """Calls a collate function and compares its batch with the items."""

    def __init__(self, collate: Callable[..., Any]) -> None:
        self.collate, self.searched = collate, 0

    def __call__(self, items: Any) -> tuple[Any, Traced | None]:
        """Return the batch of a list of items, and what is known of it; None where nothing is."""
        if not isinstance(items, list) or not 2 <= len(items) <= MOST_ITEMS:
            return self.collate(items), None
        parts = parts_of(items)  # before: a collate function may sort the list
        batch = self.collate(items)
        columns = sorted(_columns(batch, len(items)), key=lambda rows: _type(rows[0]) in NARROW)
        return batch, self._traced(parts, columns)

    def _traced(self, parts: list[Column], columns: list[Column]) -> Traced | None:
        straight = {}  # of a part that came in the order of the items: its column
        for number, part in enumerate(parts):
            column = next((rows for rows in columns if all(map(came_from, rows, part))), None)
            if column is not None:
                straight[number] = column
        narrowed = next(filter(None, (_narrowed(parts[number], rows) for number, rows in straight.items())), None)
        found, says_order = {}, any(map(_is_order, columns))
        if len(straight) < len(parts):
            if says_order or self.searched >= MOST_SEARCHED:
                return None
            for number in set(range(len(parts))) - set(straight):
                for rows in columns:
                    allowed = _origins(rows, parts[number])
                    if allowed is not None:
                        found[number] = found.get(number, False) | allowed
                        narrowed = narrowed or _narrowed(parts[number], rows)
        pairs = list(combinations(sorted({*found, *straight}), 2))
        if not found:
            return Traced(None, pairs, [], narrowed)
        self.searched += 1
        found |= {number: _all_origins(rows, parts[number]) for number, rows in straight.items()}
        swapped = [(one, other) for one, other in pairs if not (found[one] & found[other]).any(1).all()]
        allowed = np.logical_and.reduce(list(found.values()))
        order = allowed.argmax(1).tolist()
        certain = not swapped and (allowed.sum(1) == 1).all() and len(set(order)) == len(order)
        return Traced(order if certain else None, pairs, swapped, narrowed)


def came_from(row: Any, value: Any) -> bool:
    """Return whether a row may have come from an item's value."""
    import torch

    if not isinstance(row, torch.Tensor) or not isinstance(value, torch.Tensor):
        return type(row) is type(value) and isinstance(row, str | bytes) and row == value
    if row.ndim != value.ndim or not row.numel() or not value.numel():
        return False
    if value.is_floating_point() and not row.is_floating_point():
        return False
    both = tuple(slice(min(sizes)) for sizes in zip(row.shape, value.shape, strict=True))
    if not torch.equal(row[both], value[both].to(row.dtype)):
        return False
    behind = torch.ones(row.shape, dtype=torch.bool)
    behind[both] = False
    rest = row[behind]
    return not len(rest) or bool((rest == rest[0]).all())


def _all_origins(rows: Column, part: Column) -> np.ndarray:
    """Return bool (rows, items): where each row may have come from."""
    return np.array([[came_from(row, value) for value in part] for row in rows])


def _origins(rows: Column, part: Column) -> np.ndarray | None:
    """Return the same; None unless each row has come from an item, and small values as often as they are there."""
    if not any(came_from(rows[0], value) for value in part):
        return None
    allowed = _all_origins(rows, part)
    if not allowed.any(1).all():
        return None
    if all(_values(value) < FEW_VALUES for value in part):
        alike = (allowed[:, None] == allowed[None]).all(2).sum(1)  # how often each row's value comes
        if not np.array_equal(alike, allowed.sum(1)):
            return None
    return allowed


def _values(value: Any) -> int:
    return value.numel() if hasattr(value, "numel") else len(value) if isinstance(value, str | bytes) else 1


def _is_order(rows: Column) -> bool:
    """Return whether a column says in which order the others are: numbers from 0 on, each once, not ascending."""
    numbers = [int(row) for row in rows if hasattr(row, "ndim") and not row.ndim and "int" in _type(row)]
    return numbers != sorted(numbers) and sorted(numbers) == list(range(len(rows)))


def _narrowed(part: Column, rows: Column) -> tuple[str, str] | None:
    """Return the types of a part and of its rows, where these have 16 bits and values changed by that."""
    broad, narrow = _type(part[0]), _type(rows[0])
    if narrow not in NARROW or not wide(part[0]):
        return None
    changed = any(bool((value.to(rows[0].dtype).to(value.dtype) != value).any()) for value in part)
    return (broad.removeprefix("torch."), narrow.removeprefix("torch.")) if changed else None


def wide(value: Any) -> bool:
    """Return whether a part of an item is a tensor of floats of 32 bits or 64."""
    return _type(value) in WIDE


def parts_of(items: Any) -> list[Column]:
    """Return each part of all items, MOST_PARTS at most; nothing where they have not all the same number."""
    return list(islice(_transposed(items), MOST_PARTS))


def _type(value: Any) -> str:
    return str(getattr(value, "dtype", ""))


def _transposed(items: Any) -> Iterator[Column]:
    """Yield each part of all items, as `parts_of` returns them."""
    from scripts.loaders._followed import leaves

    found = [[_plain(part) for part in leaves(item)] for item in items]
    if len({len(parts) for parts in found}) == 1:
        yield from map(list, zip(*found, strict=True))


def _columns(batch: Any, count: int) -> Iterator[Column]:
    """Yield what has a row for each item in a batch of any nesting."""
    if hasattr(batch, "ndim"):
        if batch.ndim and len(batch) == count:
            yield [_plain(row) for row in batch]
        return
    if isinstance(batch, list | tuple):
        whole = all(getattr(part, "ndim", 0) and len(part) == count for part in batch)
        if len(batch) == count and not whole and (columns := list(_transposed(batch))):
            yield from columns
            return
        parts = batch
    elif isinstance(batch, Mapping):
        parts = batch.values()
    elif dataclasses.is_dataclass(batch):
        parts = [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    else:
        return
    for part in parts:
        yield from _columns(part, count)


def _plain(value: Any) -> Any:
    """Return a number, an array or a tensor as a tensor without axes of length 1; anything else as it is."""
    import torch

    if isinstance(value, int | float | np.generic | np.ndarray | torch.Tensor):
        try:
            return torch.as_tensor(value).detach().squeeze()
        except (TypeError, RuntimeError):  # of a type that torch has not
            return None
    return value
