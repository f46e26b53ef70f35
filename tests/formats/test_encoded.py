"""Audio written in each codec and decoded again: aligned to the sample, as long as before, the same bytes each time."""

import numpy as np
import pytest

from scripts.common.errors import UserError
from scripts.formats import _encoded

RATES = (16_000, 22_050, 32_000, 44_100, 48_000)
WRITTEN = [codec for codec in _encoded.ENCODINGS if not _encoded.missing(codec)]
LOSSY = [codec for codec in WRITTEN if codec != "flac"]


def rates_of(codec: str, rates: tuple[int, ...] = RATES) -> list[int]:
    """Return which of the rates a codec takes."""
    return [rate for rate in rates if rate in (_encoded.ENCODINGS[codec].rates or rates)]


SNR_DB = 20  # floor: what was measured lies between 26 and 50


def made(rate: int, channels: int, seconds: float) -> np.ndarray:
    """Return int16 (channels, frames): a chirp of another pitch in each channel, with clicks that never repeat."""
    rng = np.random.default_rng([rate, channels])
    frames = int(seconds * rate)
    at = np.arange(frames) / rate
    audio = np.stack(
        [0.2 * np.sin(2 * np.pi * (pitch * at + 1500 / seconds * at**2)) for pitch in (300, 500)[:channels]]
    )
    pulse = np.exp(-0.5 * (np.arange(-50, 51) / (1e-4 * rate)) ** 2)
    for place in rng.integers(60, frames - 60, max(2, int(2 * seconds))):
        audio[:, place - 50 : place + 51] += rng.uniform(0.2, 0.4, (channels, 1)) * pulse
    audio += rng.uniform(-2e-3, 2e-3, audio.shape)
    return np.clip(np.rint(audio * 32767), -32768, 32767).astype(np.int16)


def shift_of(decoded: np.ndarray, pcm: np.ndarray) -> int:
    """Return by how many samples `decoded` is late: where the cross-correlation has its peak."""
    size = 2 * len(pcm)
    product = np.fft.rfft(decoded, size) * np.conj(np.fft.rfft(pcm, size))
    peak = int(np.argmax(np.fft.irfft(product, size)))
    return peak - size if peak > size // 2 else peak


def snr_db(decoded: np.ndarray, pcm: np.ndarray) -> float:
    """Return the ratio of signal to error in dB; LAME's gain, 0.95 at these bit rates, is no error."""
    decoded, pcm = decoded.astype(float).ravel(), pcm.astype(float).ravel()
    error = decoded / (decoded @ pcm / (pcm @ pcm)) - pcm
    return 10 * np.log10((pcm @ pcm) / (error @ error))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", RATES)
def test_flac_comes_back_to_the_bit(tmp_path, rate, channels):
    pcm = np.random.default_rng(rate).integers(-32768, 32768, (channels, int(2.345 * rate))).astype(np.int16)
    pcm[:, :2] = -32768, 32767
    _encoded.encode(tmp_path / "a.flac", pcm, rate, "flac")
    decoded = _encoded.decode(tmp_path / "a.flac", channels)
    assert decoded.dtype == np.int16 and np.array_equal(decoded, pcm)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("codec", "rate"), [(codec, rate) for codec in LOSSY for rate in rates_of(codec)])
def test_a_lossy_codec_keeps_time_and_length(tmp_path, codec, rate, channels):
    pcm, path = made(rate, channels, 3.21), tmp_path / "a"
    _encoded.encode(path, pcm, rate, codec)
    decoded = _encoded.decode(path, channels, pcm.shape[1])
    assert decoded.shape == pcm.shape
    for one, other in zip(decoded, pcm, strict=True):
        assert shift_of(one.astype(float), other.astype(float)) == 0
    assert snr_db(decoded, pcm) > SNR_DB
    if channels == 2:
        assert snr_db(decoded[0], pcm[0]) > SNR_DB / 2 > snr_db(decoded[0], pcm[1]), "channels are exchanged"


@pytest.mark.parametrize("seconds", [0.5, 120.0])
@pytest.mark.parametrize("codec", WRITTEN)
def test_short_and_long(tmp_path, codec, seconds):
    pcm = made(48_000, 1, seconds)
    _encoded.encode(tmp_path / "one", pcm, 48_000, codec)
    _encoded.encode(tmp_path / "two", pcm, 48_000, codec)
    if codec != "vorbis":  # whose files have random serial numbers
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    decoded = _encoded.decode(tmp_path / "one", 1, pcm.shape[1])
    assert decoded.shape == pcm.shape
    half = pcm.shape[1] // 2
    for part in (slice(half), slice(half, None)):
        assert shift_of(decoded[0, part].astype(float), pcm[0, part].astype(float)) == 0


@pytest.mark.parametrize(
    ("codec", "rate"), [(codec, rate) for codec in WRITTEN for rate in rates_of(codec, (44_100, 48_000))]
)
def test_length_without_being_told(tmp_path, codec, rate):
    """Near a frame's border, where MP3's tag cannot tell the end, it is longer by less than a decoder's delay."""
    longer = set()
    for frames in (
        1,
        100,
        1024 * 9 - 1,
        1024 * 9,
        1024 * 9 + 1,
        1152 * 9 - 1,
        1152 * 9 + 1,
        22_050,
        *range(9560, 9640),
    ):
        pcm = np.random.default_rng(frames).integers(-3000, 3000, (1, frames)).astype(np.int16)
        _encoded.encode(tmp_path / "a", pcm, rate, codec)
        longer.add(_encoded.decode(tmp_path / "a", 1).shape[1] - frames)
        assert _encoded.decode(tmp_path / "a", 1, frames).shape == pcm.shape
    assert longer == {0} if codec != "mp3" else (min(longer) == 0 and max(longer) <= 46)


@pytest.mark.parametrize("codec", [codec for codec in WRITTEN if codec != "vorbis"])
def test_bytes_do_not_depend_on_the_blocks(tmp_path, codec, monkeypatch):
    pcm = made(48_000, 2, 2.5)
    _encoded.encode(tmp_path / "one", pcm, 48_000, codec)
    monkeypatch.setattr(_encoded, "BLOCK_SECONDS", 0.123)
    _encoded.encode(tmp_path / "two", pcm, 48_000, codec)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_file_has_the_bit_rate_of_the_table(tmp_path):
    pcm = made(48_000, 2, 20.0)
    for codec in LOSSY:
        _encoded.encode(tmp_path / codec, pcm, 48_000, codec)
        kilobits = (tmp_path / codec).stat().st_size * 8 / 20.0 / 1000
        assert kilobits == pytest.approx(2 * _encoded.ENCODINGS[codec].kilobits, rel=0.5), codec


def test_what_is_beyond_full_scale_saturates():
    values = np.array([[1.5, 1.0, -1.0, -1.5, 0.5 / 32768, 1.5 / 32768]], np.float32)
    assert _encoded._to_int16(values).tolist() == [[32767, 32767, -32768, -32768, 0, 2]]


def test_what_cannot_be_written_says_what_to_type(tmp_path):
    pcm = np.zeros((1, 100), np.int16)
    with pytest.raises(
        UserError, match=r"found 44,100 Hz, allowed with the codec opus is 48,000 Hz.*sample_rate: 48000"
    ):
        _encoded.encode(tmp_path / "a", pcm, 44_100, "opus")
    with pytest.raises(UserError, match=r"found 96,000 Hz, .* codec mp3 .* Set sample_rate: 48000, or the codec flac"):
        _encoded.encode(tmp_path / "a", pcm, 96_000, "mp3")
    with pytest.raises(UserError, match=r"found opos, allowed are flac, .*'opus'"):
        _encoded.encode(tmp_path / "a", pcm, 48_000, "opos")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_pyav_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(_encoded, "missing", lambda codec: "there is none" if codec == "vorbis" else None)
    with pytest.raises(UserError, match="found vorbis, and there is none; allowed are flac, mp3, opus, aac"):
        _encoded.encode(tmp_path / "a", np.zeros((1, 100), np.int16), 48_000, "vorbis")


@pytest.mark.parametrize("codec", WRITTEN)
def test_a_file_that_ends_early_is_refused(tmp_path, codec):
    pcm = made(48_000, 1, 3.0)
    _encoded.encode(tmp_path / "a", pcm, 48_000, codec)
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"samples instead of 144000|Invalid data"):
        _encoded.decode(tmp_path / "a", 1, pcm.shape[1])


def test_another_number_of_channels_is_refused(tmp_path):
    _encoded.encode(tmp_path / "a.flac", np.zeros((2, 100), np.int16), 16_000, "flac")
    with pytest.raises(ValueError, match="2 channels instead of 1"):
        _encoded.decode(tmp_path / "a.flac", 1)
    (tmp_path / "b.flac").write_bytes(b"no audio")
    with pytest.raises(ValueError, match=r"b\.flac"):
        _encoded.decode(tmp_path / "b.flac", 1)
