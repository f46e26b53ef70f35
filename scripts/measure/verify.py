"""Proof before numbers: every item of the split exactly once, bit-identical, with its labels.

Each delivered item is hashed and compared with the manifest. What is wrong is explained from the corpus itself, so
that the author of a loader reads "scaled by 0.99997" and not "hash differs".
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scripts.common.corpus import Corpus, Item, item_hash
from scripts.common.vocabulary import CROPS, EXACT
from scripts.measure.checksums import LEAST_SHUFFLED, SHOWN, differ, rows_of, some
from scripts.measure.pieces import Pieces
from scripts.measure.sink import Checksums


@dataclass
class Verifier:
    """Compares the batches of one epoch with one split of a corpus.

    `problems` holds a line for each kind of fault, with the first items that have it.
    """

    corpus: Corpus
    split: str
    batch_size: int
    short_batches: int  # allowed number of batches that are not full
    device: str = "cpu"
    world: int = 1  # ranks that share the split: what they deliver together measure/across.py looks at
    limit: int = 0  # what a value may differ by: of a decoder whose last bits are its own
    tolerance: int = 0  # of the means of a timed epoch's images, where they may be decoded otherwise
    sums: dict[int, tuple[int, ...]] = field(default_factory=dict)  # of each item: of the proof, and the verify epoch
    difference: float = 0.0  # the largest one
    seen: Counter[int] = field(default_factory=Counter)
    orders: list[list[int]] = field(default_factory=list)  # of a split that is not shared only that of the last epoch
    faults: dict[str, list[str]] = field(default_factory=dict)
    by_hash: dict[str, int] | None = None
    ended: bool = False  # the verify epoch: before, nothing is proven
    level: str = EXACT  # of a user's own items: what they are held to (own_items.py)
    pieces: Pieces | None = None  # of recordings of which each epoch delivers other pieces: which are right

    def __post_init__(self) -> None:
        self.items: dict[int, Item] = {item.index: item for item in self.corpus.items(self.split)}
        self._in_order = sorted(self.items)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong so far."""
        return not self.faults

    @property
    def problems(self) -> list[str]:
        """One line a kind of fault, with the first cases; of many kinds, the first ones."""
        lines = []
        for kind, cases in self.faults.items():
            shown = "; ".join(cases[:SHOWN])
            more = f"; and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
            lines.append(f"{kind}: {shown}{more}" if shown else kind)
        more_kinds = [f"and {len(lines) - SHOWN} more kinds of fault"] if len(lines) > SHOWN else []
        return lines[:SHOWN] + more_kinds

    def as_json(self) -> dict[str, Any]:
        """Return the verification's part of a run's record."""
        counts = {"expected": len(self.items), "delivered": sum(self.seen.values())}
        limits = {"allowed_difference": self.limit, "largest_difference": self.difference} if self.limit else {}
        return {"ok": self.ok and self.ended, **counts, **limits, "problems": self.problems}

    def check(self, batch: Mapping[str, Any]) -> bool:
        """Compare one batch of the verify epoch with the manifest; return whether its form is right."""
        shape = self._wrong_shape(batch)
        if shape:
            self._fault("wrong batch", shape)
            return False
        arrays = {name: tensor.cpu().numpy() for name, tensor in batch.items()}
        for row, index in enumerate(arrays["item"].tolist()):
            self.seen[index] += 1
            item = self.items.get(index)
            if item is None:
                self._fault("items that are not in the split", f"item {index}")
                continue
            if "start" in arrays:
                item = self._piece_of(item, int(arrays["start"][row]))
            self._check_data(item, arrays[self.corpus.sample.key][row])
            self._check_labels(item, int(arrays["target"][row]), arrays["labels"][row])
        return True

    def finish(self, checksums: Iterable[Checksums]) -> None:
        """Look at the verify epoch as a whole; its checksums are what those of later epochs must equal."""
        self._check_counts(self.seen, "")
        self._check_batches(checksums, "")
        for index, *sums in self._rows(checksums, ""):
            self.sums[index] = tuple(sums)
        self.ended = True

    def check_epoch(self, number: int, checksums: Iterable[Checksums]) -> None:
        """Compare the checksums of a timed epoch with the manifest and with those of the verify epoch."""
        where = f" in timed epoch {number}"
        rows = self._rows(checksums, where)
        self._check_counts(Counter(row[0] for row in rows), where)
        self._check_batches(checksums, where)
        if self.pieces:
            for index in self.pieces.differing(rows, number):
                self._fault(f"other data than was verified{where}", f"item {index}")
        for index, *sums in rows if not self.pieces else ():
            if index in self.sums and differ(tuple(sums), self.sums[index], self.tolerance):
                self._fault(f"other data than was verified{where}", f"item {index}")

    def _rows(self, checksums: Iterable[Checksums], where: str) -> list[tuple[int, ...]]:
        """Return (item, target, audio, labels) of each delivered item."""
        rows, wrong = rows_of(checksums)
        for case in wrong:
            self._fault(f"wrong batch{where}", case)
        return rows

    def _check_batches(self, checksums: Iterable[Checksums], where: str) -> None:
        """Look at the sizes of an epoch's batches, and whether its order is a new one."""
        batches = [checksum.item.tolist() for checksum in checksums]
        sizes = [len(items) for items in batches]
        short = sum(size < self.batch_size for size in sizes)
        if short > self.short_batches:
            self._fault(f"short batches{where}", f"{short} were not full, allowed are {self.short_batches}")
        if max(sizes, default=0) > self.batch_size:
            self._fault(f"long batches{where}", f"{max(sizes)} items, allowed are {self.batch_size}")
        order = [index for items in batches for index in items]
        self.check_order(order, where)
        if self.world == 1:
            self.orders.clear()
        self.orders.append(order)

    def check_order(self, order: list[int], where: str) -> None:
        """Look whether the order of an epoch, or of its beginning, is a new one."""
        like = self.order_like(order)
        if like:
            self._fault(f"not shuffled{where}", f"the order is that of {like}")

    def order_like(self, order: list[int]) -> str | None:
        """Return which order an epoch begins with: that of `an earlier epoch` or of `the manifest`; None: a new one."""
        if len(order) < LEAST_SHUFFLED:
            return None
        if self.orders and order == self.orders[-1][: len(order)]:
            return "an earlier epoch"
        return "the manifest" if order == (self._in_order if self.world == 1 else sorted(order))[: len(order)] else None

    def _fault(self, kind: str, case: str) -> None:
        self.faults.setdefault(kind, []).append(case)

    def _check_counts(self, counts: Counter[int], where: str) -> None:
        if self.world > 1:
            return
        missing = sorted(set(self.items) - set(counts))
        if missing:
            self._fault(f"missing items{where}", f"{len(missing)} of {len(self.items)}: {some(missing)}")
        for index, count in sorted(counts.items()):
            if count > 1:
                self._fault(f"doubled items{where}", f"item {index} came {count} times")

    def _wrong_shape(self, batch: Mapping[str, Any]) -> str | None:
        """Return what is wrong with a batch's keys, types, shapes or device, or None."""
        count = len(batch["item"]) if "item" in batch else 0
        sample = self.corpus.sample
        wanted = {
            sample.key: (f"torch.{sample.dtype}", (count, *sample.shape)),
            "target": ("torch.int64", (count,)),
            "labels": ("torch.float32", (count, self.corpus.classes)),
            "item": ("torch.int64", (count,)),
        }
        if sample.kind == CROPS:
            wanted["start"] = ("torch.int64", (count,))
        if set(batch) != set(wanted):
            return f"found the keys {', '.join(map(str, batch))}, allowed are {', '.join(wanted)}"
        for name, (dtype, shape) in wanted.items():
            tensor = batch[name]
            found = (str(tensor.dtype), tuple(tensor.shape), tensor.device.type)
            if found != (dtype, shape, self.device):
                return f"{name} is {found[0]} {found[1]} on {found[2]}, expected {dtype} {shape} on {self.device}"
        if count > self.batch_size:
            return f"{count} items in a batch, allowed are {self.batch_size}"
        return None if count else "an empty batch"

    def _check_labels(self, item: Item, target: int, labels: np.ndarray) -> None:
        if target != item.classes[0]:
            self._fault("wrong targets", f"item {item.index} has target {target}, expected {item.classes[0]}")
        expected = np.zeros(self.corpus.classes, dtype=np.float32)
        expected[list(item.classes)] = 1.0
        if not np.array_equal(labels, expected):
            found = np.flatnonzero(labels).tolist()
            self._fault("wrong labels", f"item {item.index} has labels {found}, expected {sorted(set(item.classes))}")

    def _piece_of(self, item: Item, start: int) -> Item:
        """Return the item with the place of its piece: the right one, where that is known."""
        if self.pieces:
            right = int(self.pieces.starts(0)[self.pieces.position[item.index]])
            if start != right:
                self._fault("pieces of other places", f"item {item.index} begins at {start}, asked was {right}")
            start = right
        return item._replace(start=max(0, start))

    def _check_data(self, item: Item, values: np.ndarray) -> None:
        """Let the kind of data say what is wrong with an item, if anything."""
        found = self.corpus.kind.examine(values, item, self.corpus, self._owner, self.limit)
        self.difference = max(self.difference, found.difference)
        if found.problem:
            self._fault("altered items", f"item {item.index} {found.problem}")

    def _owner(self, values: np.ndarray) -> int | None:
        """Return the index of the item that has these stored values, if it is one of the split's."""
        if self.by_hash is None:
            self.by_hash = {item.hash: item.index for item in self.items.values()}
        return self.by_hash.get(item_hash(values))
