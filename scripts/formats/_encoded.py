"""Audio in the codecs that people keep it in: writing it, and the one decoding that counts as its truth."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np

from scripts.common.encode import Codec, write_audio
from scripts.common.errors import UserError, nearest
from scripts.common.files import whole_file

BLOCK_SECONDS = 1.0  # encoded at a time: what conversion and the encoder hold does not grow with the length


class Encoding(NamedTuple):
    """How audio is kept in one codec."""

    ending: str
    codec: Codec | None  # of FFmpeg; None: libsndfile writes it
    kilobits: int | None  # kbit/s for each channel; None: as many as it takes
    rates: tuple[int, ...] | None = None  # Hz; None: all that the encoder takes


ENCODINGS = {
    # Lossless, at the level that flac and FFmpeg have as their default.
    "flac": Encoding("flac", Codec("flac", "flac", "s16", {}), None),
    # 128 kbit/s in stereo, LAME's default, at its quality 7, which takes half of the time. A Xing tag tells the delay.
    # LAME makes it softer, by a factor of 0.95.
    "mp3": Encoding("mp3", Codec("mp3", "libmp3lame", "s16p", {"compression_level": "7"}), 64),
    # 128 kbit/s in stereo: below 64 kbit/s in mono libopus codes a part as speech, of which FFmpeg's own decoder and
    # libopus make other samples, by up to half of full scale. Opus codes 48 kHz, and gives back that alone.
    "opus": Encoding("opus", Codec("opus", "libopus", "s16", {}), 64, (48_000,)),
    # About 124 kbit/s in stereo, the default of libsndfile, which writes it: wheels of PyAV have no encoder.
    # Each file has a random serial number.
    "vorbis": Encoding("ogg", None, 62),
    # 128 kbit/s in stereo, as videos and AudioSet's segments have it. An edit list tells the delay and the length. No
    # part is replaced by noise (PNS), which each decoder would draw anew.
    "aac": Encoding("m4a", Codec("ipod", "aac", "fltp", {"aac_pns": "0"}), 64),
}


def missing(codec: str) -> str | None:
    """Return why files of a codec in ENCODINGS cannot be written by this PyAV, or None."""
    if ENCODINGS[codec].codec is None:
        return None
    encoder = ENCODINGS[codec].codec.encoder
    try:
        av.codec.Codec(encoder, "w")
    except av.codec.codec.UnknownCodecError:
        return f"PyAV {av.__version__} comes without the encoder {encoder}"
    return None


def check(codec: str, rate: int) -> None:
    """Raise UserError for a codec that cannot be written, and for a sample rate in Hz that it does not take."""
    if codec not in ENCODINGS:
        allowed = ", ".join(ENCODINGS)
        raise UserError(f"codec: found {codec}, allowed are {allowed}.{nearest(codec, ENCODINGS)} Set one of them.")
    if reason := missing(codec):
        allowed = ", ".join(name for name in ENCODINGS if not missing(name))
        raise UserError(f"codec: found {codec}, and {reason}; allowed are {allowed}. Set one of them.")
    encoding = ENCODINGS[codec]
    rates = encoding.rates
    if encoding.codec and not rates:
        rates = av.codec.Codec(encoding.codec.encoder, "w").audio_rates
    if rates and rate not in rates:
        near = min(rates, key=lambda each: abs(each - rate))
        listed = " and ".join(f"{each:,}" for each in sorted(rates))
        raise UserError(
            f"audio.sample_rate: found {rate:,} Hz, allowed with the codec {codec} is {listed} Hz. "
            f"Set sample_rate: {near}, or the codec flac."
        )


def encode(path: Path, pcm: np.ndarray, rate: int, codec: str) -> None:
    """Write int16 (channels, frames), one or two channels at `rate` Hz, to `path`, whole or not at all.

    `codec`: a key of ENCODINGS. The same audio gives the same bytes. Raises UserError as `check` does.
    """
    check(codec, rate)
    form, kilobits = ENCODINGS[codec].codec, ENCODINGS[codec].kilobits
    if form is None:
        _write_vorbis(path, pcm, rate)
        return
    bit_rate = kilobits and 1000 * kilobits * len(pcm)
    write_audio(path, form, rate, len(pcm), _blocks(pcm, rate, form), bit_rate)


def _write_vorbis(path: Path, pcm: np.ndarray, rate: int) -> None:
    import soundfile

    step = round(BLOCK_SECONDS * rate)  # of long arrays libsndfile overruns its stack
    with whole_file(path, "wb") as file, soundfile.SoundFile(file, "w", rate, len(pcm), "VORBIS", format="OGG") as out:
        for start in range(0, pcm.shape[1], step):
            out.write(np.ascontiguousarray(pcm[:, start : start + step].T))


def _blocks(pcm: np.ndarray, rate: int, form: Codec) -> Iterator[np.ndarray]:
    """Yield the audio by blocks as the encoder takes it: int16, or float32 pcm / 32768."""
    step = round(BLOCK_SECONDS * rate)
    for start in range(0, pcm.shape[1], step):
        block = pcm[:, start : start + step]
        yield block if form.sample_format.startswith("s16") else block * np.float32(1 / 32768)


def decode(path: Path, channels: int, frames: int | None = None) -> np.ndarray:
    """Return int16 (channels, frames), the truth of a file that `encode` wrote: see `decode_blocks`.

    FLAC, Opus and AAC come back as long as they were written. MP3 may have up to 46 samples more: its tag cannot tell
    an end nearer to that of the last frame than a decoder's own delay. With `frames`, what is longer is cut, and what
    is shorter raises ValueError: no codec loses samples. Raises as `decode_blocks` does.
    """
    pcm = np.concatenate([np.zeros((channels, 0), np.int16), *_decoded(path, channels)], axis=1)
    if frames is not None and pcm.shape[1] < frames:
        raise ValueError(f"{path}: {pcm.shape[1]} samples instead of {frames}")
    return pcm[:, :frames]


def truth(path: Path, channels: int, frames: int) -> np.ndarray:
    """Return float32 (channels, frames), full scale 32768, as decoded: neither rounded nor saturated.

    Of a file that `encode` wrote. Raises as `decode` does.
    """
    values = np.concatenate([np.zeros((channels, 0), np.float32), *_decoded(path, channels, scaled)], axis=1)
    if values.shape[1] < frames:
        raise ValueError(f"{path}: {values.shape[1]} samples instead of {frames}")
    return values[:, :frames]


def scaled(values: np.ndarray) -> np.ndarray:
    """Return float32, full scale 32768."""
    return values.astype(np.float32) if values.dtype == np.int16 else values * np.float32(32768)


def _to_int16(values: np.ndarray) -> np.ndarray:
    """Return int16: what a decoder gives in that form or as float of full scale 1."""
    if values.dtype == np.int16:
        return values
    return np.clip(np.rint(scaled(values)), -32768, 32767).astype(np.int16)


Form = Callable[[np.ndarray], np.ndarray]


def _decoded(path: Path, channels: int, form: Form = _to_int16) -> Iterator[np.ndarray]:
    """Yield (channels, n) in a form. Of Opus and Vorbis by the libraries of their authors, which libsndfile has.

    FFmpeg's own decoders differ from them: of Vorbis in recordings of a single page, and of Opus at low bit rates.
    """
    with open(path, "rb") as file:
        ogg = file.read(4) == b"OggS"
    if not ogg:
        yield from decode_blocks(path, channels, form)
        return
    import soundfile

    with soundfile.SoundFile(path) as file:
        if file.channels != channels:
            raise ValueError(f"{path}: {file.channels} channels instead of {channels}")
        for block in file.blocks(file.samplerate, dtype="float32", always_2d=True):
            yield form(block.T)


def decode_blocks(path: Path, channels: int, form: Form = _to_int16) -> Iterator[np.ndarray]:
    """Yield int16 (channels, n) from the begin of a file that `encode` wrote, to its end.

    By FFmpeg, which leaves out the encoder's delay as the container tells it, on one thread and without seeking; what
    it gives as float is multiplied by 32768, rounded to the nearest (of two, to the even one) and saturated. The last
    frame of AAC is cut to the length in the header, which FFmpeg does not do. Raises ValueError for another number of
    channels and for what is no audio, and av.FFmpegError for what else it cannot decode.

    FLAC gives the same on every machine. Of the others, up to one value in 300 differs by 1 on a processor with other
    vector instructions (measured without any, with SSE2 and with AVX): the truth is what the same machine decodes.
    """
    with av.open(f"file:{path}") as container:
        [stream] = container.streams.audio
        stream.codec_context.thread_count = 1
        if stream.codec_context.channels != channels:
            raise ValueError(f"{path}: {stream.codec_context.channels} channels instead of {channels}")
        left = np.inf
        if "mp4" in container.format.name and stream.duration is not None:
            left = round(stream.duration * stream.time_base * stream.codec_context.sample_rate)
        for frame in container.decode(stream):
            values = frame.to_ndarray()
            if not frame.format.is_planar:
                values = values.reshape(-1, channels).T
            pcm = form(values)[:, : int(min(left, frame.samples))]
            left -= pcm.shape[1]
            yield pcm
