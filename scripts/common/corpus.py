"""The canonical corpus: files of one kind of data (`scripts/kinds`), and the manifest that says what each item is.

An item of the corpus is mono 16-bit PCM in natural length, of audio; an image; or an array. Everything
after this stage (formats, loaders, the verification) takes item order, split, labels and the true bytes from here and
nowhere else.
"""

import csv
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from scripts.common import plugins, sample
from scripts.common.errors import UserError, reading
from scripts.common.files import read_json
from scripts.common.vocabulary import CROPS

SPLITS = ("train", "validation")
MANIFEST_COLUMNS = ("index", "id", "split", "classes", "frames", "hash", "path")


class Item(NamedTuple):
    """One row of manifest.csv."""

    index: int
    id: str
    split: str
    classes: tuple[int, ...]
    frames: int  # along the last axis of what is stored: of audio its natural length
    hash: str  # 16 hexadecimal digits, see `item_hash`
    path: str  # of its file, relative to the corpus folder
    start: int | None = None  # of a delivered piece of it: the sample where that begins


def pad_or_cut(pcm: np.ndarray, samples: int) -> np.ndarray:
    """Return int16 (samples,): `pcm` cut to the fixed length, or padded at its end with zeros."""
    if len(pcm) >= samples:
        return pcm[:samples]
    padded = np.zeros(samples, dtype=np.int16)
    padded[: len(pcm)] = pcm
    return padded


def item_hash(fixed: np.ndarray) -> str:
    """Return the XXH3 64-bit hash, as 16 hexadecimal digits, of stored values of the fixed shape, little-endian."""
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(fixed, dtype=fixed.dtype.newbyteorder("<")))


def to_float(pcm: np.ndarray) -> np.ndarray:
    """Return `pcm` / 32768 as float32; exact, since 32768 is a power of two."""
    return np.multiply(pcm, np.float32(1 / 32768), dtype=np.float32)


def read_manifest(path: Path, split: str | None = None) -> Iterator[Item]:
    """Yield the items of manifest.csv in index order, of one split or of all; streams, keeps nothing.

    Raises UserError where it is damaged.
    """
    with reading(path, "index_corpus"), open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["split"] not in SPLITS or row["path"] is None:
                raise ValueError(f"the row of item {row['index']} is cut")
            if split is None or row["split"] == split:
                classes = tuple(int(number) for number in row["classes"].split())
                yield Item(
                    int(row["index"]), row["id"], row["split"], classes, int(row["frames"]), row["hash"], row["path"]
                )


class Corpus:
    """A corpus folder: manifest.csv, classes.csv, corpus.json and the files that the manifest names."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        with reading(self.root / "corpus.json", "index_corpus"):
            info = read_json(self.root / "corpus.json")
            self.sample: sample.Sample = sample.from_json(info["sample"])
            self.sample_rate: int | None = info.get("sample_rate")  # of audio
            self.classes: int = info["classes"]
            self.counts: dict[str, int] = info["items"]  # items per split
        self.kind = plugins.load("kinds", self.sample.kind)
        self.decoded: Callable[[Item], np.ndarray] | None = None  # of a format with loss: what is to be delivered of it
        self.shift = 0  # samples: by which a loader's decoder is known to be off in time, negative where it is early

    @cached_property
    def delivered_share(self) -> float:
        """What an epoch delivers of all that is stored: of recordings, of which pieces are delivered, less than 1."""
        if self.sample.kind != CROPS:
            return 1.0
        frames = [item.frames for item in read_manifest(self.root / "manifest.csv")]
        return sum(min(one, self.samples) for one in frames) / max(1, sum(frames))

    @property
    def samples(self) -> int:
        """The fixed length of a delivered item of audio."""
        return self.sample.shape[-1]

    def items(self, split: str) -> Iterator[Item]:
        """Yield the items of one split in index order."""
        return read_manifest(self.root / "manifest.csv", split)

    def stored(self, item: Item) -> np.ndarray:
        """Return the values of an item's file: of audio int16 (frames,), in its natural length.

        Raises UserError where they are not what was indexed.
        """
        if self.decoded:
            return self.decoded(item)
        path = self.root / item.path
        try:
            values = self.kind.read(path, self.sample)
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        except ValueError:
            values = None
        if values is None or item_hash(self.kind.fixed(values, self.sample)) != item.hash:
            raise UserError(
                f"{path}: found item {item.index} with other data than the manifest has: the file changed, or another "
                f"version of a library decodes it differently. Delete {path.parent} and {self.root}/manifest.csv, then "
                "type the same command again."
            )
        return values

    def padded(self, item: Item) -> np.ndarray:
        """Return the stored values of an item in the fixed shape: of audio int16 (samples,)."""
        return self.kind.fixed(self.stored(item), self.sample)

    def delivered(self, item: Item, out: np.ndarray | None = None) -> np.ndarray:
        """Return an item as every loader is to deliver it, in the type and shape of `sample`; in `out`, if given."""
        return self.kind.delivered(self.stored(item), self.sample, out)
