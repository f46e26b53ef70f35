"""The sink: what every loader's batches go through, so that each byte is consumed in the same way.

On a CPU one pass that reads every byte (a sum); on a GPU a copy into one preallocated device buffer.
A memory map that is never touched costs nothing and delivers nothing.
"""

from collections.abc import Mapping
from typing import Any


class Sink:
    """Consumes batches; `finish` returns when all of it has happened."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.buffers: dict[str, Any] = {}

    def consume(self, batch: Mapping[str, Any]) -> None:
        """Read every byte of the batch's tensors."""
        if self.device == "cpu":
            for tensor in batch.values():
                tensor.sum()
        else:
            for name, tensor in batch.items():
                self._buffer(name, tensor)[: len(tensor)].copy_(tensor, non_blocking=True)

    def _buffer(self, name: str, tensor: Any) -> Any:
        held = self.buffers.get(name)
        if held is None or len(held) < len(tensor):
            held = self.buffers[name] = tensor.new_empty(tensor.shape, device=self.device)
        return held

    def finish(self) -> None:
        """Wait until the device has consumed what it was given."""
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()
