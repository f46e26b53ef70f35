"""What is right of pieces of recordings: where those of an epoch begin, and what they hold.

Every epoch delivers other pieces, so that checksums of a proof say nothing of a later one. Those of a timed epoch are
compared with the recordings themselves, once the clock has stopped.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np

from scripts.common.corpus import Corpus, Item
from scripts.common.request import LoaderRequest, starts_of
from scripts.common.vocabulary import SPLIT
from scripts.machine.host import warning
from scripts.measure.sink import MEANS, WEIGHTS, checksum, levels

COMPARED, COMPARED_WITH_LOSS = 256, 32  # pieces of a timed window at about; of a codec with loss each is decoded anew
LEVEL_TOLERANCE = 2  # of a mean of absolute values, in 255ths


def decoded_by(format: ModuleType, folder: Path, corpus: Corpus, split: str) -> Callable[[Item], np.ndarray] | None:
    """Return the decoder of a format with loss, by the `truth` that it has; None of one without loss."""
    if not hasattr(format, "truth"):
        return None
    positions = {item.index: position for position, item in enumerate(corpus.items(split))}

    @lru_cache(maxsize=4)
    def decoded(index: int, frames: int) -> np.ndarray:
        return format.truth(folder, positions[index], frames, corpus.sample)

    return lambda item: decoded(item.index, item.frames)


def off_in_time(shift: int, rate: int) -> dict[str, str]:
    """Return the warning of a loader whose pieces begin elsewhere than asked, by `shift` samples at `rate` Hz."""
    way = "early" if shift < 0 else "late"
    return warning(
        "off-in-time",
        f"each piece begins {abs(shift):,} samples ({abs(shift) / rate * 1000:.0f} ms) too {way}",
        "the decoder counts its seconds from the file's time stamps, which begin with the encoder's delay",
        "where labels have times, take the same decoder's aligned form (docs/decoders.md)",
    )


class Pieces:
    """Where the pieces of each epoch begin, and what they hold."""

    def __init__(self, request: LoaderRequest, corpus: Corpus, split: str = SPLIT) -> None:
        self.request, self.corpus = request, corpus
        self.items = list(corpus.items(split))
        self.position = {item.index: position for position, item in enumerate(self.items)}

    @property
    def share(self) -> float:
        """What all pieces of an epoch are of the recordings."""
        return self.corpus.delivered_share

    def starts(self, epoch: int, seed: int | None = None) -> np.ndarray:
        """Return int64 (items,): the sample where the piece of each item begins."""
        request = self.request if seed is None else replace(self.request, seed=seed)
        return starts_of(request, epoch)

    def differing(
        self, rows: Iterable[Sequence[int]], epoch: int, seed: int | None = None, share: float = 1.0
    ) -> list[int]:
        """Return the items whose piece in an epoch was not that of its place, of some of the rows, chosen at random.

        `rows`: (item, target, sum of the data, ...) of each delivered item. `seed`: of a loader that was opened with
        another one than the request's. `share`: of those that are looked at of a window, in which are more epochs.
        """
        import torch

        with_loss = self.corpus.decoded is not None
        rows = [row for row in rows if len(row) > 2 and row[0] in self.position]
        most = max(1, round(share * (COMPARED_WITH_LOSS if with_loss else COMPARED)))
        chosen = random.Random(epoch).sample(rows, min(most, len(rows)))
        starts, weights, wrong = self.starts(epoch, seed), torch.tensor(WEIGHTS), []
        for index, _, found, *_ in chosen:
            place = self.position[index]
            data = torch.from_numpy(self._right(self.items[place], int(starts[place])))[None]
            same = _near(found, int(levels(data)[0])) if with_loss else found == int(checksum(data, weights)[0])
            wrong += [] if same else [index]
        return sorted(wrong)

    def _right(self, item: Item, start: int) -> np.ndarray:
        """Return the piece of an item from a place on; of a codec with loss all before it is decoded for that."""
        if self.corpus.decoded is None:
            return self.corpus.kind.read_piece(self.corpus.root / item.path, start, self.corpus.sample)
        return self.corpus.kind.piece(self.corpus.stored(item), start + self.corpus.shift, self.corpus.sample)


def _near(one: int, other: int) -> bool:
    parts = zip(*((sums % (1 << 64)).to_bytes(MEANS, "little") for sums in (one, other)), strict=True)
    return all(abs(a - b) <= LEVEL_TOLERANCE for a, b in parts)
