"""The canonical corpus: mono 16-bit PCM WAV in natural length, and the manifest that says what each clip is.

Everything after this stage (formats, loaders, the verification) takes clip order, split, labels and
the true bytes from here and nowhere else.
"""

import csv
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from scripts.common import sample
from scripts.common.errors import UserError, reading
from scripts.common.files import read_json

SPLITS = ("train", "validation")
MANIFEST_COLUMNS = ("index", "id", "split", "classes", "frames", "hash", "path")


class Clip(NamedTuple):
    """One row of manifest.csv."""

    index: int
    id: str
    split: str
    classes: tuple[int, ...]
    frames: int
    hash: str  # 16 hexadecimal digits, see `clip_hash`
    path: str  # of the WAV file, relative to the corpus folder


def pad_or_cut(pcm: np.ndarray, samples: int) -> np.ndarray:
    """Return int16 (samples,): `pcm` cut to the fixed length, or padded at its end with zeros."""
    if len(pcm) >= samples:
        return pcm[:samples]
    padded = np.zeros(samples, dtype=np.int16)
    padded[: len(pcm)] = pcm
    return padded


def clip_hash(padded: np.ndarray) -> str:
    """Return the XXH3 64-bit hash, as 16 hexadecimal digits, of int16 (samples,) in little-endian order."""
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(padded, dtype="<i2"))


def to_float(pcm: np.ndarray) -> np.ndarray:
    """Return `pcm` / 32768 as float32; exact, since 32768 is a power of two."""
    return np.multiply(pcm, np.float32(1 / 32768), dtype=np.float32)


def read_manifest(path: Path, split: str | None = None) -> Iterator[Clip]:
    """Yield the clips of manifest.csv in index order, of one split or of all; streams, keeps nothing.

    Raises UserError where it is damaged.
    """
    with reading(path, "index_corpus"), open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["split"] not in SPLITS or row["path"] is None:
                raise ValueError(f"the row of clip {row['index']} is cut")
            if split is None or row["split"] == split:
                classes = tuple(int(number) for number in row["classes"].split())
                yield Clip(
                    int(row["index"]), row["id"], row["split"], classes, int(row["frames"]), row["hash"], row["path"]
                )


class Corpus:
    """A corpus folder: manifest.csv, classes.csv, corpus.json and the WAV files the manifest names."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        with reading(self.root / "corpus.json", "index_corpus"):
            info = read_json(self.root / "corpus.json")
            self.sample_rate: int = info["sample_rate"]
            self.sample: sample.Sample = sample.from_json(info["sample"])
            self.classes: int = info["classes"]
            self.counts: dict[str, int] = info["clips"]  # clips per split

    @property
    def samples(self) -> int:
        """The fixed length of a delivered clip."""
        return self.sample.shape[-1]

    def clips(self, split: str) -> Iterator[Clip]:
        """Yield the clips of one split in index order."""
        return read_manifest(self.root / "manifest.csv", split)

    def pcm(self, clip: Clip) -> np.ndarray:
        """Return int16 (frames,): the clip in its natural length. Raises UserError where it is not what was indexed."""
        path = self.root / clip.path
        try:
            with wave.open(str(path), "rb") as file:
                pcm = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        except (wave.Error, EOFError, ValueError):
            pcm = None
        if pcm is None or clip_hash(pad_or_cut(pcm, self.samples)) != clip.hash:
            raise UserError(
                f"{path}: found other audio than the manifest has of clip {clip.index}: it was cut or changed since. "
                f"Delete {path.parent} and {self.root}/manifest.csv, then type the same command again."
            )
        return pcm

    def padded(self, clip: Clip) -> np.ndarray:
        """Return int16 (samples,): the clip at the fixed length."""
        return pad_or_cut(self.pcm(clip), self.samples)
