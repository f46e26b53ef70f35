"""Follows the items of a user's own loader by their numbers, through any Dataset, sampler, batch sampler and collate
function: the number travels beside the item, and beside the batch that it is collated into.

A batch may be anything: nested dicts, lists, tuples and dataclasses of tensors, arrays, text and None. Of an
IterableDataset and of what is no DataLoader the user's `numbers(batch)` says which items a batch holds.
"""

import dataclasses
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from scripts.common.errors import UserError
from scripts.loaders._rounded import rounded
from scripts.loaders._torch import Part, WithTheirCode
from scripts.loaders._traced import Traced, Tracer


class One(NamedTuple):
    """An item, or a batch that its data set made as a whole, with the numbers that were asked for and that came."""

    asked: Any  # an int, or a list of them
    came: Any
    value: Any


class Followed(NamedTuple):
    """A batch as it came, and what is known of its items."""

    numbers: Any  # int64 (n,): the items that came; None: not known
    substituted: int  # of how many another one was asked for
    worker: int  # the process that made it; -1: that of the training
    batch: Any
    traced: Traced | None = None  # of an epoch that is compared with its items,
    rounded: Mapping[int, str] | None = None  # and of its items (_rounded.py)


@dataclasses.dataclass
class About:
    """What is known of a loader that is followed, once it is open."""

    expected: int | None  # items of its data set; None: not known
    workers: int
    numbered: bool
    batches: int | None = None  # by its `len`; None: it has none
    rough: int = 0  # by how many batches that may be off: each worker may have a part of a batch at its end


def follow(
    loader: Any, numbers: Callable[[Any], Any] | None = None, compared: str | None = None
) -> tuple[Iterator[Any] | Any, About]:
    """Return an iterable that yields a Followed for each batch of `loader`, and what is known of it.

    While there is a file `compared`, batches are compared with their items.
    """
    from torch.utils.data import DataLoader, IterableDataset

    inner = loader if isinstance(loader, DataLoader) else next(iter(getattr(loader, "pipeline", ())), None)
    if isinstance(inner, DataLoader) and not isinstance(inner.dataset, IterableDataset):
        expected = len(inner.dataset) if hasattr(type(inner.dataset), "__len__") else None
        attributes = vars(inner)  # torch lets nobody set these two once a loader is made
        attributes["dataset"] = (Whole if hasattr(inner.dataset, "__getitems__") else Items)(noting(inner.dataset))
        attributes["collate_fn"] = Collated(inner.collate_fn, compared)
        _send_with_code(inner)
        return loader, About(expected, inner.num_workers, True)
    workers = inner.num_workers if isinstance(inner, DataLoader) else 0
    if isinstance(inner, DataLoader):
        vars(inner)["collate_fn"] = Worked(inner.collate_fn)
        _send_with_code(inner)
    return Told(loader, numbers), About(None, workers, numbers is not None, rough=max(0, workers - 1))


def length_of(loader: Any) -> int | None:
    """Return how many batches a loader says that it has; None where it says nothing."""
    with suppress(TypeError, AttributeError, NotImplementedError):
        try:
            return len(loader)
        finally:
            if hasattr(loader, "_IterableDataset_len_called"):  # else torch warns of each batch beyond it
                loader._IterableDataset_len_called = None
    return None


def _send_with_code(loader: Any) -> None:
    """Have a DataLoader whose workers are no forks send them its data set with its code: they cannot import it."""
    context = loader.multiprocessing_context or multiprocessing  # without its own that of the process
    if loader.num_workers and context.get_start_method() != "fork":
        sent = WithTheirCode({name: vars(loader)[name] for name in ("dataset", "collate_fn")})
        vars(loader).update({name: Part(sent, name) for name in sent})


def noting(dataset: Any) -> Any:
    """Have a data set note where an item is another's: `__getitem__` that returns what it got for another index.

    `feedrate_noted` is then [the last value that came, its index].
    """
    kind = type(dataset)
    noted: list[Any] = [NOTHING, None]
    get = kind.__getitem__

    class Noting(kind):
        def __getitem__(self, index: Any) -> Any:
            value = get(self, index)
            if noted[0] is not value:  # else it is what an inner call has returned, for the index that is noted
                noted[0], noted[1] = value, index
            return value

    Noting.__name__, Noting.__qualname__, Noting.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    try:
        dataset.__class__ = Noting
        dataset.feedrate_noted = noted
    except (TypeError, AttributeError):  # of a class with slots, or in C
        return dataset
    return dataset


NOTHING = object()


class Items:
    """A map-style data set whose items come with their numbers, those of a batch together."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.noted = getattr(dataset, "feedrate_noted", None) or [NOTHING, None]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("dataset", "noted"):
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: Any) -> One:
        value, came = self._one(index)
        return One(index, came, value)

    def __getitems__(self, indices: list[Any]) -> One:
        noted, get, came, values = self.noted, self.dataset.__getitem__, [], []
        for index in indices:  # a call less an item than `_one`: this is what following costs
            noted[0] = NOTHING
            value = get(index)
            values.append(value)
            came.append(noted[1] if noted[0] is value else index)
        return One(indices, came, values)

    def _one(self, index: Any) -> tuple[Any, Any]:
        noted = self.noted
        noted[0] = NOTHING
        value = self.dataset[index]
        return value, noted[1] if noted[0] is value else index


class Whole(Items):
    """The same of one with `__getitems__`, which returns a list of items or a batch."""

    def __getitems__(self, indices: list[Any]) -> One:
        return One(indices, indices, self.dataset.__getitems__(indices))


class Collated:
    """A collate function of such items, which gives a Followed with the user's batch."""

    def __init__(self, collate: Callable[..., Any], compared: str | None = None) -> None:
        self.collate, self.compared, self.tracer = collate, compared, Tracer(collate)

    def __call__(self, items: One) -> Followed:
        if self.compared is None:
            return _followed(items.asked, items.came, self.collate(items.value))
        if not os.path.exists(self.compared):  # a worker that stays sees so that timed epochs have begun
            self.compared = None
            return self(items)
        kinds = rounded(items.value)  # before: a collate function may change its items
        batch, traced = self.tracer(items.value)
        return _followed(items.asked, items.came, batch)._replace(traced=traced, rounded=kinds)


class Worked:
    """A collate function that adds the process that it is called in."""

    def __init__(self, collate: Callable[..., Any]) -> None:
        self.collate = collate

    def __call__(self, items: Any) -> Followed:
        return Followed(None, 0, _worker(), self.collate(items))


class Told:
    """Batches whose items the user's `numbers(batch)` tells; without it nobody knows them."""

    def __init__(self, loader: Any, numbers: Callable[[Any], Any] | None) -> None:
        self.loader, self.numbers = loader, numbers

    def __iter__(self) -> Iterator[Followed]:
        import torch

        for found in self.loader:
            worker, batch = (found.worker, found.batch) if isinstance(found, Followed) else (-1, found)
            told = None if self.numbers is None else torch.as_tensor(self.numbers(batch)).long().flatten()
            yield Followed(told, 0, worker, batch)


def _followed(asked: Any, came: Any, batch: Any) -> Followed:
    import torch

    asked, came = (one if isinstance(one, list | tuple) else [one] for one in (asked, came))
    if not all(isinstance(one, int) for one in came):  # a sampler of something else than numbers, such as cuts
        return Followed(None, 0, _worker(), batch)
    substituted = 0 if asked == came else sum(one != other for one, other in zip(asked, came, strict=True))
    return Followed(torch.tensor(came, dtype=torch.int64), substituted, _worker(), batch)


def _worker() -> int:
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return -1 if info is None else info.id


def leaves(value: Any) -> Iterator[Any]:
    """Yield the tensors, arrays, texts and numbers in a batch of any nesting."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list | tuple | set):
        for part in value:
            yield from leaves(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name))
    elif value is not None:
        yield value


def size_of(batch: Any) -> int:
    """Return how many items a batch holds whose numbers are not known: rows of its first tensor, or its length.

    Raises UserError for a batch that has neither.
    """
    for part in leaves(batch):
        if getattr(part, "ndim", 0):
            return len(part)
    if hasattr(batch, "__len__"):
        return len(batch)
    raise UserError(
        f"a batch of the type {type(batch).__name__}: nobody can say how many items it holds; allowed is one with a "
        "tensor, or with a length. Or write numbers(batch) into the file (docs/own_loader.md)."
    )


def moved(value: Any, device: str) -> Any:
    """Return a batch of any nesting on a device; what has a `to` of its own goes by that."""
    if hasattr(value, "to"):
        return value.to(device)
    if isinstance(value, Mapping):
        return type(value)({name: moved(part, device) for name, part in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(part, device) for part in value))
    if isinstance(value, list | tuple):
        return type(value)(moved(part, device) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: moved(getattr(value, name), device) for name in names})
    return value
