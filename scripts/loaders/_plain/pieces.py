"""Readers of a piece of a recording, by library: each from a file and a first sample into a row of the batch.

`row` is float32 (channels, frames): the recording's samples from `start` on, and zeros behind its end. Plain forms are
those of a library's guide; where they miss the place or the values, an `aligned` form is beside them.
"""

from fractions import Fraction
from itertools import islice

import numpy as np

PREROLL = 1  # seconds decoded before a piece, for what a codec keeps of the past: MP3 0.2 s, Opus 0.5 s (measured)


def put(samples, row, start=0):
    """Write float32 (channels, n) from sample `start` on into a row; zeros behind its end."""
    samples = samples[:, start : start + row.shape[1]]
    row[:, : samples.shape[1]] = samples
    row[:, samples.shape[1] :] = 0


def read_by_soundfile(path, start, row):
    """Read a piece by libsndfile, which seeks to the sample. It has no AAC.

    It can get the beginning wrong, by thousands of 1/32768: of Vorbis in 1 % of the pieces
    (libsndfile#885), of MP3 of 16 kbit/s in 92 %, of 128 kbit/s in none. The aligned form does not.
    """
    import soundfile

    with soundfile.SoundFile(path) as file:
        file.seek(min(start, file.frames))
        put(file.read(row.shape[1], dtype="float32", always_2d=True).T, row)


def read_by_soundfile_aligned(path, start, row):
    """Read a piece by libsndfile, from a second before it on."""
    import soundfile

    with soundfile.SoundFile(path) as file:
        early = max(0, min(start, file.frames) - PREROLL * file.samplerate)
        file.seek(early)
        put(file.read(start - early + row.shape[1], dtype="float32", always_2d=True).T, row, start - early)


def read_by_soundfile_whole(path, start, row):
    """Read the whole recording by libsndfile, and cut the piece."""
    import soundfile

    put(soundfile.read(path, dtype="float32", always_2d=True)[0].T, row, start)


def read_by_torchcodec(path, start, row):
    """Read a piece by torchcodec, as its guide has it.

    Its seconds count from the file's time stamps. An MP3 file with a Xing tag begins at 1,105 samples: pieces come
    1,105 samples early, the first ones too short. A piece behind the end is an error. Up to torchcodec 0.11 all that
    is before a piece is decoded.
    """
    from torchcodec.decoders import AudioDecoder

    decoder = AudioDecoder(path)
    rate = decoder.metadata.sample_rate
    put(decoder.get_samples_played_in_range(start / rate, (start + row.shape[1]) / rate).data.numpy(), row)


def read_by_torchcodec_aligned(path, start, row):
    """Read a piece by torchcodec, from a second before it on, whose seconds count from the first sample.

    The header says when that is; of Ogg, whose first packet can be left out, the samples say it.
    """
    from torchcodec.decoders import AudioDecoder

    decoder = AudioDecoder(path)
    known = decoder.metadata
    rate, first = known.sample_rate, known.begin_stream_seconds_from_header or 0
    if known.codec in ("vorbis", "opus"):
        first = decoder.get_samples_played_in_range(0, first + 0.05).pts_seconds
    row[:] = 0
    early = max(0, start / rate - PREROLL)
    if early < known.duration_seconds:
        samples = decoder.get_samples_played_in_range(first + early, first + (start + row.shape[1]) / rate)
        put(samples.data.numpy(), row, start - round((samples.pts_seconds - first) * rate))


def read_by_torchcodec_whole(path, start, row):
    """Read the whole recording by torchcodec, and cut the piece."""
    from torchcodec.decoders import AudioDecoder

    put(AudioDecoder(path).get_all_samples().data.numpy(), row, start)


def read_by_torchcodec_wav(path, start, row):
    """Read a piece of a WAV file by torchcodec's reader of them, which does without FFmpeg."""
    try:
        from torchcodec.decoders import WavDecoder
    except ImportError:
        raise ImportError(f"torchcodec {version_of('torchcodec')} has no WavDecoder: install 0.14 or newer") from None

    decoder = WavDecoder(path)
    rate = decoder.metadata.sample_rate
    row[:] = 0
    if start < round(decoder.metadata.duration_seconds * rate):
        put(decoder.get_samples_played_in_range(start / rate, (start + row.shape[1]) / rate).data.numpy(), row)


def version_of(library):
    """Return the version of a library that is installed."""
    from importlib.metadata import version

    return version(library)


def read_by_torchaudio(path, start, row):
    """Read a piece by torchaudio.load, which since version 2.9 decodes the whole recording by torchcodec and cuts."""
    import torchaudio

    put(torchaudio.load(path, frame_offset=start, num_frames=row.shape[1])[0].numpy(), row)


def planes_of(frame):
    """Return the samples of a frame of FFmpeg's, float32 (channels, n)."""
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    if values.dtype.kind == "i":
        values = values * np.float32(2.0 ** (1 - 8 * values.dtype.itemsize))  # a power of two: the product is exact
    return values


def stamp_of(frame):
    """Return the time stamp of a frame of FFmpeg's, in samples."""
    return round(frame.pts * frame.time_base * frame.sample_rate)


def read_by_pyav(path, start, row):
    """Read a piece by PyAV, from a second before it on.

    What time stamp the first sample has, the second frame says: the first one's can be that of samples which are left
    out. Behind a seek the last frame says where the samples are: those of the first page of Vorbis can be 128 samples
    off. The probe is small: of WAV of 44.1 kHz FFmpeg reads 5 MB to see that it is no DTS, in 17 ms.
    """
    import av

    with av.open(path, metadata_errors="ignore", options={"probesize": "32768"}) as container:
        stream = container.streams.audio[0]
        stop, early = start + row.shape[1], start - PREROLL * stream.rate
        frames = container.decode(stream)
        parts, begin, first = list(islice(frames, 2)), 0, None
        if len(parts) == 2 and early > 0:
            first = stamp_of(parts[1]) - parts[0].samples
            try:
                container.seek(int((first + early) / stream.rate / stream.time_base), stream=stream)
            except av.FFmpegError:  # FFmpeg cannot seek to the last frame of FLAC, nor behind it
                first = None
                container.seek(0)
            frames, parts = container.decode(stream), []
        end = sum(frame.samples for frame in parts)
        while begin + end < stop and (frame := next(frames, None)):
            if first is not None and frame.pts is not None:
                begin = stamp_of(frame) - first - end
            parts.append(frame)
            end += frame.samples
        samples = [planes_of(frame) for frame in parts]
    put(np.concatenate([row[:, :0], *samples], axis=1), row, start - begin)


def read_by_pyav_whole(path, start, row):
    """Read the whole recording by PyAV, and cut the piece."""
    import av

    with av.open(path, metadata_errors="ignore") as container:
        put(np.concatenate([planes_of(frame) for frame in container.decode(audio=0)], axis=1), row, start)


def read_by_spdl(path, start, row):
    """Read a piece by SPDL, as its guide has it: it decodes from the place on, with nothing before it.

    Of lossy codecs the first 0.1 s is wrong, by thousands of 1/32768; 7 % of the pieces of Vorbis lack up to 1,000
    samples at their beginning. Its seconds count from the file's time stamps, as torchcodec's do: MP3 with a Xing
    tag comes 1,105 samples early. Errors: MP3 from 0 on, a start below 0.0001 s but 0, a piece behind the end.
    """
    import spdl.io

    with spdl.io.Demuxer(path) as demuxer:
        rate = demuxer.audio_codec.sample_rate
        packets = demuxer.demux_audio((Fraction(start, rate), Fraction(start + row.shape[1], rate)))
    filtered = spdl.io.decode_packets(packets)
    put(spdl.io.to_numpy(spdl.io.convert_frames(filtered)), row)


def decode_by_spdl(demuxer, start, stop):
    """Return float32 (channels, n), what SPDL gives between two samples by time stamps, from a second before on."""
    import spdl.io

    codec = demuxer.audio_codec
    least = Fraction(1, 1000) if codec.name.startswith("mp3") else Fraction(0)  # FFmpeg 5 refuses to seek MP3 to 0
    early = max(least, Fraction(start, codec.sample_rate) - PREROLL)
    packets = demuxer.demux_audio((early, Fraction(stop, codec.sample_rate)))
    cut = f"atrim=start={start / codec.sample_rate:.6f}:end={stop / codec.sample_rate:.6f}"
    frames = spdl.io.decode_packets(packets, filter_desc=f"{cut},aformat=sample_fmts=fltp")
    if frames.num_frames == 0:
        return np.empty((codec.num_channels, 0), np.float32)
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def read_by_spdl_aligned(path, start, row):
    """Read a piece by SPDL, from a second before it on, cut by time stamps.

    SPDL does not tell the first time stamp. How many samples are in the first quarter of a second by time stamps does:
    the recording must be as long.
    """
    import spdl.io

    with spdl.io.Demuxer(path) as demuxer:
        quarter = demuxer.audio_codec.sample_rate // 4
        start += quarter - decode_by_spdl(demuxer, 0, quarter).shape[1]
        put(decode_by_spdl(demuxer, start, start + row.shape[1]), row)


def read_by_spdl_whole(path, start, row):
    """Read the whole recording by SPDL, and cut the piece."""
    import spdl.io

    put(spdl.io.to_numpy(spdl.io.load_audio(path)), row, start)


def reader_of(decoder):
    """Return the function that reads a piece by a library."""
    if decoder == "soundfile_aligned":
        return read_by_soundfile_aligned
    if decoder == "soundfile_whole":
        return read_by_soundfile_whole
    if decoder == "torchcodec":
        return read_by_torchcodec
    if decoder == "torchcodec_aligned":
        return read_by_torchcodec_aligned
    if decoder == "torchcodec_whole":
        return read_by_torchcodec_whole
    if decoder == "torchcodec_wav":
        return read_by_torchcodec_wav
    if decoder == "torchaudio":
        return read_by_torchaudio
    if decoder == "pyav":
        return read_by_pyav
    if decoder == "pyav_whole":
        return read_by_pyav_whole
    if decoder == "spdl":
        return read_by_spdl
    if decoder == "spdl_aligned":
        return read_by_spdl_aligned
    if decoder == "spdl_whole":
        return read_by_spdl_whole
    return read_by_soundfile
