"""Crops of recordings: a recording is kept whole, and each epoch delivers another piece of it, of a fixed length."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from scripts.common import plugins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

    from scripts.common.corpus import Corpus, Item
    from scripts.common.ledger import LedgerRow
    from scripts.common.sample import Sample
    from scripts.kinds._contract import Found, Owner, Remark

AUDIO = plugins.load("kinds", "audio")
VERSION = 1
BESIDE, SECTION, OPTIONS = AUDIO.BESIDE, AUDIO.SECTION, AUDIO.OPTIONS
REACH = 4096  # samples, within which the gate searches for a piece that is off in time


@dataclass(frozen=True)
class Kind(AUDIO.Kind):
    """What every recording of the corpus has in common; `seconds` is the length of a piece."""

    @property
    def sample(self) -> Sample:
        """What a delivered piece is: float32 (channels, samples)."""
        from scripts.common.sample import Sample

        how = "a piece of a recording, pcm / 32768, padded with zeros behind its end"
        shape = (self.channels, self.samples)
        return Sample("audio", "float32", shape, "int16", how, kind="crops", ending="wav")

    def pieces(self, row: LedgerRow, path: Path) -> Iterator[np.ndarray | Remark]:
        """Yield a recording whole, as int16 (channels, frames). Raises Rejected, also for a fault anywhere in it."""
        import numpy as np
        import soxr

        from scripts.common.decode import Rejected, open_recording
        from scripts.kinds._contract import Remark

        recording = open_recording(path, row.start_seconds, row.stop_seconds, self.channels)
        self.check_rate(recording.sample_rate)
        blocks, rate = recording.blocks, recording.sample_rate
        if rate != self.sample_rate:
            stream = soxr.ResampleStream(rate, self.sample_rate, self.channels, dtype="float32", quality="HQ")
            last = np.zeros((0, 2)[: self.channels], np.float32)
            blocks = (
                stream.resample_chunk(block, last=block is last) for block in _followed_by(last, recording.blocks)
            )
        parts = [AUDIO.to_int16(block) for block in blocks]
        pcm = np.concatenate(parts) if parts else np.zeros(0, np.int16)
        if lost := recording.first_lost(0, np.inf):
            raise Rejected(lost.reason)
        if len(pcm) < max(1, round(self.min_seconds * self.sample_rate)):
            raise Rejected(f"shorter than {self.min_seconds:g} s: {len(pcm) / self.sample_rate:.3f} s can be decoded")
        if pcm.nbytes > self.growth * path.stat().st_size and len(pcm) > self.samples:
            raise Rejected(f"grows too much: {pcm.nbytes:,} bytes of a file of {path.stat().st_size:,}, audio.growth")
        yield pcm.reshape(len(pcm), self.channels).T
        if not pcm.any():
            yield Remark(0, "digital silence")
        for text in recording.remarks:
            yield Remark(0, text)

    def write(self, path: Path, pcm: np.ndarray) -> np.ndarray:
        """Write a recording as the corpus keeps it, a WAV file; return its int16 (channels, frames)."""
        with wave.open(str(path), "wb") as file:
            file.setparams((len(pcm), 2, self.sample_rate, pcm.shape[1], "NONE", "not compressed"))
            file.writeframes(pcm.T.tobytes())
        return pcm

    def about(self, frames: int) -> dict[str, Any]:
        """Return the part of corpus.json that is of this kind, of recordings with `frames` samples in all."""
        return {**super().about(frames), "channels": self.channels, "of": self.items}


def _followed_by(last: np.ndarray, blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield from blocks
    yield last


def read(source: Path | BinaryIO, sample: Sample) -> np.ndarray:
    """Return int16 (channels, frames), a recording. Raises ValueError for what is no WAV file of it, and OSError."""
    import numpy as np

    try:
        with wave.open(str(source) if not hasattr(source, "read") else source, "rb") as file:
            if (file.getnchannels(), file.getsampwidth()) != (sample.shape[0], 2):
                raise ValueError(f"{file.getnchannels()} channels of {file.getsampwidth()} bytes")
            values = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
            return values.reshape(-1, sample.shape[0]).T
    except (wave.Error, EOFError) as error:
        raise ValueError(str(error)) from None


def read_piece(path: Path, start: int, sample: Sample) -> np.ndarray:
    """Return float32 (channels, samples): the piece of a recording's file from sample `start` on, without the rest."""
    import numpy as np

    with wave.open(str(path), "rb") as file:
        file.setpos(min(start, file.getnframes()))
        values = np.frombuffer(file.readframes(sample.shape[-1]), dtype="<i2")
    return piece(values.reshape(-1, sample.shape[0]).T, 0, sample)


def fixed(pcm: np.ndarray, sample: Sample) -> np.ndarray:  # noqa: ARG001
    """Return the recording: what is hashed has its own length."""
    return pcm


def delivered(pcm: np.ndarray, sample: Sample, out: np.ndarray | None = None) -> np.ndarray:  # noqa: ARG001
    """Return float32 (channels, frames), pcm / 32768, of a whole recording."""
    import numpy as np

    return np.multiply(pcm, np.float32(1 / 32768), dtype=np.float32)


def piece(pcm: np.ndarray, start: int, sample: Sample) -> np.ndarray:
    """Return float32 (channels, samples), pcm / 32768: the piece from sample `start` on, zeros behind the end.

    One that begins before the recording has what is there of it first.
    """
    import numpy as np

    row = np.zeros(sample.shape, np.float32)
    part = pcm[:, max(0, start) : start + sample.shape[-1]]
    np.multiply(part, np.float32(1 / 32768), out=row[:, : part.shape[1]])
    return row


def examine(found: np.ndarray, item: Item, corpus: Corpus, owner: Owner, limit: int) -> Found:  # noqa: ARG001
    """Say what is wrong with a delivered piece, float32 (channels, samples), that begins at sample `item.start`.

    `limit`: what a value may differ by, in 32768ths, of a codec with loss; else it must be pcm / 32768 to the bit.
    """
    import numpy as np

    from scripts.kinds._contract import Found

    recording = corpus.stored(item)
    expected = piece(recording, item.start + corpus.shift, corpus.sample)
    if np.array_equal(expected.view(np.int32), np.ascontiguousarray(found).view(np.int32)):
        return Found()
    if not np.isfinite(found).all():
        return Found("has values that are not finite")
    difference = float(np.abs(found - expected).max()) * 32768
    if difference <= limit:
        return Found(None, difference)
    return Found(_explained(found, expected, recording, item, difference, limit))


def _explained(
    found: np.ndarray, expected: np.ndarray, recording: np.ndarray, item: Item, difference: float, limit: int
) -> str:
    """Say in words how a piece is wrong, as far as it can be told: it is off in time, scaled, or otherwise."""
    import numpy as np

    if (shift := shift_of(found, recording, max(0, item.start))) and shift[1] <= max(limit, 2):
        return f"begins {shift[0]:+d} samples from where it should, sample {item.start}"
    if len(found) == 2 and np.abs(found[::-1] - expected).max() * 32768 <= max(limit, 2):
        return "has its channels exchanged"
    power = float((expected.astype(np.float64) ** 2).sum())
    scale = float((found.astype(np.float64) * expected).sum()) / power if power else 0.0
    if scale and np.abs(found - scale * expected).max() < 1e-6:
        return f"is scaled by {scale:.6f}"
    return (
        f"differs at {np.count_nonzero(found != expected):,} of {expected.size:,} samples, by up to "
        f"{difference:.1f} of 32768 (allowed are {limit})"
    )


def shift_of(found: np.ndarray, recording: np.ndarray, start: int) -> tuple[int, float] | None:
    """Return (samples, difference in 32768ths of all but a hundredth of the values) of the place near `start` that a
    piece is of; None: it is of `start`.

    +5: it begins five samples later than it should. Looked for within REACH.
    """
    import numpy as np

    size = found.shape[1]
    first, last = max(0, start - REACH), min(recording.shape[1], start + size + REACH)
    there = recording[0, first:last].astype(np.float64) / 32768
    here = found[0].astype(np.float64)
    length = 1 << int(np.ceil(np.log2(len(there) + size)))
    products = np.fft.irfft(np.fft.rfft(there, length) * np.conj(np.fft.rfft(here, length)), length)
    squares = np.concatenate([[0.0], np.cumsum(there**2)])
    places = np.arange(max(1, len(there) - size + 1))
    power = squares[np.minimum(places + size, len(there))] - squares[places]
    place = int(np.argmin(power - 2 * products[: len(places)]))  # least squares, but for what does not depend on it
    part = recording[:, first + place : first + place + size] * np.float32(1 / 32768)
    difference = float(np.quantile(np.abs(part - found[:, : part.shape[1]]), 0.99)) * 32768 if part.size else 0.0
    return (first + place - start, difference) if first + place != start else None
