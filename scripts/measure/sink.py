"""The sink: what every loader's batches go through, so that each byte is consumed in the same way.

On a CPU one pass that reads every byte (sums of each item); on a GPU a copy into one preallocated device buffer, and
the sums of that. A memory map that is never touched costs nothing and delivers nothing. The sums are kept as checksums:
a loader that delivers other data in a timed epoch than in the verify epoch, or the same in another order, is caught; of
images whose decoder varies, data whose parts have other means.
"""

import mmap
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scripts.machine import gpu

CHUNKS = 32  # of an item, each with a sum of its own
# Odd, so that no change of a single sum is lost; of the chunks, then of up to 31 words after them.
WEIGHTS = [random.Random(number).getrandbits(62) | 1 for number in range(2 * CHUNKS - 1)]


MEANS = 8  # parts of an image, of which a checksum holds the means where its decoder may vary: a byte each
ROWS = 1 << 14  # items whose checksums are kept together
BESIDE = ("target", "labels", "item", "start")  # what a batch holds beside its data


class Checksums(NamedTuple):
    """What is kept of a consumed batch: tensors of one value per item, on the device."""

    item: Any  # int64
    target: Any  # int64
    data: Any  # int64, `checksum` of the values' bits, or their `means`; None of a task that takes no sums
    labels: Any  # int64, `label_sums`; or None


def without_sums(batch: Mapping[str, Any]) -> Checksums:
    """Return what proves that each item came once; copies, since the batch is valid until the next is asked for."""
    return Checksums(batch["item"].clone(), batch["target"].clone(), None, None)


class Kept:
    """The checksums of an epoch, in order, in memory of their own: nothing of them stays on the heap between batches.

    A small piece of memory that stays where a batch was keeps malloc from using that place for the next batch. The heap
    then grows with each batch, every one in new pages: DALI's external source came ten times slower by that.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []  # items of each batch
        self._places: list[tuple[Any, int, bool] | Checksums] = []  # (rows, where it begins in them, has it sums)
        self._rows: Any = None  # int64 (items,) each: of items, targets, sums of data and of labels
        self._used = self._room = 0  # of each row

    def add(self, checksum: Checksums) -> None:
        """Keep a copy of a checksum; one whose tensors differ in length, which is a fault, as it is."""
        columns = [column for column in checksum if column is not None]
        if not checksum.item.is_cuda:  # an array is written to sooner than a tensor
            columns = [column.numpy() for column in columns]
        count = len(columns[0])
        self.sizes.append(count)
        start, end = self._used, self._used + count
        if end > self._room:
            self._room = max(ROWS, count)
            self._rows, start, end = _rows(self._room, checksum.item.device), 0, count
        for row, column in zip(self._rows, columns, strict=False):
            if len(column) != count:
                self._places.append(checksum)
                return
            row[start:end] = column
        self._used = end
        self._places.append((self._rows, start, checksum.data is not None))

    def __iter__(self) -> Iterator[Checksums]:
        """Yield the checksums."""
        import torch

        for place, count in zip(self._places, self.sizes, strict=True):
            if isinstance(place, Checksums):
                yield place
                continue
            rows, start, summed = place
            item, target, *sums = (row[start : start + count] for row in map(torch.as_tensor, rows))
            yield Checksums(item, target, *(sums if summed else (None, None)))


def _rows(count: int, device: Any) -> list[Any]:
    """Return four rows int64 (count,): on a CPU arrays outside the heap, else tensors."""
    import numpy as np
    import torch

    if device.type != "cpu":
        return list(torch.empty((4, count), dtype=torch.int64, device=device))
    return list(np.frombuffer(mmap.mmap(-1, 4 * 8 * count), dtype=np.int64).reshape(4, count))


class Sink:
    """Consumes batches; `finish` returns when all of it has happened."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.varies = False  # whether the loader may decode an item otherwise the next time: then `means` are kept,
        # of audio `levels`
        self.buffers: dict[str, Any] = {}
        self.shape: Any = None  # of an item: that of the first one
        self.label_weights: Any = None
        self.chunk_weights: Any = None

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Read every byte of the batch's tensors; return its checksum."""
        import torch

        if self.device != "cpu":
            batch = {name: self._copied(name, tensor) for name, tensor in batch.items()}
        labels = batch["labels"]
        if self.label_weights is None:
            self.label_weights = torch.tensor(label_weights(labels.shape[1]), device=labels.device)
            self.chunk_weights = torch.tensor(WEIGHTS, device=labels.device)
        data = data_of(batch)
        if self.shape not in (None, data.shape[1:]):
            raise ValueError(
                f"a batch of items of the shape {tuple(data.shape[1:])}, the first one had {tuple(self.shape)}"
            )
        self.shape = data.shape[1:]
        varying = levels if "audio" in batch else means
        sums = varying(data) if self.varies else checksum(data, self.chunk_weights)
        return Checksums(batch["item"].clone(), batch["target"].clone(), sums, label_sums(labels, self.label_weights))

    def _copied(self, name: str, tensor: Any) -> Any:
        """Return the device buffer's part that `tensor` was copied into."""
        held = self.buffers.get(name)
        if held is None or len(held) < len(tensor):
            held = self.buffers[name] = tensor.new_empty(tensor.shape, device=self.device)
        return held[: len(tensor)].copy_(tensor)

    def finish(self) -> None:
        """Wait until the device has consumed what it was given."""
        gpu.synchronize(self.device)

    def computed(self) -> None:
        """Return None: consuming is no computing."""


class Holding:
    """A sink that keeps the first batches that it is given, to look at them again later."""

    COUNT = 2

    def __init__(self, sink: Sink) -> None:
        self.sink, self.held = sink, []
        self.finish, self.computed = sink.finish, sink.computed

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Consume the batch; return its checksum."""
        sums = self.sink.consume(batch)
        if len(self.held) < self.COUNT:
            self.held.append((batch, sums))
        return sums

    def changed(self) -> bool:
        """Return whether a batch that was kept holds something else by now."""
        import torch

        again = ((self.sink.consume(batch), sums) for batch, sums in self.held)
        return not all(torch.equal(now, before) for pair in again for now, before in zip(*pair, strict=True))


def data_of(batch: Mapping[str, Any]) -> Any:
    """Return the one tensor of a batch that is no label: its audio, its images."""
    return next(tensor for name, tensor in batch.items() if name not in BESIDE)


def checksum(data: Any, weights: Any) -> Any:
    """Return int64 (items,) of `data`, a tensor (items, ...) of any type: it depends on the values' bits and order.

    An item is read as 64-bit words (32-bit words, or bytes, where it is no multiple of that). The wrapping sums of
    CHUNKS equal parts and the words that remain count with a weight each: `weights`, int64 on the device of `data`,
    holds WEIGHTS. So an item that is reversed, shifted or has parts exchanged differs, unless each word stays in its
    part.
    """
    import torch

    flat = data.reshape(len(data), -1)
    size = flat.shape[1] * flat.element_size()
    kind = torch.int64 if size % 8 == 0 else torch.int32 if size % 4 == 0 else torch.uint8
    try:
        words = flat.view(kind)
    except RuntimeError:  # it begins or goes on at a part of a word
        words = flat.clone(memory_format=torch.contiguous_format).view(kind)
    size, rest = divmod(words.shape[1], CHUNKS)
    whole = words[:, : CHUNKS * size] if rest else words
    sums = whole.view(len(data), CHUNKS, size).sum(dim=2, dtype=torch.int64 if kind == torch.uint8 else kind)
    if rest:
        sums = torch.cat([sums, words[:, CHUNKS * size :]], dim=1)
    return _weighted(sums, weights[: CHUNKS + rest])


def label_weights(classes: int) -> list[int]:
    """Return an odd number of up to 62 bits for each class."""
    weights = random.Random(0)
    return [weights.getrandbits(62) | 1 for _ in range(classes)]


def label_sums(labels: Any, weights: Any) -> Any:
    """Return int64 (items,): the wrapping sums of the bits of float32 (items, classes), each class with its weight.

    So items whose labels are exchanged differ, also where the numbers of their classes have the same sum.
    """
    import torch

    return _weighted(labels.view(torch.int32), weights)


def _weighted(words: Any, weights: Any) -> Any:
    """Return int64 (items,): the wrapping sums of integers (items, n) times their int64 weights (n,)."""
    if words.is_cuda:  # which has no product of integer matrices
        return (words * weights).sum(dim=1)
    return words.long() @ weights


def levels(audio: Any) -> Any:
    """Return int64 (items,) of float32 (items, ...): the means of the absolute values of MEANS equal parts.

    Each is a byte, as `means` has it of images.
    """
    return means(audio.abs())


def means(images: Any) -> Any:
    """Return int64 (images,) of a tensor (images, ...): the means of MEANS equal parts, in 255ths, a byte each.

    What is left when an image is divided so, less than MEANS values, is in no part.
    """
    import torch

    flat = images.reshape(len(images), -1)
    size = flat.shape[1] // MEANS
    parts = flat[:, : MEANS * size].view(len(images), MEANS, size)
    found = torch.stack([_mean(part) for part in parts.unbind(1)], dim=1)
    places = 8 * torch.arange(MEANS, device=images.device)
    return (found.nan_to_num(255.0).round().long().clamp(0, 255) << places).sum(dim=1)


def _mean(part: Any) -> Any:
    """Return float64 (images,): the means of values (images, ...), in 255ths; torch makes a wide copy of bytes."""
    import torch

    if part.dtype == torch.uint8:
        return part.sum(dim=1, dtype=torch.int64).double() / part.shape[1]
    return part.mean(dim=1, dtype=torch.float32).double() * 255


class PlainLoop:
    """``for batch in loader: pass``, as published comparisons iterate: a byte that nobody touches costs nothing.

    Its checksums hold the items alone.
    """

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Note which items the batch holds."""
        return without_sums(batch)

    def finish(self) -> None:
        """Do nothing."""

    def computed(self) -> None:
        """Return None."""
