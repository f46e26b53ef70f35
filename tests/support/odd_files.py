"""Odd files that users have: how each is made, what feedrate does with it, and the table of docs/odd_files.md.

To renew the table, type:

    python -m tests.support.odd_files
"""

import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from scripts.common.files import PROJECT, whole_file

PAGE = PROJECT / "docs" / "odd_files.md"
BEGIN, END = "<!-- odd files -->\n", "<!-- end -->"
RATE = 44_100
SURROUND = "FL+FR+FC+LFE+BL+BR+SL+SR"  # 7.1


class Odd(NamedTuple):
    """An odd file of `seconds`, cut into items of 10 s."""

    name: str
    given: str  # in the table
    make: Callable[[Path], object]  # writes the file
    taken: tuple[int, ...] = (0, 10, 20)  # seconds at which the items begin
    left_out: tuple[tuple[int, str], ...] = ()  # second, and kind of the reason
    remarks: tuple[str, ...] = ()  # kinds
    said: str = ""  # in the table besides


def ffmpeg(*words: object, to: Path | None = None) -> None:
    """Run FFmpeg; `to`: a file that gets what it writes into a pipe."""
    command = ["ffmpeg", "-v", "error", "-y", "-nostdin", *map(str, words)]
    done = subprocess.run(command if to is None else [*command, "-"], check=True, capture_output=True)
    if to is not None:
        to.write_bytes(done.stdout)


def noise(folder: Path, seconds: float = 25, rate: int = RATE, channels: int = 1) -> Path:
    """Write a WAV file of noise and return its path."""
    path = folder / f"noise-{seconds}-{rate}-{channels}.wav"
    values = 0.2 * np.random.default_rng(channels).standard_normal((round(seconds * rate), channels))
    soundfile.write(path, values.astype(np.float32), rate, subtype="PCM_16")
    return path


def encoded(*words: str, seconds: float = 25, piped: bool = False) -> Callable[[Path], None]:
    """Return what encodes noise, by FFmpeg's `words`."""

    def make(path: Path) -> None:
        source = noise(path.parent, seconds)
        ffmpeg("-i", source, *words, *([] if piped else [path]), to=path if piped else None)
        source.unlink()

    return make


def shortened(make: Callable[[Path], object], share: float = 0.6, by: int = 0) -> Callable[[Path], None]:
    """Return what makes a file and cuts its end: to a share of its bytes, or `by` some."""

    def cut(path: Path) -> None:
        make(path)
        content = path.read_bytes()
        path.write_bytes(content[: -by if by else int(share * len(content))])

    return cut


def holed(make: Callable[[Path], object], share: float = 0.6) -> Callable[[Path], None]:
    """Return what makes a file and puts 300 zero bytes into it."""

    def hole(path: Path) -> None:
        make(path)
        content = bytearray(path.read_bytes())
        place = int(share * len(content))
        content[place : place + 300] = bytes(300)
        path.write_bytes(content)

    return hole


def joined(make: Callable[[Path], object], second: Callable[[Path], object] | None = None) -> Callable[[Path], None]:
    """Return what makes two files and joins them, as `cat` does."""

    def join(path: Path) -> None:
        make(path)
        first = path.read_bytes()
        (second or make)(path)
        path.write_bytes(first + path.read_bytes())

    return join


def wav_of(channels: int, mask: int, frames: int = 25 * 8000, rate: int = 8000) -> Callable[[Path], None]:
    """Return what writes a WAV file of the extensible kind: noise of its own in each channel."""

    def make(path: Path) -> None:
        values = np.random.default_rng(0).integers(-9000, 9000, (frames, channels)).astype("<i2").tobytes()
        about = struct.pack("<HHIIHH", 0xFFFE, channels, rate, 2 * rate * channels, 2 * channels, 16)
        about += struct.pack("<HHI", 22, 16, mask) + bytes.fromhex("0100000000001000800000aa00389b71")
        chunks = b"WAVEfmt " + struct.pack("<I", len(about)) + about + b"data" + struct.pack("<I", len(values)) + values
        path.write_bytes(b"RIFF" + struct.pack("<I", len(chunks)) + chunks)

    return make


def sound(values: np.ndarray, subtype: str = "PCM_16") -> Callable[[Path], None]:
    """Return what writes float values, (frames,) or (frames, channels)."""
    return lambda path: soundfile.write(path, values, RATE, subtype=subtype)


def with_cover(path: Path) -> None:
    """Write FLAC with a picture."""
    source = noise(path.parent)
    picture = ["-f", "lavfi", "-i", "color=red:s=64x64:d=1", "-frames:v", "1"]
    words = ["-map", "0", "-map", "1", "-c:a", "flac", "-c:v", "mjpeg", "-disposition:v", "attached_pic"]
    ffmpeg("-i", source, *picture, *words, path)
    source.unlink()


def live_ogg(path: Path) -> None:
    """Write Ogg whose last page is whole, and does not say that it is the last."""
    encoded()(path)
    content = path.read_bytes()
    path.write_bytes(content[: content.rfind(b"OggS\0\4")])


def with_nan(path: Path) -> None:
    """Write floats of which one is no number."""
    values = 0.2 * np.random.default_rng(0).standard_normal(25 * RATE).astype(np.float32)
    values[15 * RATE] = np.nan
    sound(values, "FLOAT")(path)


WAVE = 0.3 * np.sin(2 * np.pi * 440 * np.arange(25 * RATE) / RATE)
XING, BARE = encoded("-b:a", "128k"), encoded("-b:a", "128k", "-write_xing", "0")
CUT = ((10, "truncated"),)
FAULT = ((10, "decoding failed"),)
ODD = (
    Odd("pipe.flac", "FLAC out of a pipe: its header has no length", encoded("-f", "flac", piped=True)),
    Odd("pipe.wav", "WAV out of a pipe: its header says 4 GB", encoded("-f", "wav", piped=True)),
    Odd("cover.flac", "FLAC with a cover picture", with_cover),
    Odd("wide.wav", "WAV of 24 bits, WAVE_FORMAT_EXTENSIBLE", encoded("-c:a", "pcm_s24le")),
    Odd("long.wav", "RF64, the WAV above 4 GB", encoded("-rf64", "always")),
    Odd("a.m4a", "AAC in MP4", encoded("-c:a", "aac"), said="the encoder's delay is left out"),
    Odd("a.aac", "bare AAC (ADTS)", encoded("-c:a", "aac"), said="begins with the encoder's delay, 1,024 samples"),
    Odd("bare.mp3", "MP3 without a Xing tag", BARE, said="begins with the encoder's delay, 1,105 samples"),
    Odd("a.mp3", "MP3 with a Xing tag", XING, said="the encoder's delay is left out"),
    Odd(
        "anti.wav",
        "stereo whose channels cancel each other",
        sound(np.stack([WAVE, -WAVE], 1)),
        remarks=("digital silence after mixing down",) * 3,
    ),
    Odd(
        "anti.mp3",
        "the same as MP3",
        lambda path: ffmpeg("-f", "lavfi", "-i", "sine=d=25,aformat=s16", "-af", "pan=stereo|c0=c0|c1=-1*c0", path),
        remarks=("digital silence after mixing down",) * 3,
    ),
    Odd("mute.wav", "a recording of zeros", sound(0 * WAVE), remarks=("digital silence",) * 3),
    Odd("surround.wav", "8 channels with a layout, 7.1", wav_of(8, 0x63F), said="FFmpeg's downmix"),
    Odd(
        "eight.wav",
        "8 channels without a layout",
        wav_of(8, 0),
        remarks=("channels without a layout",),
        said="their mean",
    ),
    Odd(
        "sixty.wav",
        "60 channels without a layout",
        wav_of(60, 0),
        remarks=("channels without a layout",),
        said="their mean; torchcodec with `num_channels=1` fails on it",
    ),
    Odd(
        "holed.mp3",
        "MP3 with 300 zero bytes at 135 s of 150 s",
        holed(encoded("-b:a", "128k", seconds=150), 0.9),
        (*range(0, 130, 10), 140),
        ((130, "decoding failed"),),
    ),
    Odd("holed.flac", "FLAC with 300 zero bytes", holed(encoded()), (0, 20), FAULT),
    Odd("holed.ogg", "Ogg Vorbis with 300 zero bytes", holed(encoded("-c:a", "libvorbis")), (0, 20), FAULT),
    Odd("holed.opus", "Ogg Opus with 300 zero bytes", holed(encoded("-c:a", "libopus")), (0, 20), FAULT),
    Odd("holed.m4a", "MP4 with 300 zero bytes", holed(encoded("-movflags", "+faststart")), (0, 20), FAULT),
    Odd("holed.aac", "bare AAC with 300 zero bytes", holed(encoded()), (0, 20), FAULT, ("bytes without audio",)),
    Odd("holed.webm", "WebM with 300 zero bytes", holed(encoded("-c:a", "libopus")), (0, 20), FAULT),
    Odd("nan.wav", "floats of which one is NaN", with_nan, (0, 20), ((10, "samples that are no numbers"),)),
    Odd("end.flac", "FLAC cut by 2 kB", shortened(encoded(), by=2000), (0, 10), ((20, "truncated"),)),
    Odd("cut.flac", "FLAC cut short", shortened(encoded()), (0,), CUT),
    Odd("cut.wav", "WAV cut short", shortened(encoded()), (0,), CUT),
    Odd("cut.mp3", "MP3 cut short", shortened(XING), (0,), CUT),
    Odd("cut_bare.mp3", "MP3 without a Xing tag cut short", shortened(BARE), (0,), CUT),
    Odd("cut.ogg", "Ogg Vorbis cut short", shortened(encoded("-c:a", "libvorbis")), (0,), CUT),
    Odd("cut.opus", "Ogg Opus cut short", shortened(encoded("-c:a", "libopus")), (0,), CUT),
    Odd("cut.m4a", "MP4 cut short, its index in front", shortened(encoded("-movflags", "+faststart")), (0,), CUT),
    Odd("lost.m4a", "MP4 cut short, its index at the end", shortened(encoded()), (), ((0, "not decodable"),)),
    Odd("cut.webm", "WebM cut short", shortened(encoded("-c:a", "libopus")), (0,), CUT),
    Odd("cut.aac", "bare AAC cut short", shortened(encoded()), (0,), CUT),
    Odd("live.ogg", "Ogg without a last page", live_ogg, remarks=("no end",)),
    Odd("joined.mp3", "two MP3 files joined", joined(XING), (0, 10, 20, 30, 40), (), ("joined",)),
    Odd("joined.flac", "two FLAC files joined", joined(encoded()), (0, 10, 20, 30, 40), (), ("joined",)),
    Odd("joined.ogg", "two Ogg files joined", joined(encoded()), (0, 10, 20, 30, 40), (), ("joined",)),
    Odd(
        "joined.wav", "two WAV files joined", joined(encoded()), remarks=("joined",), said="FFmpeg reads the first only"
    ),
    Odd(
        "rates.mp3",
        "two MP3 files of other sample rates joined",
        joined(encoded(), encoded("-ar", "16000")),
        (0, 10),
        ((20, "sample rate changes"),),
        ("joined",),
    ),
)
BESIDE = (
    "| `.jpg`, `.m3u`, `.txt` and so on beside recordings | left out | one row in `rejected.csv`: `no recordings` |\n"
)


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| file | what becomes of it | what is said |\n|---|---|---|\n"
    for odd in ODD:
        fate = "in part" if odd.taken and odd.left_out else "taken" if odd.taken else "left out"
        words = [odd.said] if odd.said else []
        words += [f"remark: `{kind}`" for kind in dict.fromkeys(odd.remarks)]
        words += [f"left out from {second} s: `{kind}`" for second, kind in odd.left_out]
        yield f"| {odd.given} | {fate} | {'; '.join(words)} |\n"
    yield BESIDE


def page() -> str:
    """Return the page with its table renewed."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{''.join(table())}{rest[rest.index(END) :]}"


if __name__ == "__main__":
    text = page()
    with whole_file(PAGE) as file:
        file.write(text)
