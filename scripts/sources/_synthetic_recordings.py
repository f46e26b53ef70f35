"""What the source `synthetic_recordings` makes: a chirp whose pitch tells the place, clicks, and a hiss, by blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common.encode import write_audio
from scripts.sources._synthetic import CODECS, for_encoder, sine

SAMPLE_RATES = (16_000, 22_050, 32_000, 44_100, 48_000)  # Hz, each as often; Opus is always 48 kHz
LOWEST_HZ, HIGHEST_HZ = 200.0, 6000.0  # of a chirp: what each codec keeps at each of the rates
INTERVAL = 0.7  # the right channel's pitch, of the left one's
CHIRP, HISS = 0.2, 4e-3  # of full scale
CLICK_SECONDS = 0.25  # one click in each such piece, at a random place: pieces of a recording can be told apart
CLICK_WIDTH = 1e-4  # seconds, of its Gaussian: up to about 5 kHz, so that it is as sharp after resampling to 16 kHz
SOFTEST_CLICK, LOUDEST_CLICK = 0.3, 0.6  # of full scale, above the chirp
LONG_SECONDS = 60.0  # from which on a recording has the label `long`


class Recipe(NamedTuple):
    """What one recording is made of."""

    seed: int
    number: int
    ending: str  # of its file, a key of CODECS
    sample_rate: int
    channels: int
    frames: int
    labels: tuple[str, ...]  # rising or falling, as the chirp does; stereo; long


class Clicks(NamedTuple):
    """A recording's clicks, in order."""

    frames: np.ndarray  # int64 (n,): the sample at which each has its peak
    levels: np.ndarray  # float32 (n, channels), of full scale


def draw_recipe(seed: int, number: int, seconds: float) -> Recipe:
    """Return the recipe of recording `number`, of this length; depends on nothing else."""
    rng = np.random.default_rng([seed, number])
    ending = tuple(CODECS)[number % len(CODECS)]
    sample_rate = 48_000 if ending == "opus" else int(rng.choice(SAMPLE_RATES))
    channels = int(rng.integers(1, 3))
    labels = ["rising" if rng.integers(2) else "falling"]
    labels += ["stereo"] * (channels == 2) + ["long"] * (seconds >= LONG_SECONDS)
    return Recipe(seed, number, ending, sample_rate, channels, round(seconds * sample_rate), tuple(labels))


def draw_clicks(recipe: Recipe) -> Clicks:
    """Return the samples at which the recording clicks: once in each CLICK_SECONDS, in all channels alike."""
    rng = np.random.default_rng([recipe.seed, recipe.number, 1])
    pieces = int(recipe.frames / (CLICK_SECONDS * recipe.sample_rate))
    places = (np.arange(pieces) + rng.uniform(0.1, 0.9, pieces)) * CLICK_SECONDS
    levels = rng.uniform(SOFTEST_CLICK, LOUDEST_CLICK, (pieces, recipe.channels)).astype(np.float32)
    return Clicks((places * recipe.sample_rate).astype(np.int64), levels)


def blocks(recipe: Recipe) -> Iterator[np.ndarray]:
    """Yield the recording a second at a time, float32 (channels, frames) below full scale."""
    clicks, rng = draw_clicks(recipe), np.random.default_rng([recipe.seed, recipe.number, 2])
    reach = round(5 * CLICK_WIDTH * recipe.sample_rate)  # samples before and behind a peak
    shape = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (CLICK_WIDTH * recipe.sample_rate)) ** 2).astype(np.float32)
    for start in range(0, recipe.frames, recipe.sample_rate):
        frames = min(recipe.sample_rate, recipe.frames - start)
        audio = rng.random((recipe.channels, frames), dtype=np.float32)
        audio -= 0.5
        audio *= 2 * HISS
        turns = _turns(recipe, np.arange(start, start + frames))
        for channel, samples in enumerate(audio):
            samples += np.float32(CHIRP) * sine(turns * INTERVAL**channel)
        first, last = np.searchsorted(clicks.frames, (start - reach, start + frames + reach))
        for frame, levels in zip(clicks.frames[first:last] - start, clicks.levels[first:last], strict=True):
            begin, end = max(0, frame - reach), min(frames, frame + reach + 1)
            if begin < end:
                audio[:, begin:end] += levels[:, None] * shape[begin - frame + reach : end - frame + reach]
        yield audio


def _turns(recipe: Recipe, frames: np.ndarray) -> np.ndarray:
    """Return float64 turns of the chirp since the begin: its pitch moves at a constant pace from one end to the other.

    So each pitch is heard once in a recording, and the chirp never repeats.
    """
    begin, end = (LOWEST_HZ, HIGHEST_HZ) if "rising" in recipe.labels else (HIGHEST_HZ, LOWEST_HZ)
    seconds = frames / recipe.sample_rate
    return seconds * (begin + (end - begin) / 2 * seconds / (recipe.frames / recipe.sample_rate))


def write(path: Path, recipe: Recipe) -> None:
    """Write the recording to `path` in the recipe's codec, whole or not at all; the memory has a few seconds of it."""
    codec = CODECS[recipe.ending]
    audio = (for_encoder(codec, block) for block in blocks(recipe))
    write_audio(path, codec, recipe.sample_rate, recipe.channels, audio)
