"""What the source `synthetic` makes: signals by label, mixed after a recipe, and written by FFmpeg."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common.encode import Codec, write_audio

MARGIN_SECONDS = 0.1  # more than encoders and resampling take off a clip's ends


CODECS = {  # with the options that cost least: nobody listens to these clips
    "m4a": Codec("ipod", "aac", "fltp", {"aac_coder": "fast", "aac_is": "0", "aac_pns": "0", "aac_tns": "0"}),
    "opus": Codec("opus", "libopus", "flt", {"compression_level": "0"}),
    "flac": Codec("flac", "flac", "s16", {}),
    "mp3": Codec("mp3", "libmp3lame", "fltp", {"compression_level": "9", "joint_stereo": "0"}),
    "wav": Codec("wav", "pcm_s16le", "s16", {}),
}


class Recipe(NamedTuple):
    """What one clip is made of."""

    ending: str  # of its file, a key of CODECS
    sample_rate: int
    channels: int
    frames: int
    labels: tuple[str, ...]  # one to three of SIGNALS, the loudest first


def draw_recipe(seed: int, number: int, seconds: float | None) -> tuple[Recipe, np.random.Generator]:
    """Return clip `number`'s recipe and the generator that goes on to draw its signal; depends on nothing else.

    It is a little longer than `seconds`, so that it fills an item after encoding; None: 1.5 to 10 s, and short ones are
    the commoner, as in most collections: the logarithm of the length is uniform.
    """
    rng = np.random.default_rng([seed, number])
    ending = tuple(CODECS)[number % len(CODECS)]
    sample_rate = 48_000 if ending == "opus" else int(rng.choice([44_100, 48_000]))  # Opus is always 48 kHz
    length = np.exp(rng.uniform(np.log(1.5), np.log(10))) if seconds is None else seconds + MARGIN_SECONDS
    frames = int(100 * length) * sample_rate // 100
    labels = rng.permutation(tuple(SIGNALS))[: rng.integers(1, 4)]
    return Recipe(ending, sample_rate, int(rng.integers(1, 3)), frames, tuple(str(label) for label in labels)), rng


def synthesize(recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """Return float32 (channels, frames) below full scale: each label's signal, the later ones softer, and a hiss."""
    seconds = np.arange(recipe.frames, dtype=np.float32) / np.float32(recipe.sample_rate)
    audio = rng.random((recipe.channels, recipe.frames), dtype=np.float32)
    audio -= 0.5
    audio *= 4e-3
    for rank, label in enumerate(recipe.labels):
        signal = SIGNALS[label](rng, seconds, recipe.sample_rate)
        signal *= 0.5**rank / max(_peak(signal), 1e-9)
        places = rng.uniform(0.4, 1.0, recipe.channels)  # of the channels, none silent
        for channel, place in zip(audio, places.tolist(), strict=True):
            channel += place * signal
    audio *= rng.uniform(0.3, 0.8) / _peak(audio)
    return audio


def _peak(signal: np.ndarray) -> float:
    """Return the largest absolute value."""
    return max(float(signal.max()), -float(signal.min()))


def encode(path: Path, recipe: Recipe, audio: np.ndarray) -> None:
    """Write float32 (channels, frames) to `path` in the recipe's codec, whole or not at all, in this process."""
    codec = CODECS[recipe.ending]
    blocks = [for_encoder(codec, audio)]
    write_audio(path, codec, recipe.sample_rate, recipe.channels, blocks, exact_end=False)  # as in all of VERSION 3


def for_encoder(codec: Codec, audio: np.ndarray) -> np.ndarray:
    """Return float32 audio as the codec takes it: rounded to int16 where it takes integers."""
    return np.rint(audio * np.float32(32767)).astype(np.int16) if codec.sample_format == "s16" else audio


def sine(turns: np.ndarray) -> np.ndarray:
    """Return float32 sin(2 pi `turns`); whole turns of float64 are taken off before they cost precision."""
    return np.sin(_radians(turns))


def _radians(turns: np.ndarray) -> np.ndarray:
    """Return the angle within the turn, float32, from 0 to 2 pi."""
    return (turns - np.floor(turns)).astype(np.float32) * np.float32(2 * np.pi)


def _turns(frequency: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return float64 turns since the begin, of a frequency in Hz per sample."""
    return np.cumsum(frequency, dtype=np.float64) / sample_rate


def _harmonics(turns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return float32, the sum of weights[k] * sin((k + 1) * 2 pi `turns`).

    By the recurrence sin((k + 1) p) = 2 cos(p) sin(k p) - sin((k - 1) p), which needs no further sine; in blocks that
    stay in the processor's cache.
    """
    total = np.empty(len(turns), np.float32)
    for start in range(0, len(turns), 4096):
        block = _radians(turns[start : start + 4096])
        before, current, twice_cosine = np.zeros_like(block), np.sin(block), 2 * np.cos(block)
        summed = total[start : start + 4096]
        summed[:] = 0
        for weight in weights.tolist():
            summed += weight * current
            before -= twice_cosine * current  # of the next but one, with its sign turned
            before, current = current, np.negative(before, out=before)
    return total


def _steps(rng: np.random.Generator, seconds: np.ndarray, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Return for each sample (number of its period, seconds since the period began), from a random first offset."""
    position = seconds + rng.uniform(0, period)
    number = np.floor(position / period)
    return number.astype(np.int32), position - number * period


def _chirp(rng: np.random.Generator, seconds: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return logarithmic sweeps, up or down, over one to five octaves."""
    _, since = _steps(rng, seconds, rng.uniform(0.4, 2.5))
    octaves = rng.choice([-1, 1]) * rng.uniform(1, 5) * since / since.max()
    start = rng.uniform(150, 400) * (2 ** -octaves.min() if octaves.min() < 0 else 1)
    return sine(_turns(start * np.exp2(octaves), sample_rate))


def _band(rng: np.random.Generator, frames: int, sample_rate: int) -> np.ndarray:
    """Return noise of a random band between 60 Hz and 16 kHz, at least an octave wide; it repeats after 1.3 s or more.

    The transform of a power of two is quick; a longer one would tell nobody more.
    """
    size = 1 << 16
    spectrum = np.fft.rfft(rng.standard_normal(size, dtype=np.float32))
    low = np.exp(rng.uniform(np.log(60), np.log(4000)))
    high = low * 2 ** rng.uniform(1, 2)
    spectrum[: round(low * size / sample_rate)] = 0
    spectrum[round(high * size / sample_rate) + 1 :] = 0
    return np.resize(np.fft.irfft(spectrum, size), frames)


def _noise(rng: np.random.Generator, seconds: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return band-limited noise whose level swells slowly, like wind or water."""

    swell = 0.7 + 0.3 * sine(rng.uniform(0.1, 0.8) * seconds + rng.uniform())
    return swell * _band(rng, len(seconds), sample_rate)


def _pulses(rng: np.random.Generator, seconds: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return short decaying bursts of noise at a steady pace, like steps or a drum."""
    _, since = _steps(rng, seconds, rng.uniform(0.12, 0.6))
    return np.exp(-since / rng.uniform(0.01, 0.05)) * _band(rng, len(seconds), sample_rate)


def _tone(rng: np.random.Generator, seconds: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return a melody of decaying harmonic notes with vibrato."""
    number, since = _steps(rng, seconds, rng.uniform(0.25, 1.5))
    notes = 2 ** (rng.integers(0, 13, number[-1] + 1) / 12)
    vibrato = 1 + rng.uniform(0, 0.02) * sine(rng.uniform(4, 7) * seconds)
    frequency = rng.uniform(80, 400) * notes.astype(np.float32)[number] * vibrato
    weights = 1 / np.arange(1, rng.integers(4, 10)) ** rng.uniform(0.7, 2)
    decay = np.exp(-since / rng.uniform(0.2, 1.0)) * np.minimum(1, since / 0.005)  # 5 ms of attack: no click
    return decay * _harmonics(_turns(frequency, sample_rate), weights)


def _speech(rng: np.random.Generator, seconds: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return voiced bursts at the pace of syllables: a gliding pitch under two formants, with pauses."""
    period = 1 / rng.uniform(3, 6)
    number, since = _steps(rng, seconds, period)
    gains = rng.uniform(0.3, 1.0, number[-1] + 1) * (rng.uniform(size=number[-1] + 1) > 0.2)
    gains[number[len(number) // 2]] = 1.0  # at least one syllable is spoken
    envelope = gains.astype(np.float32)[number] * sine(since / (2 * period)) ** 2
    pitch = rng.uniform(90, 240)
    glide = 1 + 0.1 * sine(rng.uniform(0.3, 0.9) * seconds + rng.uniform())
    partials = pitch * np.arange(1, 19)
    formants = ((rng.uniform(300, 800), 120), (rng.uniform(900, 2500), 200))  # centre and width in Hz
    weights = sum(1 / (1 + ((partials - centre) / width) ** 2) for centre, width in formants)
    return envelope * _harmonics(_turns(pitch * glide, sample_rate), weights)


SIGNALS = {"chirp": _chirp, "noise": _noise, "pulses": _pulses, "speech": _speech, "tone": _tone}  # by label
