"""What the items of a corpus are: one key of a batch with its type, shape, bytes, and how it is decoded.

Formats, the gate, the bounds and the requests take sizes from here. The plan knows it before there is a corpus, so that
this imports nothing. Which kinds of items there are, and how they are made and read: `scripts/kinds`.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

_FULL = {"int16": 32768, "uint8": 255}  # stored values that are delivered as 1.0
_SHRINKS = {"jpg": 6, "png": 2}  # how many times smaller than decoded a file is, roughly: known when it is written


@dataclass(frozen=True)
class Sample:
    """One delivered item: an item of audio, an image, an array."""

    key: str  # of a batch
    dtype: str  # as it is delivered, such as float32
    shape: tuple[int, ...]  # without the batch
    stored: str  # the type of its values in the corpus, such as int16
    decoding: str  # how the one becomes the other
    kind: str = "audio"  # a file in scripts/kinds
    ending: str = "wav"  # of a file of the corpus

    @property
    def bytes(self) -> int:
        """The bytes of a delivered item."""
        return prod(self.shape) * _width(self.dtype)

    @property
    def scale(self) -> float | None:
        """What a stored value is multiplied by as it is delivered; None: it is delivered as it is."""
        return None if self.stored == self.dtype else 1 / _FULL[self.stored]

    @property
    def stored_bytes(self) -> int:
        """The bytes of an item in the type of the corpus, at its full length."""
        return prod(self.shape) * _width(self.stored)

    @property
    def file_bytes(self) -> int:
        """The bytes of an item's own file in the corpus, headers not counted: of an encoded one roughly."""
        return self.stored_bytes // _SHRINKS.get(self.ending, 1)

    def as_json(self) -> dict[str, Any]:
        """Return it as corpus.json holds it; `from_json` reads it back."""
        return asdict(self)


def audio(samples: int) -> Sample:
    """Return a mono item of `samples` samples: float32 (1, samples), of 16-bit PCM."""
    return Sample(
        "audio", "float32", (1, samples), "int16", "pcm / 32768, padded with zeros or cut to the fixed length"
    )


def from_json(value: Mapping[str, Any]) -> Sample:
    """Return the sample that `as_json` wrote."""
    return Sample(**{**value, "shape": tuple(value["shape"])})


def _width(dtype: str) -> int:
    """Return the bytes of one value: 4 of float32."""
    return int(re.search(r"\d+$", dtype)[0]) // 8
