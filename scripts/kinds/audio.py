"""Audio: mono items of a fixed length, decoded by FFmpeg, resampled, kept as 16-bit WAV in their natural length."""

from __future__ import annotations

import wave
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Corpus, Item
    from scripts.common.decode import Lost, Recording, Rejected
    from scripts.common.ledger import LedgerRow
    from scripts.common.sample import Sample
    from scripts.kinds._contract import Found, Owner, Remark

VERSION = 2
BESIDE = (  # endings of what lies beside recordings: where none of it can be decoded, it is counted in one line
    *("bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp", "csv", "doc", "html", "json", "md", "nfo", "pdf"),
    *("rtf", "tsv", "txt", "url", "xml", "yaml", "yml", "cue", "m3u", "m3u8", "pls", "xspf", "lrc", "srt", "TextGrid"),
    *("accurip", "db", "ini", "log", "md5", "sfv", "zip"),
)
SECTION = "audio"  # of the config, in which its OPTIONS are; of other kinds they are in the data set's entry
KIND_BY = {"clips": "audio", "crops": "crops"}  # of data, by the option `items`
OPTIONS = {
    "items": {
        **{"enum": ["clips", "crops"], "default": "clips"},
        "description": "clips: recordings are cut once, and each piece is an item; crops: a recording is an item, of "
        "which each epoch delivers another piece",
    },
    "channels": {"enum": [1, 2], "default": 1, "description": "as they are delivered; 2: of crops"},
    "sample_rate": {"type": "integer", "minimum": 1000, "maximum": 192_000, "default": 16_000, "description": "Hz"},
    "seconds": {
        **{"type": "number", "exclusiveMinimum": 0, "maximum": 600, "default": 10},
        "description": "the fixed length of a delivered item",
    },
    "min_seconds": {"type": "number", "minimum": 0, "default": 0.5, "description": "of the shortest item"},
    "lowest_rate": {"type": "integer", "minimum": 1, "default": 1000, "description": "Hz of a recording"},
    "highest_rate": {"type": "integer", "minimum": 1, "default": 1_000_000, "description": "Hz of a recording"},
    "items_per_file": {
        **{"type": "integer", "minimum": 1, "default": 100_000},
        "description": "what follows in the file is left out",
    },
    "growth": {
        **{"type": "number", "minimum": 1, "default": 1000},
        "description": "times the bytes of a file that its items may take",
    },
}


@dataclass(frozen=True)
class Kind:
    """What every item of the corpus has in common."""

    sample_rate: int
    seconds: float  # the longest item
    min_seconds: float  # the shortest item
    lowest_rate: int = 1000  # Hz of a recording
    highest_rate: int = 1_000_000
    items_per_file: int = 100_000
    growth: float = 1000.0  # so many times a file's bytes may its items take, beyond the first
    items: str = "clips"
    channels: int = 1

    @property
    def samples(self) -> int:
        """Samples of the longest item."""
        return round(self.seconds * self.sample_rate)

    @property
    def sample(self) -> Sample:
        """What a delivered item is: float32 (1, samples)."""
        from scripts.common.sample import audio

        return audio(self.samples)

    def check(self) -> None:
        """Raise UserError for numbers that make no corpus."""
        from scripts.common.errors import UserError

        if self.channels > 1 and self.items == "clips":
            raise UserError(
                f"audio.channels: found {self.channels} with audio.items: clips, which are mono; allowed is 1. Write "
                "channels: 1, or items: crops."
            )
        if self.samples < 1:
            raise UserError(
                f"audio.seconds: found {self.seconds:g}, allowed is at least one sample at {self.sample_rate} Hz. "
                "Raise it."
            )
        if self.min_seconds > self.seconds:
            raise UserError(
                f"audio.min_seconds: found {self.min_seconds:g}, allowed is at most audio.seconds, {self.seconds:g}. "
                "Lower it, or raise audio.seconds."
            )

    def check_rate(self, rate: int) -> None:
        """Raise Rejected for a recording's sample rate that is none of audio's."""
        from scripts.common.decode import Rejected

        if not self.lowest_rate <= rate <= self.highest_rate:
            raise Rejected(
                f"sample rate out of limits: {rate} Hz, allowed are audio.lowest_rate, {self.lowest_rate}, to "
                f"audio.highest_rate, {self.highest_rate}"
            )

    def check_growth(self, items: int, file_bytes: int) -> None:
        """Raise Rejected where so many whole items are more than a file of this size may become."""
        from scripts.common.decode import Rejected

        if items > self.items_per_file:
            raise Rejected(f"too many items: audio.items_per_file allows {self.items_per_file} of one recording")
        if items > 1 and items * self.samples * 2 > self.growth * file_bytes:
            raise Rejected(
                f"grows too much: {items} items of {file_bytes} bytes, audio.growth allows {self.growth:g} times"
            )

    def pieces(self, row: LedgerRow, path: Path) -> Iterator[np.ndarray | Rejected | Remark]:
        """Yield the items of a recording as int16 (frames,), each but the last of the full length.

        A Rejected among them stands for items that a fault touches; a Remark tells of one that is taken. Raises
        Rejected. The recording is resampled as one stream, so that no item begins or ends with a filter's edge.
        """
        import numpy as np

        from scripts.common.decode import Rejected, open_recording
        from scripts.kinds._contract import Remark

        stop = row.stop_seconds
        if not row.cut:
            stop = min(row.start_seconds + self.seconds, stop if stop is not None else np.inf)
        recording = open_recording(path, row.start_seconds, stop)
        self.check_rate(recording.sample_rate)
        file_bytes = path.stat().st_size
        shortest = max(1, round(self.min_seconds * self.sample_rate))
        rest, part, faults = np.zeros(0, np.int16), 0, _Faults(recording, row.start_seconds, self.seconds)
        for block in resample(recording.blocks, recording.sample_rate, self.sample_rate):
            rest = np.concatenate([rest, to_int16(block)])
            while len(rest) >= self.samples and (row.cut or not part):
                lost = yield from faults.of(part)
                if not lost:
                    self.check_growth(part + 1, file_bytes)
                    yield rest[: self.samples]
                    yield from faults.silence(rest[: self.samples], part)
                rest, part = rest[self.samples :], part + 1
        if row.cut or not part:
            lost = yield from faults.of(part)
            if not lost and len(rest) >= shortest:
                yield rest
                yield from faults.silence(rest, part)
            elif not lost and not part:
                seconds = len(rest) / self.sample_rate
                raise Rejected(f"shorter than {self.min_seconds:g} s: {seconds:.3f} s can be decoded")
        yield from faults.told()
        for text, sample in recording.remarks.items():
            place = sample / recording.sample_rate - row.start_seconds
            yield Remark(max(0, int(place / self.seconds)), text)

    def write(self, path: Path, pcm: np.ndarray) -> np.ndarray:
        """Write an item as the corpus keeps it, a WAV file; return what `read` gives of it."""
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, self.sample_rate, len(pcm), "NONE", "not compressed"))
            file.writeframes(pcm.tobytes())
        return pcm

    def about(self, frames: int) -> dict[str, Any]:
        """Return what corpus.json says of a corpus of this kind, of `frames` samples in all."""
        return {
            "sample_rate": self.sample_rate,
            "seconds": self.seconds,
            "samples": self.samples,
            "audio_seconds": frames / self.sample_rate,
        }

    def part(self, start_seconds: float, number: int) -> str:
        """Return how a part of a longer recording is called: by its start in seconds."""
        return f"{start_seconds + number * self.seconds:09.3f}"


class _Faults:
    """Joins the parts of a recording that one fault after another touches into one reason."""

    def __init__(self, recording: Recording, start_seconds: float, seconds: float) -> None:
        self.recording, self.start_seconds, self.seconds = recording, start_seconds, seconds
        self.first = self.count = 0  # parts that are not told yet
        self.lost: Lost | None = None

    def of(self, part: int) -> Generator[Rejected, None, Lost | None]:
        """Return the fault that touches the part, to be told later; yield what is told of the parts before."""
        begin = self.start_seconds + part * self.seconds
        rate = self.recording.sample_rate
        lost = self.recording.first_lost(begin * rate, (begin + self.seconds) * rate)
        if lost is None or lost is not self.lost:
            yield from self.told()
        if lost:
            self.first, self.lost = self.first if self.count else part, lost
            self.count += 1
        return lost

    def silence(self, item: np.ndarray, part: int) -> Iterator[Remark]:
        """Yield what is to be said of an item without sound: a thousandth of what its channels have is none."""
        from scripts.kinds._contract import Remark

        begin, rate = self.start_seconds + part * self.seconds, self.recording.sample_rate
        left = max(int(item.max()), -int(item.min())) / 32768
        peak = self.recording.peak(begin * rate, (begin + self.seconds) * rate)
        if left < peak / 1000:
            yield Remark(
                part, f"digital silence after mixing down: of a peak of {peak:.4f} the channels leave {left:.5f}"
            )
        elif not left:
            yield Remark(part, "digital silence")

    def told(self) -> Iterator[Rejected]:
        """Yield the reason why the parts so far are left out, if there are any."""
        import numpy as np

        from scripts.common.decode import Rejected

        if self.count and self.lost:
            begin = self.start_seconds + self.first * self.seconds
            end = begin + self.count * self.seconds
            to = f"to {end:.2f} s" if self.lost.stop < np.inf else "to the end"
            yield Rejected(f"{self.lost.reason}; left out from {begin:.2f} s {to}", self.count)
        self.count = 0


def resample(blocks: Iterable[np.ndarray], rate_in: int, rate_out: int) -> Iterator[np.ndarray]:
    """Yield float32 blocks at `rate_out`, by soxr's HQ recipe: aliases below what 16 bits hold, and no delay."""
    import numpy as np
    import soxr

    if rate_in == rate_out:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield stream.resample_chunk(block)
    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


def to_int16(audio: np.ndarray) -> np.ndarray:
    """Return little-endian int16: `audio` * 32768, rounded; what is beyond full scale saturates."""
    import numpy as np

    scaled = audio * np.float32(32768)
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -32768, 32767, out=scaled).astype("<i2")


def read(source: Path | BinaryIO, sample: Sample) -> np.ndarray:  # noqa: ARG001
    """Return int16 (frames,): an item in its natural length. Raises ValueError for what is no WAV file, and OSError."""
    import numpy as np

    try:
        with wave.open(str(source) if isinstance(source, Path) else source, "rb") as file:
            return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    except (wave.Error, EOFError) as error:
        raise ValueError(str(error)) from None


def fixed(pcm: np.ndarray, sample: Sample) -> np.ndarray:
    """Return int16 (samples,): an item at the fixed length, padded with zeros."""
    from scripts.common.corpus import pad_or_cut

    return pad_or_cut(pcm, sample.shape[-1])


def delivered(pcm: np.ndarray, sample: Sample, out: np.ndarray | None = None) -> np.ndarray:
    """Return float32 (1, samples), pcm / 32768, of an item in any length; in `out`, where that is given."""
    import numpy as np

    row = np.empty(sample.shape, np.float32) if out is None else out
    pcm = pcm[: row.shape[1]]
    np.multiply(pcm, np.float32(1 / 32768), out=row[0, : len(pcm)])
    row[0, len(pcm) :] = 0
    return row


def examine(found: np.ndarray, item: Item, corpus: Corpus, owner: Owner, limit: int) -> Found:  # noqa: ARG001
    """Say what is wrong with a delivered item, float32 (1, samples): it must be pcm / 32768 to the bit."""
    import numpy as np

    from scripts.common.corpus import item_hash, to_float
    from scripts.kinds._contract import Found

    audio = found[0]
    with np.errstate(invalid="ignore", over="ignore"):
        pcm = (audio * np.float32(32768)).astype(np.int32).astype(np.int16)
    exact = np.array_equal(to_float(pcm).view(np.int32), np.ascontiguousarray(audio).view(np.int32))
    if exact and item_hash(pcm) == item.hash:
        return Found()
    return Found(_explained(item, audio, corpus, owner(pcm) if exact else None))


def _explained(item: Item, audio: np.ndarray, corpus: Corpus, other: int | None) -> str:
    """Return what happened to the audio of an item, as far as it can be told; `other` has the same."""
    import numpy as np

    from scripts.common.corpus import to_float

    if not np.isfinite(audio).all():
        return "has values that are not finite"
    if other is not None:
        return f"carries the audio of item {other}"
    expected = to_float(corpus.padded(item))
    natural = min(item.frames, len(expected))
    if np.array_equal(audio[:natural], expected[:natural]):
        return f"is right up to its end at sample {natural}, wrong in the padding"
    error = audio.astype(np.float64) - expected
    if not (error * 32768 % 65536).any():
        return f"wraps around the int16 range at {np.count_nonzero(error)} samples"
    power = float(expected.astype(np.float64) @ expected)
    scale = float(audio.astype(np.float64) @ expected) / power if power else 0.0
    if np.abs(audio - scale * expected.astype(np.float64)).max() < 1e-6:
        return f"is scaled by {scale:.6f}"
    for shift in range(-2, 3):
        if shift and np.array_equal(np.roll(audio, shift)[2:-2], expected[2:-2]):
            return f"is shifted by {-shift} samples"
    return f"differs at {np.count_nonzero(error)} of {len(expected)} samples, by up to {np.abs(error).max():.6f}"
