"""Cuts a segment out of a recording without transcoding: the packets it needs, in a small file of the same codec."""

from pathlib import Path
from typing import Any, NamedTuple

import av

from scripts.common.audio_header import announced_seconds
from scripts.common.decode import Rejected, open_recording
from scripts.sources._audioset.ranged import RangedFile

# Codecs overlap their frames, MP3 borrows bits from earlier ones, and Opus (RFC 7845, section 4.6) takes 80 ms to
# settle: this much before the start is kept, decoded and then left out.
PREROLL_SECONDS = 0.5
TAIL_SECONDS = 0.1  # the last frame overlaps with the one after it
TOLERANCE_SECONDS = 0.1  # of lengths in headers
TOLD_TOLERANCE_SECONDS = 1.5  # of those in pages
DELAY_SECONDS = 0.1  # more than any encoder's; a later start is silence that belongs to the recording


class Container(NamedTuple):
    """How packets of a codec are written."""

    ending: str
    muxer: str


# Those that count time in samples where there are such; Matroska, in milliseconds, takes every codec. That does no
# harm to FLAC, of which a decoder gives every packet's samples: only what it leaves out at the start is in time stamps.
CONTAINERS = {
    "opus": Container("opus", "opus"),
    "vorbis": Container("ogg", "ogg"),
    "aac": Container("m4a", "ipod"),
    "alac": Container("m4a", "ipod"),
    "mp3": Container("mp3", "mp3"),
    "pcm_s16le": Container("wav", "wav"),
    "pcm_s24le": Container("wav", "wav"),
}
ANY = Container("mka", "matroska")
GUESSED = ("mp3", "aac", "wav")  # containers whose length FFmpeg reckons from the size of what arrived


class NotUsable(Exception):
    """What arrived holds no such segment; `gone` where asking again cannot help."""

    def __init__(self, reason: str, gone: bool = False) -> None:
        super().__init__(reason)
        self.gone = gone


class Cut(NamedTuple):
    """A segment that lies in a file of its own."""

    path: Path
    codec: str  # FFmpeg's name
    start_seconds: float  # where in the decoded file the segment begins
    seconds: float  # how much of the segment there is


def cut_segment(
    source: Path | RangedFile, start: float, stop: float, stem: Path, told_seconds: float | None = None
) -> Cut:
    """Write the part of `source` from `start` to `stop` seconds to `stem` + an ending, and return what was written.

    `told_seconds` is how long the recording is by what the server says of it, in whole seconds. Raises NotUsable where
    `source` is no audio, ends before `start`, or breaks off before the end it announces, and whatever its reading
    raises. Time is that of the source's packets, which players show. A source with an index is sought in: only the
    part is read.
    """
    try:
        zero = _zero(source)
        with _open(source) as container:
            stream = container.streams.best("audio")
            codec = stream.codec_context.codec.canonical_name
            from_matroska = container.format.name.startswith("matroska,")
            target = ANY if from_matroska and codec != "opus" else CONTAINERS.get(codec, ANY)
            path = stem.with_name(f"{stem.name}.{target.ending}")
            with av.open(str(path), "w", target.muxer, options=_muxer_options(target.muxer, zero)) as output:
                announced = _announced(container, source)
                if told_seconds:  # Ogg files announce nothing: FFmpeg looks at where they end
                    announced = max(announced or 0.0, told_seconds - TOLD_TOLERANCE_SECONDS)
                first = _copy(container, stream, start + zero, stop + zero, output, announced)
    except av.FFmpegError as error:
        raise NotUsable(f"not audio, or damaged: {error.strerror}") from None
    finally:
        if isinstance(source, RangedFile) and source.fault is not None:
            raise source.fault
    offset, seconds = _measure(path, start + zero - first, stop - start)
    return Cut(path, codec, offset, seconds)


def _open(source: Path | RangedFile) -> Any:
    if isinstance(source, Path):
        return av.open(f"file:{source}", metadata_errors="ignore")
    source.seek(0)
    return av.open(source, metadata_errors="ignore")


def _zero(source: Path | RangedFile) -> float:
    """Return the time stamp, in seconds, of what a player takes for the start: 0, give or take an encoder's delay."""
    with _open(source) as container:
        stream = container.streams.best("audio")
        if stream is None or stream.codec_context is None:
            raise NotUsable("no audio: the recording has no such stream", gone=True)
        frame = next(container.decode(stream), None)
    if frame is None or frame.pts is None:
        raise NotUsable("not audio, or damaged: nothing can be decoded")
    zero = float(frame.pts * frame.time_base)
    return zero if abs(zero) < DELAY_SECONDS else 0.0


def _announced(container: Any, source: Path | RangedFile) -> float | None:
    """Return how long the source's header says it is, None where it does not say."""
    seconds = container.duration / av.time_base if container.duration else None
    if container.format.name in GUESSED:
        return announced_seconds(source, seconds) if isinstance(source, Path) else None
    return seconds


def _muxer_options(muxer: str, zero: float) -> dict[str, str]:
    """Return FFmpeg's options: an MP3 file gets a header, which tells a delay, only where the source tells one."""
    exact = {"fflags": "+bitexact"}
    return exact | {"write_xing": "0"} if muxer == "mp3" and not zero else exact


def _copy(container: Any, stream: Any, start: float, stop: float, output: Any, announced: float | None) -> float:
    """Copy the packets from `start` to `stop` and return the time of the first, in seconds of the source."""
    base = stream.time_base
    seekable = container.format.name.startswith(("mov,", "matroska,"))
    if seekable and start > 2 * PREROLL_SECONDS:
        container.seek(int((start - 2 * PREROLL_SECONDS) / base), stream=stream)
    first = end = None
    copy = output.add_stream_from_template(stream)
    copy.metadata.clear()
    for packet in container.demux(stream):
        if packet.pts is None or not packet.size:
            continue
        begin = float(packet.pts * base)
        end = begin + float((packet.duration or 0) * base)
        if end <= start - PREROLL_SECONDS:
            continue
        if begin >= stop + TAIL_SECONDS:
            break
        if first is None:
            first, shift = begin, packet.pts
        packet.pts -= shift
        packet.dts = packet.pts
        packet.stream = copy
        output.mux(packet)
    if (
        announced is not None
        and max(start, end or 0.0) < announced - TOLERANCE_SECONDS
        and (end is None or end < min(stop, announced) - TOLERANCE_SECONDS)
    ):
        raise NotUsable(f"truncated: {announced:.1f} s are announced, {end or 0:.1f} s of them arrived")
    if first is None or end <= start:
        raise NotUsable(f"too short: the segment begins at {start:.1f} s, the recording ends at {end or 0:.1f} s", True)
    return first


def _measure(path: Path, start: float, seconds: float) -> tuple[float, float]:
    """Return where in the decoded file the segment begins, and how much of it there is, in seconds.

    `start` counts from the file's first packet. Decoders leave out what the container calls the encoder's delay, which
    the first frame's time stamp tells.
    """
    with av.open(f"file:{path}") as container:
        stream = container.streams.best("audio")
        packet = next(container.demux(stream))
        opened = float(packet.pts * stream.time_base)
    with av.open(f"file:{path}") as container:
        frame = next(container.decode(audio=0))
        skipped = float(frame.pts * frame.time_base) - opened
    offset = max(0.0, start - skipped)
    try:
        recording = open_recording(path, offset, offset + seconds)
        samples = sum(len(block) for block in recording.blocks)
    except Rejected as fault:
        raise NotUsable(str(fault)) from None
    if recording.lost:
        raise NotUsable(recording.lost[0].reason)
    return offset, samples / recording.sample_rate
