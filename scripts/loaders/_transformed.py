"""A transform at work, whichever loader reads: item by item in a worker, or on whole batches that have arrived.

A loader on torch's DataLoader has it in its workers, where it has some, and else in the training's process, as a
transform in a Dataset is. Of a library whose threads do the reading, batches are transformed in the training's process.
On the device, a whole batch is transformed at once, after its copy.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import util
from types import ModuleType
from typing import Any

from scripts.common import plugins
from scripts.common.request import LoaderRequest

Batch = Mapping[str, Any]
WORKER, PROCESS, DEVICE = "worker", "process", "device"


class Applied:
    """What makes other items of those that are read; built once in each process, when it is first used."""

    def __init__(self, transform: Mapping[str, Any], key: str, rate: int | None) -> None:
        self.transform, self.key, self.rate = transform, key, rate
        self.made: dict[tuple[int, str], tuple[Any, Any]] = {}
        self.collated = False  # whether a DataLoader's collating does it; known once a loader is open

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": {}}

    @property
    def random(self) -> bool:
        """Whether the same item may come out otherwise."""
        own = "file" in self.transform
        module = _imported(self.transform["file"]) if own else plugins.load("transforms", self.transform["transform"])
        return getattr(module, "RANDOM", True)

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
            made = item(torch.zeros(sample.shape, dtype=getattr(torch, sample.dtype)))
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
            return lambda item: made(item[None])[0], made
        own = _imported(self.transform["file"])
        by_item, by_batch = getattr(own, "item", None), getattr(own, "batch", None)
        if by_item is None and by_batch is None:
            raise ValueError(f"{self.transform['file']}: found no item(data) and no batch(data); one is needed")
        return (
            by_item or (lambda item: by_batch(item[None])[0]),
            by_batch or (lambda data: torch.stack([by_item(one) for one in data])),
        )

    def item_by_item(self, batch: Batch) -> Batch:
        """Return a batch whose items were transformed one after the other, stacked as torch collates them."""
        import torch

        from scripts.loaders._torch import empty_shared

        function, _ = self.functions(str(batch[self.key].device))
        with torch.no_grad():
            rows = [function(item) for item in batch[self.key]]
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


@cache
def _imported(path: str) -> ModuleType:
    """Return the user's file as a module: it is run."""
    spec = util.spec_from_file_location("own_transform", path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def collating(request: LoaderRequest, collate: Callable[..., Any]) -> Callable[..., Any]:
    """Return `collate` of a DataLoader with the transform behind it, where a worker is to do that."""
    if request.applied is None or request.transform_in == DEVICE:
        return collate
    request.applied.collated = True
    return lambda items: request.applied.item_by_item(collate(items))


def arriving(request: LoaderRequest, epoch: Callable[[int], Iterator[Batch]]) -> Callable[[int], Iterator[Batch]]:
    """Return the epoch function of a loader that is open with the transform behind it, where no worker does that."""
    if request.applied is None or request.applied.collated:
        return epoch
    done = request.applied.at_once if request.transform_in == DEVICE else request.applied.item_by_item
    return lambda number: map(done, epoch(number))
