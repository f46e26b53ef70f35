"""A user's own items: what they are held to where they are not the corpus's own, and how their batches are consumed.

`CHECK = "items"`: which items came, how often, in what order, and that their values are finite. Items that were
substituted, skipped or doubled are counted and said: a training may want them so. `CHECK = "slice"`: the same, and each
is a piece of its recording, bit by bit. `CHECK = "none"`: the rate alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.common.corpus import to_float
from scripts.common.vocabulary import EXACT, ITEMS, NO_CHECK, SLICE
from scripts.loaders._followed import leaves
from scripts.machine import gpu
from scripts.machine.host import warning
from scripts.measure import places
from scripts.measure.sink import Checksums
from scripts.measure.verify import Verifier

OWN = "own"  # of a batch: what the user's loader gave
BESIDE = "beside"  # of a batch: what is known of it and of its loader (loaders/_followed.py)
LEAST_BATCHES = 3  # whose parts come from different items, before that is said: small values equal others by chance,
MOST_UNKNOWN = 0.1  # so these parts are to be in all batches but so many


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
        self.about, self.batches, self.traced = None, 0, []
        self.rounded: dict[int, set[str]] = {}  # of each part of an item the types that hold all of a batch
        self.places: list[places.Place] = []  # of the verify epoch's pieces,
        self.later: list[places.Place] = []  # and of some in the second epoch
        self.recordings = list(self.corpus.items(self.split)) if self.level == SLICE else []
        self.items, self._in_order = {}, []
        self.substituted, self.by_worker, self.bytes, self.padded, self.values = 0, Counter(), 0, 0, 0
        self.alike = False

    def check(self, batch: Mapping[str, Any]) -> bool:
        """Note the items of a batch; return True."""
        followed, self.about = batch[BESIDE]
        self.substituted += followed.substituted
        self.batches += 1
        numbers = batch["item"].tolist()
        if followed.traced:
            self.traced.append(followed.traced)
        for part, name in (followed.rounded or {}).items():
            self.rounded.setdefault(part, set()).add(name)
        self.seen.update(numbers)
        for part in leaves(batch[OWN]):
            self._look(part, len(numbers))
        if self.level == SLICE:
            self._pieces(rows_of(batch), numbers, followed, self.by_worker[followed.worker])
        self.by_worker[followed.worker] += len(numbers)
        expected = self.about.expected
        if expected and any(number >= expected or number < 0 for number in numbers):
            self._fault("items that are not in the data set", f"one of {numbers[:3]}, it has {expected}")
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

    def _pieces(self, rows: Any, numbers: list[int], followed: Any, before: int) -> None:
        """Look whether each row is a piece of its recording, and note where; its worker made `before` others."""
        if rows is None:
            self._fault("batches without a tensor (items, ...) to hold to the recordings", "")
            return
        for number, row, turn in zip(numbers, rows, _turns(followed, len(numbers)), strict=True):
            if not 0 <= number < len(self.recordings):
                continue
            starts, room = self._starts(number, row)
            if not starts:
                self._fault("items that are no piece of their recording", f"item {number}")
            elif len(starts) == 1 and room > 0:
                self.places.append(places.Place(number, followed.worker, before + turn, starts[0], room))

    def _starts(self, number: int, row: Any) -> tuple[list[int], int]:
        """Return the starts of a row in its recording, two at most, and the last possible start."""
        item, audio = self.recordings[number], self.corpus.sample.kind == "audio"
        whole = to_float(self.corpus.stored(item)) if audio else self.corpus.delivered(item)
        piece = np.trim_zeros(np.asarray(row.cpu()).reshape(-1), "b")  # padded at its end
        found = places.starts(whole, piece) if piece.dtype == whole.dtype else []
        return found, whole.size - piece.size

    def second(self, sink: Any) -> Any:
        """Return a sink that keeps the first batches of the second epoch, for `found` to compare their places."""
        self.kept = Kept(sink, self.level == SLICE)
        return self.kept

    def _look_at_second(self) -> None:
        """Note the places of the pieces that were kept."""
        before: Counter[int] = Counter()
        for numbers, rows, followed in self.kept.batches if hasattr(self, "kept") else ():
            for number, row, turn in zip(numbers, rows, _turns(followed, len(numbers)), strict=True):
                starts, room = self._starts(number, row) if 0 <= number < len(self.recordings) else ([], 0)
                if len(starts) == 1 and room > 0:
                    place = places.Place(number, followed.worker, before[followed.worker] + turn, starts[0], room)
                    self.later.append(place)
            before[followed.worker] += len(numbers)

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
        known, about = self.level != NO_CHECK, self.about
        expected, workers = (about.expected, about.workers) if about else (None, 0)
        self._look_at_second()
        return {
            "items": delivered,
            "expected": expected,
            "substituted": self.substituted if known else None,
            "doubled": delivered - distinct if known else None,
            "missing": expected - distinct if known and expected else None,
            "idle_workers": max(0, workers - len(set(self.by_worker) - {-1})) if workers else 0,
            "padding_percent": 100 * self.padded / self.values if self.values else None,
            "item_bytes": self.bytes / delivered if delivered else None,
            "same_order": self.alike,
            "batches": self.batches,
            "said_batches": about.batches if about and self.ended else None,
            "rough_batches": about.rough if about else 0,
            "swapped": self._swapped(),
            "narrowed": next((list(one.narrowed) for one in self.traced if one.narrowed), None),
            "items_narrowed": self._items_narrowed(),
            "workers_alike": places.workers_alike(self.places),
            "epochs_alike": places.epochs_alike(self.places, self.later),
        }

    def _items_narrowed(self) -> list[int | str] | None:
        """Return a part of an item whose values the Dataset itself had in 16 bits, and their type; or None."""
        known = self.rounded.items() if self.level == ITEMS else ()
        return next(([part, max(names)] for part, names in sorted(known) if "" not in names), None)

    def _swapped(self) -> list[int] | None:
        """Return two parts of an item whose rows come from different items, and in how many batches; or None."""
        pairs = Counter(pair for one in self.traced for pair in map(tuple, one.pairs))
        swapped = Counter(pair for one in self.traced for pair in map(tuple, one.swapped))
        least = max(LEAST_BATCHES, (1 - MOST_UNKNOWN) * len(self.traced))
        return next(([*pair, count] for pair, count in swapped.most_common() if pairs[pair] >= least), None)


@dataclass
class Kept:
    """A sink that keeps copies of the pieces in the first batches."""

    sink: Any
    pieces: bool

    ITEMS, BYTES = 64, 1 << 26  # at most so many are kept, but for the last batch

    def __post_init__(self) -> None:
        self.batches: list[tuple[list[int], Any, Any]] = []
        self.items = self.bytes = 0

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Consume the batch; return its checksum."""
        rows = rows_of(batch) if self.pieces and self.items < self.ITEMS and self.bytes < self.BYTES else None
        if rows is not None:
            self.batches.append(
                (batch["item"].tolist(), rows.clone(), batch[BESIDE][0]._replace(batch=None, numbers=None))
            )
            self.items, self.bytes = self.items + len(rows), self.bytes + rows.nbytes
        return self.sink.consume(batch)


def rows_of(batch: Mapping[str, Any]) -> Any:
    """Return the first tensor of a batch with several axes and a row for each item, or None."""
    import torch

    parts = (part for part in leaves(batch[OWN]) if getattr(part, "ndim", 0) > 1 and len(part) == len(batch["item"]))
    rows = next(parts, None)
    return None if rows is None else torch.as_tensor(rows)


def _turns(followed: Any, count: int) -> Iterable[int]:
    """Return when each row of a batch was made, among those of the batch."""
    return followed.traced.order if followed.traced and followed.traced.order else range(count)


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
    if found["said_batches"] is not None and abs(found["batches"] - found["said_batches"]) > found["rough_batches"]:
        seen = f"an epoch had {found['batches']:,} batches, and len(loader) is {found['said_batches']:,}"
        cause = "a wrong __len__, or a worker that ends early or reads what others read"
        said.append(warning("own-length", seen, cause, "count what each worker delivers, and correct __len__"))
    if len(set(of_ranks := found.get("rank_batches") or [])) > 1:
        seen = f"the ranks had {', '.join(f'{count:,}' for count in of_ranks)} batches in the first epoch"
        cause = "shares of another size, or batches by length: a training waits at the step that a rank does not take"
        said.append(warning("own-uneven", seen, cause, "give each rank as many batches, or train within DDP's join()"))
    if found["swapped"]:
        one, other, batches = found["swapped"]
        seen = f"in {batches:,} batches the parts {one + 1} and {other + 1} of an item were taken from different items"
        cause = "the collate function sorts or shifts one of them alone"
        said.append(warning("own-swapped", seen, cause, "correct the collate function: data has the labels of others"))
    if found["narrowed"]:
        seen = "the collate function makes {} of {}".format(*reversed(found["narrowed"]))
        said.append(warning("own-narrowed", seen, "a half() before the batch", "convert on the device, or say so"))
    if found["items_narrowed"]:
        part, narrow = found["items_narrowed"]
        seen = f"the Dataset itself narrows: every value of part {part + 1} of its items is a {narrow}, in a wider type"
        cause = "a half() or an autocast in the Dataset, or files that hold 16-bit floats"
        said.append(
            warning("own-items-narrowed", seen, cause, f"keep them wide, or return {narrow} and save the bytes")
        )
    if found["workers_alike"]:
        seen = "the workers {} and {} cut their pieces at the same places".format(*found["workers_alike"])
        cause = "a generator made in __init__, which each worker copies"
        said.append(warning("own-workers-alike", seen, cause, "make it in the worker, from torch.initial_seed()"))
    if found["epochs_alike"]:
        seen = "the second epoch cuts its pieces where the first did"
        cause = "a generator with a fixed seed, which is made anew or copied in each epoch"
        said.append(warning("own-epochs-alike", seen, cause, "seed it by the epoch, or from torch.initial_seed()"))
    if (found["padding_percent"] or 0) >= 10:
        seen = f"{found['padding_percent']:.0f} % of the values are zeros at the end of their row"
        said.append(warning("own-padding", seen, "padding to the longest of a batch", "batch items of like length"))
    return said
