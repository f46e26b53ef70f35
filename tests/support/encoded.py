"""Recordings of each codec, and what PyAV gives of each when it decodes the whole file: the truth for pieces.

PyAV encodes them; Vorbis, of which it has no encoder, soundfile.
"""

from pathlib import Path

import av
import numpy as np
import soundfile

# Of a codec: the file's ending, the encoder, its settings and the container's.
CODECS = {
    "wav": ("wav", "pcm_s16le", {}, {}),
    "flac": ("flac", "flac", {}, {}),
    "mp3": ("mp3", "libmp3lame", {"b": "128k"}, {}),
    "mp3_bare": ("mp3", "libmp3lame", {"b": "128k"}, {"write_xing": "0", "id3v2_version": "0"}),  # no Xing tag
    "opus": ("opus", "libopus", {"b": "96k"}, {}),
    "vorbis": ("ogg", "", {}, {}),
    "aac": ("m4a", "aac", {"b": "128k", "aac_pns": "0"}, {}),
    "aac_noise": ("m4a", "aac", {"b": "128k"}, {}),  # FFmpeg's default: parts are noise, made when decoded
}
FRAMES_AT_ONCE = 65536


def sound(seconds: float, rate: int, channels: int, seed: int = 0) -> np.ndarray:
    """Return int16 (channels, frames): pink noise whose loudness changes ten times a second, and a rising tone."""
    random = np.random.default_rng(seed)
    frames = round(seconds * rate)
    white = random.standard_normal((channels, frames + 64)).astype(np.float32)
    sums = np.cumsum(white, axis=1)
    noise = (sums[:, 64:] - sums[:, :-64]) / 8 * 0.6 + white[:, 64:] * 0.4
    times = np.arange(frames) / rate
    steps = random.uniform(0.05, 1, round(seconds * 10) + 2)
    loudness = np.interp(times, np.arange(len(steps)) / 10, steps)
    tone = np.sin(2 * np.pi * (200 * times + 20 * (times % 10) ** 2))
    values = 3500 * loudness * noise + 3000 * tone
    return np.clip(np.rint(values), -32768, 32767).astype(np.int16)


def encode(path: Path, pcm: np.ndarray, rate: int, codec: str) -> Path:
    """Write int16 (channels, frames) as a file of a codec; return its path. Opus takes 48 kHz."""
    if codec == "vorbis":
        with soundfile.SoundFile(path, "w", rate, len(pcm), format="OGG", subtype="VORBIS") as file:
            for at in range(0, pcm.shape[1], FRAMES_AT_ONCE):  # libvorbis overflows the stack with all at once
                file.write(pcm[:, at : at + FRAMES_AT_ONCE].T)
        return path
    _, encoder, settings, container_options = CODECS[codec]
    layout = "mono" if len(pcm) == 1 else "stereo"
    with av.open(str(path), "w", options=container_options) as container:
        stream = container.add_stream(encoder, rate=rate, layout=layout, options=settings)
        resampler = av.AudioResampler(format=stream.format, layout=layout, rate=rate, frame_size=stream.frame_size)
        for at in range(0, pcm.shape[1], FRAMES_AT_ONCE):
            part = np.ascontiguousarray(pcm[:, at : at + FRAMES_AT_ONCE].T).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(part, format="s16", layout=layout)
            frame.sample_rate, frame.pts = rate, at
            for piece in resampler.resample(frame):
                container.mux(stream.encode(piece))
        for piece in resampler.resample(None):
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return path


def whole(path: Path) -> np.ndarray:
    """Return float32 (channels, frames): all that PyAV decodes of a file, read forward from its beginning."""
    with av.open(str(path), metadata_errors="ignore") as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler(format="fltp")
        parts = [part.to_ndarray() for frame in container.decode(stream) for part in resampler.resample(frame)]
    return np.concatenate(parts, axis=1)
