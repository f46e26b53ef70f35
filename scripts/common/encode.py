"""Writes audio to a file by FFmpeg in this process, block by block: the memory does not grow with the length."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np

from scripts.common.files import whole_file

LAYOUTS = ("mono", "stereo")  # by the number of channels, less one


class Codec(NamedTuple):
    """How FFmpeg writes the files of one ending."""

    muxer: str
    encoder: str
    sample_format: str  # s16, s16p, flt or fltp: what the encoder takes; p for channels one after the other
    options: Mapping[str, str]


def write_audio(
    path: Path,
    codec: Codec,
    sample_rate: int,
    channels: int,
    blocks: Iterable[np.ndarray],
    bit_rate: int | None = None,
    *,
    exact_end: bool = True,
) -> None:
    """Write blocks (channels, frames) to `path`, whole or not at all; one or two channels.

    A block is int16 or float32, as the codec's sample format has it. The bytes do not depend on how the audio is cut
    into blocks, and the same audio gives the same bytes: the file holds no random serial number, no date and no
    version. `bit_rate`: in bit/s, of all channels; None: the encoder's default. `exact_end`: MP4 counts its edit list
    in samples; else in milliseconds, so that a decoder may leave out the last samples.
    """
    layout, position = LAYOUTS[channels - 1], 0
    options = {"fflags": "+bitexact"}
    if exact_end and codec.muxer == "ipod":
        options["movie_timescale"] = str(sample_rate)
    with whole_file(path, "wb") as file, av.open(file, "w", codec.muxer, options=options) as container:
        stream = container.add_stream(
            codec.encoder, sample_rate, layout=layout, format=codec.sample_format, options=dict(codec.options)
        )
        if bit_rate:
            stream.bit_rate = bit_rate
        for block in blocks:
            samples = block if codec.sample_format.endswith("p") else block.T.reshape(1, -1)  # interleaved
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), codec.sample_format, layout)
            frame.sample_rate, frame.pts, frame.time_base = sample_rate, position, Fraction(1, sample_rate)
            container.mux(stream.encode(frame))
            position += block.shape[1]
        container.mux(stream.encode(None))
