"""Loaders whose items are transformed: how they are opened, and what their batches are held to.

The proof is made without the transform. With it every item must come once with its target, all in one shape. Where a
transform is not random, the first items are held to what it makes of the corpus's items in this process. They may
differ in the last digits: threads and batches add up in another order.
"""

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

    def __init__(self, device: str, applied: Applied, corpus: Any) -> None:
        super().__init__(device)
        self.applied, self.corpus, self.held = applied, corpus, False

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
        if self.applied.random:
            return
        items = {item.index: item for item in self.corpus.items(SPLIT) if item.index in set(numbers)}
        function, _ = self.applied.functions("cpu")
        for number, row in zip(numbers, found, strict=True):
            with torch.no_grad():
                right = function(torch.from_numpy(self.corpus.delivered(items[number])))
            if (
                row.shape != right.shape
                or torch.isclose(row, right.to(row.dtype), **CLOSE).float().mean() < LEAST_CLOSE
            ):
                raise ValueError(f"transform {name}: item {number} is not what it makes of that item")
