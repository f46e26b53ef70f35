"""Loaders whose items are transformed: how they are opened, and what their batches are held to.

The proof is made without the transform. With it every item must come once with its target, all in one shape. The first
items are held to what it makes of the corpus's items in this process. They may differ in the last digits: threads and
batches add up in another order. One that is random is seeded by the epoch and the item, where it has single items.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import SPLIT
from scripts.loaders._transformed import Applied, arriving
from scripts.machine import device_prefetch
from scripts.measure.sink import Checksums, Sink, data_of, without_sums

HELD = 4  # items of the first batch
EPOCHS = 2  # of one of these, the first ones, it is
CLOSE, LEAST_CLOSE = {"rtol": 1e-3, "atol": 1e-4}, 0.99  # the logarithm of nearly nothing may differ by much
LEFT_OUT = "transform"  # the part that can be left out of a run, to see what it costs


@contextmanager
def opened(module: ModuleType, request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Mapping[str, Any]]]]:
    """Open a loader as `request` asks, with its transform; yield the epoch function."""
    if LEFT_OUT in request.without:
        request = replace(request, applied=None)
    with device_prefetch.open_epochs(module, request) as epoch:
        yield arriving(request, epoch)


class TransformedSink(Sink):
    """Reads every byte of transformed batches; their checksums are of items and targets alone."""

    def __init__(self, device: str, applied: Applied, corpus: Any, by_item: bool = True) -> None:
        super().__init__(device)
        self.applied, self.corpus, self.by_item, self.held = applied, corpus, by_item, False

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Consume a batch; return its checksum. Raises ValueError for wrong items in the first one."""
        super().consume(batch)
        if not self.held:
            self.hold(batch)
            self.held = True
        return without_sums(batch)

    def hold(self, batch: Mapping[str, Any]) -> None:
        """Raise ValueError where items are not what the transform makes of theirs, or no finite numbers."""
        import torch

        numbers = batch["item"][:HELD].tolist()
        found, name = data_of(batch)[:HELD].cpu(), self.applied.transform["name"]
        if not torch.isfinite(data_of(batch).float()).all():
            raise ValueError(f"transform {name}: found values that are not finite in the first batch")
        in_worker = self.by_item and (self.applied.collated or found.device == data_of(batch).device)
        if self.applied.random and not in_worker:  # drawn for a whole batch, or by the device's own generator
            return
        state = torch.get_rng_state()
        right = [self.made(numbers, epoch) for epoch in range(EPOCHS if self.applied.random else 1)]
        again = self.made(numbers, 0)
        torch.set_rng_state(state)
        if self.applied.random and not all(map(_close, again, right[0])):
            return  # its randomness comes from where no seed reaches: shapes and finite values it is, then
        for number, row, *wanted in zip(numbers, found, *right, strict=True):
            if not any(_close(row, one) for one in wanted):
                raise ValueError(f"transform {name}: item {number} is not what it makes of that item")

    def made(self, numbers: list[int], epoch: int) -> list[Any]:
        """Return what the transform makes of items of the corpus in an epoch."""
        import torch

        applied = copy.copy(self.applied)
        applied.told = epoch
        count, function = self.corpus.counts[SPLIT], applied.functions("cpu")[0]
        second = {number: applied.drawn(number, 1) % count for number in numbers} if applied.second else {}
        kept = {
            position: item
            for position, item in enumerate(self.corpus.items(SPLIT))
            if item.index in numbers or position in second.values()
        }
        first = {item.index: item for item in kept.values()}
        made = []
        for number in numbers:
            wanted = [first[number], *([kept[second[number]]] if second else [])]
            data = [torch.from_numpy(self.corpus.delivered(item)) for item in wanted]
            with torch.no_grad():
                made.append(applied.seeded(number, function, *data))
        return made


def _close(row: Any, right: Any) -> bool:
    import torch

    same = row.shape == right.shape
    return bool(same and torch.isclose(row, right.to(row.dtype), **CLOSE).float().mean() >= LEAST_CLOSE)
