"""The sink: what every loader's batches go through, so that each byte is consumed in the same way.

On a CPU one pass that reads every byte (a sum per clip); on a GPU a copy into one preallocated device buffer, and the
sums of that. A memory map that is never touched costs nothing and delivers nothing. The sums are kept as receipts: a
loader that delivers other data in a timed epoch than in the verify epoch is caught by them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Receipt(NamedTuple):
    """What is kept of a consumed batch: tensors of one value per clip, on the device."""

    clip: Any  # int64
    target: Any  # int64
    audio: Any  # int32, the wrapping sum of the samples' bits; None of a task that takes no sums
    labels: Any  # float32, the sum of the class numbers, counted from 1; or None


class Sink:
    """Consumes batches; `finish` returns when all of it has happened."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.buffers: dict[str, Any] = {}
        self.weights: Any = None

    def consume(self, batch: Mapping[str, Any]) -> Receipt:
        """Read every byte of the batch's tensors; return its receipt."""
        import torch

        if self.device != "cpu":
            batch = {name: self._copied(name, tensor) for name, tensor in batch.items()}
        labels = batch["labels"]
        if self.weights is None:
            self.weights = torch.arange(1.0, labels.shape[1] + 1, device=labels.device)
        audio = batch["audio"].view(torch.int32).sum(dim=(1, 2), dtype=torch.int32)
        return Receipt(batch["clip"].clone(), batch["target"].clone(), audio, labels @ self.weights)

    def _copied(self, name: str, tensor: Any) -> Any:
        """Return the device buffer's part that `tensor` was copied into."""
        held = self.buffers.get(name)
        if held is None or len(held) < len(tensor):
            held = self.buffers[name] = tensor.new_empty(tensor.shape, device=self.device)
        return held[: len(tensor)].copy_(tensor, non_blocking=True)

    def finish(self) -> None:
        """Wait until the device has consumed what it was given."""
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()

    def computed(self) -> None:
        """Return None: consuming is no computing."""


class PlainLoop:
    """``for batch in loader: pass``, as published comparisons iterate: a byte that nobody touches costs nothing.

    Its receipts hold the clips alone.
    """

    def consume(self, batch: Mapping[str, Any]) -> Receipt:
        """Note which clips the batch holds."""
        return Receipt(batch["clip"].clone(), batch["target"].clone(), None, None)

    def finish(self) -> None:
        """Do nothing."""

    def computed(self) -> None:
        """Return None."""
