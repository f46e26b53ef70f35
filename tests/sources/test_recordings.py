"""The source `synthetic_recordings`: lengths, bytes by seed and number alone, clicks in their places."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.common import plugins
from scripts.common.decode import open_recording
from scripts.common.errors import UserError
from scripts.common.ledger import SourceRequest
from scripts.sources import _synthetic_recordings as made, synthetic_recordings as source
from tests.support.programs import PROJECT

DEFAULTS = {name: schema["default"] for name, schema in source.OPTIONS.items()}
SMALL = DEFAULTS | {"recordings": 10, "longest": 20.0}
CODECS = ("m4a", "opus", "flac", "mp3", "wav")
LATE = {"m4a": 1, "opus": 1, "mp3": 1}  # samples by which a codec may move a click's peak; 0 without loss


def rows_of(store: Path, shard: int = 0, shards: int = 1, **options):
    return list(source.fetch(SourceRequest({**SMALL, **options}, 10.0, shard, shards, store)))


def recipe_of(number: int, **options) -> made.Recipe:
    options = {**SMALL, **options}
    return made.draw_recipe(options["seed"], number, source.seconds_of(options, number))


def audio_of(recipe: made.Recipe) -> np.ndarray:
    """Return float32 (channels, frames): the recording before it is encoded."""
    return np.concatenate(list(made.blocks(recipe)), axis=1)


def test_lengths_are_those_of_most_collections():
    seconds = [source.seconds_of(DEFAULTS, number) for number in range(96)]
    assert (seconds[0], seconds[1]) == (min(seconds), max(seconds)) == (0.5, 1200)
    assert sum(seconds) == pytest.approx(source.expected_seconds(DEFAULTS))
    assert Counter(np.digitize(seconds, [2, 10, 60, 300]).tolist()).keys() == {0, 1, 2, 3, 4}, "each length is there"
    assert len(set(seconds)) > 80
    fewer, more = source.expected_seconds(DEFAULTS | {"recordings": 95}), DEFAULTS | {"recordings": 97}
    assert fewer < sum(seconds) < source.expected_seconds(more)
    assert source.expected(more) == 97


@pytest.mark.parametrize("seed", range(20))
def test_each_seed_gives_about_as_much(seed):
    assert 3600 < source.expected_seconds(DEFAULTS | {"seed": seed}) < 2 * 3600


@pytest.mark.parametrize(("recordings", "count"), [(1, 1), (12, 1), (13, 2), (96, 8), (12_000, 1000), (10**6, 1000)])
def test_shards_grow_with_the_set(recordings, count):
    assert source.shards({"recordings": recordings}) == count


def test_options_that_contradict_each_other():
    source.check(DEFAULTS | {"shortest": 30, "longest": 30})
    with pytest.raises(UserError, match=r"shortest: found 31 s, allowed is at most longest, 30 s\. Lower it"):
        source.check(DEFAULTS | {"shortest": 31, "longest": 30})
    assert source.seconds_of(DEFAULTS | {"shortest": 30, "longest": 30}, 5) == 30


def test_recipes_are_varied():
    recipes = [recipe_of(number, longest=1200) for number in range(500)]
    assert Counter(recipe.ending for recipe in recipes) == dict.fromkeys(CODECS, 100)
    assert {recipe.sample_rate for recipe in recipes if recipe.ending == "opus"} == {48_000}
    for ending in set(CODECS) - {"opus"}:
        assert {recipe.sample_rate for recipe in recipes if recipe.ending == ending} == set(made.SAMPLE_RATES)
    assert {recipe.channels for recipe in recipes} == {1, 2}
    assert {label for recipe in recipes for label in recipe.labels} == {"rising", "falling", "stereo", "long"}
    assert {recipe.labels[0] for recipe in recipes} == {"rising", "falling"}


def test_bytes_depend_on_seed_and_number_alone(tmp_path):
    def files_of(store):
        return {path.name: path.read_bytes() for path in store.rglob("*.*") if path.is_file()}

    whole = rows_of(tmp_path / "whole")
    rows_of(tmp_path / "parts", 0, 2), rows_of(tmp_path / "parts", 1, 2)
    rows_of(tmp_path / "fewer", recordings=5)
    assert [row.id for row in whole] == [f"synthetic-7-{number:06d}" for number in range(10)]
    assert all(row.status == "fetched" and row.labels and not row.cut for row in whole)
    files = files_of(tmp_path / "whole")
    assert len(set(files.values())) == 10
    assert files_of(tmp_path / "parts") == files
    assert files_of(tmp_path / "fewer").items() < files.items()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "whole").rglob("synthetic-*")}
    next(iter(before)).unlink()
    assert rows_of(tmp_path / "whole") == whole
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "whole").rglob("synthetic-*")}
    assert sum(before[path] != after[path] for path in before) == 1, "what the store holds is not made again"


@pytest.mark.parametrize("number", range(10))
def test_a_recording_comes_back_with_its_clicks_in_place(tmp_path, number):
    recipe = recipe_of(number, shortest=4.0)
    made.write(tmp_path / f"a.{recipe.ending}", recipe)
    recording = open_recording(tmp_path / f"a.{recipe.ending}", 0, None)
    mono = np.concatenate(list(recording.blocks))
    assert recording.sample_rate == recipe.sample_rate
    assert not recording.lost and not recording.remarks
    assert 0 <= len(mono) - recipe.frames <= (1152 if recipe.ending in ("mp3", "m4a") else 0)
    clicks, original = made.draw_clicks(recipe), audio_of(recipe).mean(axis=0)
    assert len(clicks.frames) == 4 * recipe.frames // recipe.sample_rate
    near = np.arange(-40, 41)
    for frame in clicks.frames.tolist():
        # The chirp below moves the peak of a click: its place is where the recording as it was made fits best.
        shifts = range(-10, 11)
        fits = [float(mono[(frame + near + shift).clip(0, len(mono) - 1)] @ original[frame + near]) for shift in shifts]
        assert abs(shifts[int(np.argmax(fits))]) <= LATE.get(recipe.ending, 0), (recipe, frame)


def test_clicks_are_peaks_and_never_repeat():
    recipe = recipe_of(1)
    audio, clicks = audio_of(recipe), made.draw_clicks(recipe)
    assert audio.dtype == np.float32 and audio.shape == (recipe.channels, recipe.frames)
    assert 0.3 < np.abs(audio).max() < 0.9
    for frame, levels in zip(clicks.frames, clicks.levels, strict=True):
        assert (np.abs(audio[:, frame] - levels) < 1.1 * (made.CHIRP + made.HISS)).all()
    gaps = np.diff(clicks.frames)
    assert len(set(gaps.tolist())) == len(gaps)
    assert gaps.min() > 0.04 * recipe.sample_rate


def test_the_channels_of_stereo_differ():
    recipe = next(recipe for number in range(10) if (recipe := recipe_of(number)).channels == 2)
    left, right = audio_of(recipe).astype(float)
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.5
    assert (left + right).std() > 0.5 * left.std(), "they do not cancel out when mixed down"


@pytest.mark.parametrize("label", ["rising", "falling"])
def test_the_pitch_tells_the_place(label):
    recipe = next(recipe for number in range(2, 40) if (recipe := recipe_of(number, shortest=9)).labels[0] == label)
    left, rate = audio_of(recipe)[0], recipe.sample_rate
    pitches = []
    for start in range(0, recipe.frames - rate // 2, rate // 2):
        spectrum = np.abs(np.fft.rfft(left[start : start + rate // 2] * np.hanning(rate // 2)))
        spectrum[: round(made.LOWEST_HZ / 4)] = 0
        pitches.append(int(np.argmax(spectrum)) * 2)
    steps = np.diff(pitches)
    assert (steps > 0).all() if label == "rising" else (steps < 0).all()
    assert min(pitches) < made.LOWEST_HZ + 600 and max(pitches) > made.HIGHEST_HZ - 600


def test_every_recording_is_an_item_of_audio(tmp_path):
    """The shortest lasts as long as `audio.min_seconds`: no codec and no resampling takes it below."""
    kind = plugins.kind_of(plugins.load("kinds", "audio"), {"seconds": 10})
    for row in rows_of(tmp_path, longest=0.5):
        [pcm] = kind.pieces(row, tmp_path / row.path)
        assert len(pcm) >= 8000, row.path


def test_memory_does_not_grow_with_the_length(tmp_path):
    """A quarter of an hour in stereo would be 350 MB as float32."""
    program = """if True:
        import resource, sys
        from pathlib import Path
        from scripts.sources import _synthetic_recordings as made

        recipe = made.draw_recipe(7, 2, 900.0)._replace(ending="flac", sample_rate=48_000, channels=2)
        for seconds in (10, 900):
            made.write(Path(sys.argv[1], "a.flac"), recipe._replace(frames=seconds * 48_000))
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    short, long = map(int, done.stdout.split())
    assert long - short < 20 * 1024  # KiB
