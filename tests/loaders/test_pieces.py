"""Pieces of recordings: what each reader gives is the piece of the whole that was asked for."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scripts.loaders._pieces import LIMITS, SHIFTS
from scripts.loaders._plain import pieces
from tests.support.decoders import difference, slice_of
from tests.support.encoded import CODECS, encode, sound, whole

SECONDS, FRAMES = 20, 6_000
STARTS, SLOW_STARTS = 50, 15  # torchcodec 0.11 decodes all that is before a piece
PAIRS = [(codec, decoder) for codec, limits in LIMITS.items() for decoder in limits if decoder != "torchcodec_wav"]
CUTS = ("_whole", "torchaudio")  # decode all: few starts say it

Recording = tuple[Path, np.ndarray]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recording]:
    """Return what gives a recording of a codec and its truth, made once."""
    folder, made = tmp_path_factory.mktemp("recordings"), {}

    def of(codec: str) -> Recording:
        if codec not in made:
            rate = 48_000 if codec == "opus" else 44_100
            path = encode(folder / f"{codec}.{CODECS[codec][0]}", sound(SECONDS, rate, 2), rate, codec)
            made[codec] = path, whole(path)
        return made[codec]

    return of


def farthest(read: Callable, recording: Recording, starts: list[int], shift: int = 0) -> float:
    """Return the largest difference of pieces from the truth, in 1/32768."""
    path, truth = recording
    row, largest = np.empty((len(truth), FRAMES), np.float32), 0.0
    for start in starts:
        row[:] = np.nan
        read(str(path), start, row)
        largest = max(largest, difference(row, slice_of(truth, start - shift, FRAMES)))
    return largest


def starts_of(frames: int, count: int) -> list[int]:
    """Return the first starts, the last ones, and random ones."""
    edges = [0, 1, 5, 1_000, frames - FRAMES, frames - 1_000, frames - 1]
    return [*edges, *map(int, np.random.default_rng(1).integers(0, frames, count))]


@pytest.mark.parametrize(("codec", "decoder"), PAIRS)
def test_a_piece_is_that_of_the_whole(codec: str, decoder: str, recording: Callable[[str], Recording]) -> None:
    frames = recording(codec)[1].shape[1]
    starts = starts_of(frames, SLOW_STARTS if decoder.startswith("torchcodec") else STARTS)
    if decoder in ("torchcodec", "spdl"):  # fail at the edges: docs/decoders.md
        starts = [start for start in starts if 2_000 <= start <= frames - FRAMES]
    elif decoder.endswith(CUTS):
        starts = [1_000, frames - 1_000]
    else:
        starts += [frames, frames + 1_000, frames + 200_000]  # behind the end there is silence
    shift = SHIFTS.get(codec, {}).get(decoder, 0)
    assert farthest(pieces.reader_of(decoder), recording(codec), starts, shift) <= LIMITS[codec][decoder]


@pytest.mark.parametrize("codec", [codec for codec in LIMITS if codec != "aac_noise"])
def test_pieces_put_together_are_the_whole(codec: str, recording: Callable[[str], Recording]) -> None:
    path, truth = recording(codec)
    for decoder in ("pyav", "spdl_aligned"):
        rows = [np.empty((len(truth), 30_011), np.float32) for _ in range(0, truth.shape[1], 30_011)]
        for number, row in enumerate(rows):
            pieces.reader_of(decoder)(str(path), 30_011 * number, row)
        assert difference(np.concatenate(rows, axis=1)[:, : truth.shape[1]], truth) <= LIMITS[codec][decoder]


@pytest.mark.parametrize("codec", LIMITS)
def test_a_planted_shift_is_caught(codec: str, recording: Callable[[str], Recording]) -> None:
    def one_late(path: str, start: int, row: np.ndarray) -> None:
        pieces.read_by_pyav(path, start + 1, row)

    frames = recording(codec)[1].shape[1]
    assert farthest(one_late, recording(codec), starts_of(frames, 0)[:5]) > 1_000


def test_noise_of_aac_needs_the_whole(recording: Callable[[str], Recording]) -> None:
    """FFmpeg's AAC encoder replaces parts by noise, which a decoder draws anew: by seeking it is another noise."""
    starts = starts_of(recording("aac_noise")[1].shape[1], 40)
    assert farthest(pieces.read_by_pyav, recording("aac_noise"), starts) > 100


def test_guides_use_is_early_with_a_tag(recording: Callable[[str], Recording]) -> None:
    """Without the shift that SHIFTS names, the piece is a wrong one: the name in the table is needed."""
    assert farthest(pieces.read_by_torchcodec, recording("mp3"), [100_000]) > 1_000
    assert farthest(pieces.read_by_torchcodec_aligned, recording("mp3"), [100_000]) <= LIMITS["mp3"]["torchcodec"]


def test_wav_decoder_is_there_or_says_which_version_has_it(recording: Callable[[str], Recording]) -> None:
    import torchcodec.decoders

    starts = [*starts_of(recording("wav")[1].shape[1], STARTS), SECONDS * 44_100, SECONDS * 50_000]
    if hasattr(torchcodec.decoders, "WavDecoder"):
        assert farthest(pieces.read_by_torchcodec_wav, recording("wav"), starts) == 0
    else:
        with pytest.raises(ImportError, match=r"torchcodec 0\.\d+.* has no WavDecoder: install 0\.14 or newer"):
            farthest(pieces.read_by_torchcodec_wav, recording("wav"), starts)


def test_every_reader_has_limits() -> None:
    readers = {name.removeprefix("read_by_") for name in vars(pieces) if name.startswith("read_by_")}
    assert readers == {decoder for limits in LIMITS.values() for decoder in limits}
    assert all(pieces.reader_of(name).__name__ == f"read_by_{name}" for name in readers)
