"""A transform at work, whichever loader reads: item by item in a worker, or on whole batches that have arrived.

A loader on torch's DataLoader has it in its workers, where it has some, and else in the training's process, as a
transform in a Dataset is. Of a library whose threads do the reading, batches are transformed in the training's process.
On the device, a whole batch is transformed at once, after its copy.

What is random is seeded for each item by the epoch and its number, whichever process does it: so that every loader has
the same work, and what comes can be held to it. A transform with SECOND gets another item of the data set, which is
read for it in the worker.
"""

import hashlib
import mmap
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import util
from types import ModuleType
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.request import LoaderRequest

Batch = Mapping[str, Any]
WORKER, PROCESS, DEVICE = "worker", "process", "device"
_SEEDED = threading.Lock()  # threads share the generators that are seeded


class Applied:
    """What makes other items of those that are read; built once in each process, when it is first used."""

    def __init__(self, transform: Mapping[str, Any], key: str, rate: int | None, seed: int = 0) -> None:
        self.transform, self.key, self.rate, self.seed = transform, key, rate, seed
        self.made: dict[tuple[int, str], tuple[Any, Any]] = {}
        self.told: int | None = None  # the epoch of what this process reads, where its batches say so
        self.begun = mmap.mmap(-1, 8)  # the epoch that began last: forks see it too
        self.collated = False  # whether a DataLoader's collating does it; known once a loader is open

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": {}, "begun": self.begun[:]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self.begun = mmap.mmap(-1, 8)
        self.begun[:] = state["begun"]

    @property
    def epoch(self) -> int:
        """The epoch by which randomness is seeded."""
        return int.from_bytes(self.begun[:], "little") if self.told is None else self.told

    def begin(self, epoch: int) -> None:
        """Say which epoch begins, to this process and its forks: of a loader whose batches do not say it."""
        self.begun[:] = epoch.to_bytes(8, "little")

    @property
    def random(self) -> bool:
        """Whether the same item may come out otherwise."""
        return getattr(self._module, "RANDOM", True)

    @property
    def second(self) -> bool:
        """Whether it gets another item of the data set as well."""
        return getattr(self._module, "SECOND", False)

    @property
    def _module(self) -> ModuleType:
        own = "file" in self.transform
        return _imported(self.transform["file"]) if own else plugins.load("transforms", self.transform["transform"])

    def drawn(self, *what: int) -> int:
        """Return a number below 2**32 that is the same for the same seed, epoch and `what`, in any process."""
        text = ",".join(map(str, (self.seed, self.epoch, *what)))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")

    def seeded(self, number: int, function: Callable[..., Any], *data: Any) -> Any:
        """Return what a function makes of an item, its randomness seeded by the epoch and the item's number."""
        import numpy as np
        import torch

        if self.random:
            seed = self.drawn(number)
            torch.manual_seed(seed)
            if "file" in self.transform:
                random.seed(seed)
                np.random.seed(seed)
        return function(*data)

    def place(self, request: LoaderRequest) -> str:
        """Return the place of work, a key of the column `transformed_in`, once the loader is open."""
        if request.transform_in == DEVICE and request.device != "cpu":
            return DEVICE
        return WORKER if self.collated and request.workers else PROCESS

    def size(self, sample: Any) -> int:
        """Return the bytes of a transformed item."""
        import torch

        item, _ = self.functions("cpu")
        with torch.no_grad():
            zeros = torch.zeros(sample.shape, dtype=getattr(torch, sample.dtype))
            made = item(*[zeros] * (1 + self.second))
        return made.numel() * made.element_size()

    def functions(self, device: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Return a function of an item, and one of a batch, for a device."""
        place = (os.getpid(), device)
        if place not in self.made:
            self.made[place] = self._functions(device)
        return self.made[place]

    def _functions(self, device: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        import torch

        if "file" not in self.transform:
            module = plugins.load("transforms", self.transform["transform"])
            made = module.make(self.rate, self.transform["options"], device)
            return lambda *items: made(*(item[None] for item in items))[0], made
        own = _imported(self.transform["file"])
        by_item, by_batch = getattr(own, "item", None), getattr(own, "batch", None)
        if by_item is None and by_batch is None:
            raise ValueError(f"{self.transform['file']}: found no item(data) and no batch(data); one is needed")
        return (
            by_item or (lambda *items: by_batch(*(item[None] for item in items))[0]),
            by_batch or (lambda *data: torch.stack([by_item(*one) for one in zip(*data, strict=True)])),
        )

    def item_by_item(self, batch: Batch, others: Any = None) -> Batch:
        """Return a batch whose items were transformed one after the other, stacked as torch collates them.

        `others` are the items that one with SECOND gets, (items, ...).
        """
        import torch

        from scripts.loaders._torch import empty_shared

        function, _ = self.functions(str(batch[self.key].device))
        data = (batch[self.key],) if others is None else (batch[self.key], others)
        with torch.no_grad():
            numbers = batch["item"].tolist()
            with _generators_kept() if self.random else nullcontext():
                rows = [self.seeded(number, function, *one) for number, *one in zip(numbers, *data, strict=True)]
            out = None
            if torch.utils.data.get_worker_info() is not None:  # where torch's own collating puts it
                out = empty_shared((len(rows), *rows[0].shape), str(rows[0].dtype).removeprefix("torch."))
            return type(batch)({**batch, self.key: torch.stack(rows, out=out)})

    def at_once(self, batch: Batch) -> Batch:
        """Return a batch that was transformed as a whole, on the device where it is."""
        import torch

        data = batch[self.key]
        _, function = self.functions(str(data.device))
        with torch.no_grad():
            return {**batch, self.key: function(data)}


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Have what is seeded within leave no trace: a loader may draw its order from the same generators."""
    import numpy as np
    import torch

    with _SEEDED:
        states = torch.get_rng_state(), random.getstate(), np.random.get_state()
        try:
            yield
        finally:
            torch.set_rng_state(states[0])
            random.setstate(states[1])
            np.random.set_state(states[2])


@cache
def _imported(path: str) -> ModuleType:
    """Return the user's file as a module: it is run."""
    spec = util.spec_from_file_location("own_transform", path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class InEpoch(list):
    """The positions of a batch, and the epoch that they are of."""

    epoch = 0


class Told:
    """A map-style data set that tells a transform, in the process that reads, which epoch a batch is of."""

    def __init__(self, dataset: Any, applied: Applied) -> None:
        self.dataset, self.applied = dataset, applied

    def __getitems__(self, positions: list[int]) -> Any:
        self.applied.told = getattr(positions, "epoch", self.applied.told)
        return read(self.dataset, positions)


def read(dataset: Any, positions: list[int]) -> Any:
    """Return what a map-style data set gives for several positions, to be collated."""
    if hasattr(dataset, "__getitems__"):
        return dataset.__getitems__(positions)
    return [dataset[position] for position in positions]


def collating(request: LoaderRequest, collate: Callable[..., Any], dataset: Any = None) -> Callable[..., Any]:
    """Return `collate` of a DataLoader with the transform behind it, where a worker is to do that.

    Of a `dataset`, another item is read for each that a transform with SECOND gets.
    """
    applied = request.applied
    if applied is None or request.transform_in == DEVICE or (applied.second and dataset is None):
        return collate
    applied.collated = True

    def transformed(items: Any) -> Batch:
        batch, others = collate(items), None
        if applied.second:
            positions = [applied.drawn(number, 1) % request.items for number in batch["item"].tolist()]
            others = collate(read(dataset, positions))[applied.key]
        return applied.item_by_item(batch, others)

    return transformed


def kept_transformed(request: LoaderRequest, kept: Batch) -> Batch:
    """Return a batch that is given in place of those that were not sent, as a worker would have sent it."""
    applied = request.applied
    if applied is None or request.transform_in == DEVICE:
        return kept
    return applied.item_by_item(kept, kept[applied.key].roll(1, 0) if applied.second else None)


def arriving(request: LoaderRequest, epoch: Callable[[int], Iterator[Batch]]) -> Callable[[int], Iterator[Batch]]:
    """Return the epoch function of a loader that is open with the transform behind it, where no worker does that."""
    if request.applied is None or request.applied.collated:
        return epoch
    applied = request.applied
    if applied.second:
        raise UserError(
            f"transform {applied.transform['name']}: it reads a second item for each, and finds no data set to read it "
            "from; allowed is a loader on torch's DataLoader over a map-style data set, with transform_in: worker."
        )
    done = applied.at_once if request.transform_in == DEVICE else applied.item_by_item

    def epochs(number: int) -> Iterator[Batch]:
        applied.told = number
        return map(done, epoch(number))

    return epochs
