"""Decodes one recording in this process, as blocks of mono float32, and says in one line why one is refused."""

import errno
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from av.stream import Discard

from scripts.common.errors import advice

BLOCK_SECONDS = 1.0  # decoded at a time: stays in the cache, and bounds the memory of a recording of any length
UNKNOWN_BYTES = 0x7FFF0000  # programs that write WAV into a pipe leave a size of this order, or zero, in the header
PCM = (1, 3, 6, 7, 0xFFFE)  # WAV's numbers: integers, floats, A-law, mu-law, and what has a longer header of PCM


class Rejected(Exception):
    """A recording, or the rest of one, that cannot be used.

    The text is one line, ``kind: detail``; the kind alone is what rejections are counted by.
    """


class Recording(NamedTuple):
    """An open recording."""

    sample_rate: int
    blocks: Iterator[np.ndarray]  # float32 (n,), mono, at `sample_rate`; raises Rejected where it cannot go on


def open_recording(path: Path, start_seconds: float, stop_seconds: float | None) -> Recording:
    """Return the recording's part from `start_seconds` to `stop_seconds` (None: to the end).

    Seconds count decoded samples from the first that is played: FFmpeg leaves out the delay that encoders add. The
    file is read forward only, and the memory does not grow with its length. Raises Rejected, at once or from the
    blocks, and OSError where the device fails.
    """
    _check_file(path)
    try:
        container = av.open(f"file:{path}", metadata_errors="ignore")  # a name like `a:b.wav` is no protocol
    except av.FFmpegError as error:
        _check_device(path, error)
        raise Rejected(f"not decodable: {error.strerror}") from None
    try:
        stream = _audio_stream(container)
        rate = stream.codec_context.sample_rate
        announced = announced_seconds(path, _header_seconds(container, stream))
    except BaseException:
        container.close()
        raise
    first = round(start_seconds * rate)
    stop = None if stop_seconds is None else round(stop_seconds * rate)
    return Recording(rate, _blocks(container, stream, rate, first, stop, announced))


def _audio_stream(container: Any) -> Any:
    """Return the audio stream that FFmpeg holds for the best, the others set to be skipped. Raises Rejected."""
    stream = container.streams.best("audio")
    if stream is None:
        raise Rejected("no audio stream")
    if stream.codec_context is None:
        raise Rejected("not decodable: FFmpeg has no decoder for its codec")
    if not stream.codec_context.sample_rate:
        raise Rejected("not decodable: the file has no sample rate")
    for other in container.streams:
        if other is not stream:
            other.discard = Discard.all
    stream.codec_context.thread_count = 1  # the processes are as many as the user asked for
    return stream


def _header_seconds(container: Any, stream: Any) -> float | None:
    """Return the stream's length by FFmpeg's reading of the header, else the container's, else None."""
    if stream.duration is not None:
        return float(stream.duration * stream.time_base)
    return None if container.duration is None else container.duration / av.time_base


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
    """Return the length that the WAV chunks after byte 12 announce, or None where the size was left open.

    Only of PCM is it the data's bytes by the byte rate, which is a round figure of the codec's in other headers: there
    the chunk `fact` has the number of samples, if anything has.
    """
    codec = rate = bytes_per_second = samples = 0
    while len(header := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", header)
        if name == b"data":
            if not 0 < size < UNKNOWN_BYTES:
                return None
            length, unit = (size, bytes_per_second) if codec in PCM else (samples, rate)
            return length / unit if unit and 0 < length < UNKNOWN_BYTES else None
        taken = file.read(min(size, 16))
        if name == b"fmt " and len(taken) == 16:
            codec, _, rate, bytes_per_second = struct.unpack("<HHII", taken[:12])
        elif name == b"fact" and len(taken) >= 4:
            (samples,) = struct.unpack("<I", taken[:4])
        file.seek(size + size % 2 - len(taken), os.SEEK_CUR)
    return None


def _check_file(path: Path) -> None:
    """Raise Rejected for a file that is absent, unreadable, empty or not a file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # asked first: opening a named pipe would wait for ever
            raise Rejected("not a regular file")
        with open(path, "rb"):
            pass
    except OSError as error:
        raise refused(error) from None
    if status.st_size == 0:
        raise Rejected("empty file")


def refused(error: OSError) -> Rejected:
    """Return the reason why a file that the system does not give is left out; raise what is the machine's fault."""
    if isinstance(error, FileNotFoundError):
        return Rejected("file vanished")
    if advice(error):
        raise error
    return Rejected(f"file cannot be read: {error.strerror}")


def _check_device(path: Path, error: av.FFmpegError) -> None:
    """Raise OSError where the file cannot be read to its end: FFmpeg says the same of a damaged one."""
    if error.errno != errno.EIO:
        return
    try:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    except OSError as broken:
        broken.filename = str(path)
        raise


def _blocks(
    container: Any, stream: Any, rate: int, first: int, stop: int | None, announced: float | None
) -> Iterator[np.ndarray]:
    """Yield samples `first` to `stop` as mono blocks of about BLOCK_SECONDS; close the container in the end."""
    position = kept = 0  # of the next frame, in samples of the recording; and of the block
    fifo = form = None
    with container:
        for frame in _frames(container, stream, rate):
            begin = max(0, first - position)
            end = frame.samples if stop is None else min(frame.samples, stop - position)
            position += frame.samples
            if begin < end:
                if kept and form != (frame.format.name, frame.layout.name):  # broadcasts change theirs midway
                    yield _mono(fifo.read(kept))
                    kept = 0
                if not kept:
                    fifo, form = av.AudioFifo(), (frame.format.name, frame.layout.name)
                frame.pts = None  # of which the queue makes more than we do
                fifo.write(frame)
                if begin:
                    fifo.read(begin)
                kept += end - begin
                if kept >= BLOCK_SECONDS * rate:
                    yield _mono(fifo.read(kept))
                    kept = 0
            if stop is not None and position >= stop:
                break
        if kept:
            yield _mono(fifo.read(kept))
    _check_length(position, rate, stop, announced)


def _frames(container: Any, stream: Any, rate: int) -> Iterator[Any]:
    """Yield the decoded frames in order. Raises Rejected for what cannot be decoded or goes on at another rate.

    FFmpeg passes over damaged FLAC frames without a word, but in FLAC files the time stamps count samples.
    """
    counts_samples = container.format.name == "flac"
    done = 0
    try:
        for frame in container.decode(stream):
            if frame.sample_rate != rate:
                raise Rejected(f"sample rate changes: at {done / rate:.2f} s, from {rate} to {frame.sample_rate} Hz")
            if counts_samples and frame.pts != (stream.start_time or 0) + done:
                raise Rejected(f"decoding failed: at {done / rate:.2f} s, frames are missing")
            done += frame.samples
            yield frame
    except av.FFmpegError as error:
        _check_device(Path(container.name.removeprefix("file:")), error)
        raise Rejected(f"decoding failed: at {done / rate:.2f} s, {error.strerror}") from None


def _mono(frame: av.AudioFrame) -> np.ndarray:
    """Return the mean of the channels, float32 (n,), full scale 1. Raises Rejected for what is no number."""
    try:
        values = frame.to_ndarray()
    except ValueError:  # integers of 64 bits
        raise Rejected(f"not decodable: samples of the format {frame.format.name}") from None
    count = frame.layout.nb_channels
    channels = values[:count] if frame.format.is_planar else values.reshape(-1, count).T
    mono = channels[0].astype(np.float32)
    for channel in channels[1:]:
        mono += channel
    if count > 1:
        mono /= count
    if values.dtype.kind == "u":
        mono -= 128
    if values.dtype.kind != "f":
        mono *= 2.0 ** (1 - 8 * values.dtype.itemsize)
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
