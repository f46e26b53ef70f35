"""Readers of a piece of a recording, by library: each from a file and a first sample into a row of the batch.

`row` is float32 (channels, frames): the recording's samples from `start` on, and zeros behind its end.
"""

import numpy as np

PREROLL = 1.0  # seconds decoded before a piece: a codec needs what came before (MP3 0.2 s, Opus 0.7 s, measured)


def put(samples, row, start=0):
    """Write float32 (channels, n), of which the first `start` are too early, into a row; zeros behind its end."""
    samples = samples[:, start : start + row.shape[1]]
    row[:, : samples.shape[1]] = samples
    row[:, samples.shape[1] :] = 0


def read_by_soundfile(path, start, row):
    """Read a piece by libsndfile, which seeks to the sample."""
    import soundfile

    with soundfile.SoundFile(path) as file:
        file.seek(min(start, file.frames))
        put(file.read(row.shape[1], dtype="float32", always_2d=True).T, row)


def read_by_soundfile_whole(path, start, row):
    """Read the whole recording by libsndfile, and cut the piece."""
    import soundfile

    put(soundfile.read(path, dtype="float32", always_2d=True)[0].T, row, start)


def read_by_torchcodec(path, start, row):
    """Read a piece by torchcodec."""
    from torchcodec.decoders import AudioDecoder

    decoder = AudioDecoder(path)
    rate = decoder.metadata.sample_rate
    put(decoder.get_samples_played_in_range(start / rate, (start + row.shape[1]) / rate).data.numpy(), row)


def read_by_torchcodec_aligned(path, start, row):
    """Read a piece by torchcodec."""
    from torchcodec.decoders import AudioDecoder

    decoder = AudioDecoder(path)
    rate, first = decoder.metadata.sample_rate, decoder.metadata.begin_stream_seconds_from_header or 0
    early = max(0, start / rate - PREROLL)
    samples = decoder.get_samples_played_in_range(first + early, first + (start + row.shape[1]) / rate)
    put(samples.data.numpy(), row, start - round((samples.pts_seconds - first) * rate))


def read_by_torchcodec_whole(path, start, row):
    """Read the whole recording by torchcodec, and cut the piece."""
    from torchcodec.decoders import AudioDecoder

    put(AudioDecoder(path).get_all_samples().data.numpy(), row, start)


def read_by_torchcodec_wav(path, start, row):
    """Read a piece of a WAV file by torchcodec's own reader, without FFmpeg."""
    from torchcodec.decoders import WavDecoder

    decoder = WavDecoder(path)
    rate = decoder.metadata.sample_rate
    put(decoder.get_samples_played_in_range(start / rate, (start + row.shape[1]) / rate).data.numpy(), row)


def read_by_torchaudio(path, start, row):
    """Read a piece by torchaudio.load, which since version 2.9 decodes the whole recording and cuts it."""
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


def read_by_pyav(path, start, row):
    """Read a piece by PyAV."""
    import av

    stop, parts, end = start + row.shape[1], [], 0
    with av.open(path, metadata_errors="ignore", options={"probesize": "32768"}) as container:
        stream = container.streams.audio[0]
        rate, first = stream.rate, stream.start_time or 0
        early = start / rate - PREROLL
        if early > 0:
            try:
                container.seek(first + int(early / stream.time_base), stream=stream)
            except av.FFmpegError:  # to the last frame of FLAC, or behind it
                container.seek(0)
        for frame in container.decode(stream):
            parts.append(planes_of(frame))
            end = round((frame.pts - first) * frame.time_base * rate) + frame.samples
            if end >= stop:
                break
    samples = np.concatenate(parts, axis=1) if parts else row[:, :0]
    put(samples, row, start - (end - samples.shape[1]))


def read_by_pyav_whole(path, start, row):
    """Read the whole recording by PyAV, and cut the piece."""
    import av

    with av.open(path, metadata_errors="ignore") as container:
        put(np.concatenate([planes_of(frame) for frame in container.decode(audio=0)], axis=1), row, start)


def read_by_spdl(path, start, row):
    """Read a piece by SPDL."""
    import spdl.io

    with spdl.io.Demuxer(path) as demuxer:
        rate = demuxer.audio_codec.sample_rate
        packets = demuxer.demux_audio((start / rate, (start + row.shape[1]) / rate))
    put(spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets))), row)


def read_by_spdl_whole(path, start, row):
    """Read the whole recording by SPDL, and cut the piece."""
    import spdl.io

    put(spdl.io.to_numpy(spdl.io.load_audio(path)), row, start)
