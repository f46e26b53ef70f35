"""Copies batches to the GPU ahead of the step that needs them: the setting `device_prefetch`, for every loader.

The loader delivers on the CPU; its batches go to the device on a CUDA stream of their own, so that the copies run
beside what the device computes. On a CPU there is nothing to copy, and the setting has no effect.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

from scripts.common.request import LoaderRequest

Batch = dict[str, Any]


@contextmanager
def open_epochs(module: ModuleType, request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open a loader as `request` asks; with `device_prefetch` batches, so many are on the device or on their way."""
    if request.device == "cpu" or not request.device_prefetch:
        with module.open_epochs(request) as epoch:
            yield epoch
        return
    with module.open_epochs(replace(request, device="cpu")) as on_host:
        staging = _Staging(request.device, request.device_prefetch)
        yield lambda number: staging.ahead(on_host(number))


class _Staging:
    """A CUDA stream for copies, and page-locked memory for batches that are not in such."""

    def __init__(self, device: str, count: int) -> None:
        import torch

        self.torch, self.device, self.count = torch, device, count
        self.stream = torch.cuda.Stream()
        self.pinned: list[Batch] = [{} for _ in range(count + 1)]
        self.copied: list[Any] = [None] * (count + 1)
        self.turn = 0

    def ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the batches on the device, `count` of them copied ahead."""
        under_way: deque[Batch] = deque()
        for batch in batches:
            under_way.append(self._sent(batch))
            if len(under_way) > self.count:
                yield self._arrived(under_way.popleft())
        while under_way:
            yield self._arrived(under_way.popleft())

    def _sent(self, batch: Batch) -> Batch:
        """Begin to copy a batch; return its tensors on the device, which are not to be used before they have arrived.

        A loader's batch is valid until the next one is asked for, which is when this returns: what is page-locked
        already is waited for, the rest is copied from memory of our own.
        """
        slot, self.turn = self.turn % len(self.pinned), self.turn + 1
        if self.copied[slot] is not None:
            self.copied[slot].synchronize()
        own = all(tensor.is_pinned() for tensor in batch.values())
        host = batch if own else {name: self._staged(slot, name, tensor) for name, tensor in batch.items()}
        with self.torch.cuda.stream(self.stream):
            sent = {name: tensor.to(self.device, non_blocking=True) for name, tensor in host.items()}
            event = self.torch.cuda.Event()
            event.record()
        self.copied[slot] = event
        if own:
            event.synchronize()
        return sent

    def _staged(self, slot: int, name: str, tensor: Any) -> Any:
        """Return a copy of the tensor in page-locked memory of this slot."""
        held = self.pinned[slot].get(name)
        if held is None or len(held) < len(tensor):
            held = self.pinned[slot][name] = self.torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return held[: len(tensor)].copy_(tensor)

    def _arrived(self, batch: Batch) -> Batch:
        """Return a batch for use on the current stream: its work there waits for the copies."""
        current = self.torch.cuda.current_stream()
        current.wait_stream(self.stream)
        for tensor in batch.values():
            tensor.record_stream(current)
        return batch
