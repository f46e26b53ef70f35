"""A user's own items: what they are held to where they are not the corpus's own, and how their batches are consumed.

`CHECK = "items"`: which items came, how often, in what order, and that their values are finite. Items that were
substituted, skipped or doubled are counted and said: a training may want them so. `CHECK = "slice"`: the same, and each
is a piece of its recording, bit by bit. `CHECK = "none"`: the rate alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from scripts.common.corpus import to_float
from scripts.common.vocabulary import EXACT, NO_CHECK
from scripts.loaders._followed import leaves
from scripts.machine import gpu
from scripts.machine.host import warning
from scripts.measure.sink import Checksums
from scripts.measure.verify import Verifier

SLICE = "slice"
OWN = "own"  # of a batch: what the user's loader gave
BESIDE = "beside"  # of a batch: (substituted, worker, expected items, workers)


def check_of(module: Any) -> str:
    """Return the level of a loader's check, a key of CHECKS."""
    return getattr(module, "CHECK", EXACT)


class OwnSink:
    """Reads every byte of batches of any nesting; of each it keeps the items' numbers, and a sum of all bytes."""

    varies = False

    def __init__(self, device: str) -> None:
        self.device = device

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Read every tensor and array of the batch; return its checksum."""
        import torch

        total = torch.zeros((), dtype=torch.int64, device=self.device)
        for part in leaves(batch[OWN]):
            total += _sum(part, self.device)
        count = len(batch["item"])
        none = torch.zeros(count, dtype=torch.int64)
        return Checksums(batch["item"].clone(), none, total.cpu().expand(count).clone(), none)

    def finish(self) -> None:
        """Wait until the device has consumed what it was given."""
        gpu.synchronize(self.device)

    def computed(self) -> None:
        """Return None: consuming is no computing."""


def _sum(part: Any, device: str) -> Any:
    """Return the sum of a part's 64-bit words and of the bytes behind them: every byte is read."""
    import torch

    if isinstance(part, np.ndarray) and part.dtype.kind in "fiubc":
        part = torch.from_numpy(np.ascontiguousarray(part))
    if not isinstance(part, torch.Tensor):
        return torch.tensor(len(part) if isinstance(part, str | bytes) else 1, device=device)
    flat = part.to(device).contiguous().view(-1).view(torch.uint8) if part.numel() else part.new_zeros(0).byte()
    words = len(flat) // 8 * 8
    if flat.data_ptr() % 8:
        words = 0
    return flat[:words].view(torch.int64).sum() + flat[words:].sum(dtype=torch.int64)


class OwnVerifier(Verifier):
    """Counts the items of a user's own loader; faults are values that are not finite, and an epoch without items."""

    def __post_init__(self) -> None:
        self.expected, self.workers = None, 0
        self.recordings = list(self.corpus.items(self.split)) if self.level == SLICE else []
        self.items, self._in_order = {}, []
        self.substituted, self.by_worker, self.short, self.bytes, self.padded, self.values = 0, set(), 0, 0, 0, 0
        self.alike = False

    def check(self, batch: Mapping[str, Any]) -> bool:
        """Note the items of a batch; return True."""
        substituted, worker, self.expected, self.workers = batch[BESIDE]
        self.substituted += substituted
        self.by_worker.add(worker)
        numbers = batch["item"].tolist()
        self.seen.update(numbers)
        for part in leaves(batch[OWN]):
            self._look(part, len(numbers))
        if self.level == SLICE:
            self._pieces(batch[OWN], numbers)
        if self.expected and any(number >= self.expected or number < 0 for number in numbers):
            self._fault("items that are not in the data set", f"one of {numbers[:3]}, it has {self.expected}")
        return True

    def _look(self, part: Any, items: int) -> None:
        import torch

        if not hasattr(part, "nbytes"):
            return
        self.bytes += int(part.nbytes)
        values = torch.as_tensor(part)
        if not values.is_floating_point():
            return
        if not bool(torch.isfinite(values).all()):
            self._fault("values that are not finite", f"in a tensor {tuple(values.shape)}")
        if values.ndim > 1 and len(values) == items and values.shape[-1] > 1:  # zeros at the end: padding, mostly
            rows = values.reshape(items, -1, values.shape[-1]).abs().sum(1)
            ends = rows.flip(-1).ne(0).cumsum(-1).eq(0).sum()
            self.padded, self.values = self.padded + int(ends), self.values + rows.numel()

    def _pieces(self, batch: Any, numbers: list[int]) -> None:
        """Look whether each row of the first tensor of several dimensions is a piece of its recording."""
        rows = next(
            (part for part in leaves(batch) if getattr(part, "ndim", 0) > 1 and len(part) == len(numbers)), None
        )
        if rows is None:
            self._fault("batches without a tensor (items, ...) to hold to the recordings", "")
            return
        for number, row in zip(numbers, rows, strict=True):
            if not 0 <= number < len(self.recordings):
                continue
            item = self.recordings[number]
            audio = self.corpus.sample.kind == "audio"
            whole = to_float(self.corpus.stored(item)) if audio else self.corpus.delivered(item)
            piece, size = np.trim_zeros(np.asarray(row.cpu()).reshape(-1), "b"), whole.itemsize  # padded at its end
            held, wanted = whole.tobytes(), piece.tobytes()
            place = held.find(wanted)
            while place >= 0 and place % size:  # found between two values
                place = held.find(wanted, place + 1)
            if place < 0 or piece.dtype != whole.dtype:
                self._fault("items that are no piece of their recording", f"item {number}")

    def finish(self, checksums: Iterable[Checksums]) -> None:
        """Look at the verify epoch as a whole."""
        kept = list(checksums)
        self.orders.append([item for one in kept for item in one.item.tolist()])
        self.items = dict.fromkeys(sorted(self.seen))
        self.sums = dict.fromkeys(self.items, (0, 0, 0))
        self.ended = True
        if not self.seen:
            self._fault("an epoch without items", "")

    def check_epoch(self, number: int, checksums: Iterable[Checksums]) -> None:
        """Do nothing: what a later epoch holds is the user's."""

    def check_order(self, order: list[int], where: str) -> None:  # noqa: ARG002
        """Note whether an epoch has the order of the one before."""
        self.alike = self.alike or bool(self.order_like(order))

    def order_like(self, order: list[int]) -> str | None:
        """Return that an epoch begins as the one before, or None."""
        before = self.orders[-1][: len(order)] if self.orders else None
        return "an earlier epoch" if self.level != NO_CHECK and len(order) > 1 and order == before else None

    def found(self) -> dict[str, Any]:
        """Return the counts in the verify epoch, for the record."""
        delivered, distinct = sum(self.seen.values()), len(self.seen)
        known = self.level != NO_CHECK
        return {
            "items": delivered,
            "expected": self.expected,
            "substituted": self.substituted if known else None,
            "doubled": delivered - distinct if known else None,
            "missing": self.expected - distinct if known and self.expected else None,
            "idle_workers": max(0, self.workers - len(self.by_worker - {-1})) if self.workers else 0,
            "padding_percent": 100 * self.padded / self.values if self.values else None,
            "item_bytes": self.bytes / delivered if delivered else None,
            "same_order": self.alike,
        }


def warnings_of(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return warnings about a user's own items, each with what was seen, a likely cause and what to do."""
    said = []
    items, expected = found["items"], found["expected"] or 0
    if found["substituted"]:
        seen = f"{found['substituted']:,} of {items:,} items were another one than was asked for"
        said.append(
            warning("own-substituted", seen, "an item fails, and the Dataset returns another", "see why it fails")
        )
    if found["doubled"]:
        seen = f"{found['doubled']:,} of {items:,} items of an epoch came before in it"
        cause = "a sampler with replacement, or workers that read the same"
        said.append(
            warning("own-doubled", seen, cause, "an epoch is not a pass over the data: say so where you report it")
        )
    if found["missing"]:
        seen = f"{found['missing']:,} of {expected:,} items did not come in the first epoch"
        cause = "a sampler that draws, a last batch that is dropped, or a worker that ends early"
        said.append(warning("own-missing", seen, cause, "see whether that is wanted"))
    if found["idle_workers"]:
        seen = f"{found['idle_workers']} workers delivered nothing in the first epoch"
        said.append(warning("own-idle", seen, "they have no share of the data", "use fewer, or more shards"))
    if found["same_order"]:
        seen = "the second epoch has the order of the first"
        said.append(warning("own-order", seen, "a forgotten set_epoch, or no shuffling", "write begin(loader, epoch)"))
    if (found["padding_percent"] or 0) >= 10:
        seen = f"{found['padding_percent']:.0f} % of the values are zeros at the end of their row"
        said.append(warning("own-padding", seen, "padding to the longest of a batch", "batch items of like length"))
    return said
