"""Decodes one recording in this process, as blocks of mono float32, and says in one line why one is refused."""

import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from errors import UserError

BLOCK_SECONDS = 10.0  # decoded at a time: the memory a recording of any length needs
UNKNOWN_BYTES = 0x7FFF0000  # programs that write WAV into a pipe leave a size of this order, or zero, in the header


class Rejected(Exception):
    """A recording, or the rest of one, that cannot be used.

    The text is one line, ``kind: detail``; the kind alone is what rejections are counted by.
    """


class Recording(NamedTuple):
    """An open recording."""

    sample_rate: int
    blocks: Iterator[np.ndarray]  # float32 (n,), mono, at `sample_rate`; raises Rejected where it cannot go on


def load_decoder() -> None:
    """Import torchcodec, so that processes forked from this one need not. Raises UserError where it is unusable."""
    try:
        import torchcodec.decoders  # noqa: F401
    except (ImportError, RuntimeError, OSError) as error:
        found = str(error).strip().splitlines()[0]
        raise UserError(
            f"torchcodec: found {found!r}; needed are torchcodec, a torch of the same release and FFmpeg's shared "
            "libraries (4 to 8). Try: conda install -c conda-forge ffmpeg, or apt-get install ffmpeg"
        ) from None


def open_recording(path: Path, start_seconds: float, stop_seconds: float | None) -> Recording:
    """Return the recording's part from `start_seconds` to `stop_seconds` (None: to the end).

    Seconds count decoded samples from the first that is played. Raises Rejected, at once or from the blocks.
    """
    _check_file(path)
    # torchcodec's public calls go back to the first sample when a range begins inside a frame already decoded, so
    # that reading piece by piece would take quadratic time. The operator below its class moves forward only.
    from torchcodec.decoders import AudioDecoder

    try:
        decoder = AudioDecoder(str(path))
    except (RuntimeError, ValueError) as error:
        raise Rejected(_why_not_opened(error, path)) from None
    rate = decoder.metadata.sample_rate
    if not rate or rate <= 0:
        raise Rejected("not decodable: the file has no sample rate")
    announced = announced_seconds(path, decoder.metadata.duration_seconds_from_header)
    first = round(start_seconds * rate)
    stop = None if stop_seconds is None else round(stop_seconds * rate)
    return Recording(rate, _blocks(decoder, path, rate, first, stop, announced))


def announced_seconds(path: Path, header_seconds: float | None) -> float | None:
    """Return how long the file's own header says it is, or None where it does not say or FFmpeg only estimates it.

    `header_seconds` is FFmpeg's figure. It is an estimate from size and bit rate for MP3 without a Xing table and for
    bare AAC, and for WAV it never exceeds what the file holds, so that a WAV file's header is read here.
    """
    with open(path, "rb") as file:
        head = file.read(16)
        if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
            file.seek(12)
            return _wav_seconds(file)
        if head[:3] == b"ID3":  # its size is four bytes of seven bits
            file.seek(10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True)))
        else:
            file.seek(0)
        start = file.read(4096)
    if head[:4] in (b"fLaC", b"OggS", b"FORM") or head[4:8] == b"ftyp" or start[:4] == b"fLaC":
        return header_seconds
    xing = any(tag in start for tag in (b"Xing", b"Info", b"VBRI"))
    return header_seconds if xing and start[:1] == b"\xff" else None


def _wav_seconds(file: Any) -> float | None:
    """Return the length that the WAV chunks after byte 12 announce, or None where the size was left open."""
    bytes_per_second = 0
    while len(header := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", header)
        if name == b"data":
            return size / bytes_per_second if bytes_per_second and 0 < size < UNKNOWN_BYTES else None
        if name == b"fmt ":
            body = file.read(16)
            bytes_per_second = struct.unpack("<I", body[8:12])[0] if len(body) == 16 else 0
            size -= 16
        file.seek(size + size % 2, os.SEEK_CUR)
    return None


def _check_file(path: Path) -> None:
    """Raise Rejected for a file that is absent, unreadable, empty or not a file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # asked first: opening a named pipe would wait for ever
            raise Rejected("not a regular file")
        with open(path, "rb"):
            pass
    except FileNotFoundError:
        raise Rejected("file vanished") from None
    except OSError as error:
        raise Rejected(f"file cannot be read: {error.strerror}") from None
    if status.st_size == 0:
        raise Rejected("empty file")


def _blocks(
    decoder: Any, path: Path, rate: int, first: int, stop: int | None, announced: float | None
) -> Iterator[np.ndarray]:
    """Yield samples `first` to `stop` as mono blocks of about BLOCK_SECONDS."""
    position = 0  # of the next frame, in samples of the recording
    frames, size = [], 0
    for frame in _frames(decoder, path, rate, stop):
        length = frame.shape[1]
        begin = max(0, first - position)
        end = length if stop is None else min(length, stop - position)
        position += length
        if begin < end:
            frames.append(frame if end - begin == length else frame[:, begin:end])
            size += end - begin
        if size >= BLOCK_SECONDS * rate:
            yield _mono(frames)
            frames, size = [], 0
        if stop is not None and position >= stop:
            break
    if size:
        yield _mono(frames)
    _check_length(position, rate, stop, announced)


def _frames(decoder: Any, path: Path, rate: int, stop: int | None) -> Iterator[Any]:
    """Yield what is decoded in order as float32 tensors (channels, n), from the first sample played.

    The first block comes in one call, which is all that a clip needs and a quarter quicker; then frame by frame.
    """
    from torchcodec import _core

    handle = decoder._decoder
    begin = max(0.0, decoder.metadata.begin_stream_seconds_from_header or 0.0)
    seconds = BLOCK_SECONDS if stop is None else min(BLOCK_SECONDS, stop / rate)
    done = 0
    try:
        data, pts = _core.get_frames_by_pts_in_range_audio(handle, start_seconds=begin, stop_seconds=begin + seconds)
        if pts < 0:  # an encoder's delay that the container marks as not to be played
            data = data[:, round(-float(pts) * rate) :]
        while True:
            done += data.shape[1]
            yield data
            data, _, _ = _core.get_next_frame(handle)
    except IndexError:  # the end
        return
    except (RuntimeError, ValueError) as error:
        place = f"at {done / rate:.2f} s" if done else f"in the first {seconds:g} s"
        raise Rejected(f"decoding failed: {place}, {one_line(error, path)}") from None


def _mono(frames: list[Any]) -> np.ndarray:
    """Return the mean of the channels of joined `frames`, float32 (n,). Raises Rejected for what is no number."""
    import torch

    joined = (frames[0] if len(frames) == 1 else torch.cat(frames, dim=1)).numpy()
    mono = joined[0] if len(joined) == 1 else joined.mean(axis=0, dtype=np.float32)
    if not np.isfinite(mono).all():
        raise Rejected("samples that are no numbers: NaN or infinity")
    return mono


def _check_length(decoded: int, rate: int, stop: int | None, announced: float | None) -> None:
    """Raise Rejected when clearly less came than the header announces, of what was asked for.

    Codecs count up to a few frames of their own delay, so that 4,096 samples or 0.1 s say nothing.
    """
    if announced is None:
        return
    expected = announced * rate if stop is None else min(announced * rate, stop)
    if expected - decoded > max(4096, 0.1 * rate):
        raise Rejected(f"truncated: the header announces {announced:.2f} s, {decoded / rate:.2f} s can be decoded")


def _why_not_opened(error: Exception, path: Path) -> str:
    if "audio stream" in str(error):
        return "no audio stream"
    return f"not decodable: {one_line(error, path)}"


def one_line(error: Exception, path: Path) -> str:
    """Return what FFmpeg says in `error` as one line: without the path, source lines, addresses and tracebacks."""
    text = str(error).replace(str(path), " ").split("\nException raised from")[0]
    text = re.sub(r"^\w+, \S+:\d+, ", "", text)
    text = re.sub(r"0x[0-9a-fA-F]+", "", text)
    text = re.sub(r"^Could not (open input file|push packet to decoder|receive frame from decoder):", "", text.strip())
    return " ".join(text.split())[:200] or type(error).__name__
