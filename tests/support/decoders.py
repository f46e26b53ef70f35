"""Measures how each decoder reads pieces of each codec: docs/decoders.json and the tables of docs/decoders.md.

To renew them (half an hour; times are those of this machine), type:

    python -m tests.support.decoders

`--codecs` and `--decoders` measure some alone, and keep what the JSON file has of the others. `--times` measures the
times alone, `--tables` nothing: it writes the page's table again.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import av
import numpy as np
import soundfile

from scripts.common.files import PROJECT, whole_file
from scripts.loaders._plain.pieces import reader_of
from tests.support.encoded import CODECS, encode, sound, whole

PAGE, RESULTS = PROJECT / "docs" / "decoders.md", PROJECT / "docs" / "decoders.json"
SEEKING = ("soundfile", "soundfile_aligned", "pyav", "torchcodec", "torchcodec_aligned", "torchcodec_wav")
SEEKING += ("spdl", "spdl_aligned")
WHOLE = ("soundfile_whole", "pyav_whole", "torchcodec_whole", "torchaudio", "spdl_whole")
FORMS = [(44_100, 2), (44_100, 1), (48_000, 2), (48_000, 1), (16_000, 1)]
LOUD = 1.0  # 1/32768: a piece that differs by more is counted as wrong
FRAMES = 8_000  # of a piece, where values are compared
TILE = 10_007
WITHIN = 2_048  # samples by which a shift is searched
SLOW = {"torchcodec": 50, "torchcodec_aligned": 50}  # random starts, where others have 1,000
TIMED_SECONDS, TIMED = 3, 5


def shift_of(piece: np.ndarray, truth: np.ndarray, start: int) -> int:
    """Return by how many samples a piece comes early (above 0) or late, by the peak of the cross-correlation."""
    frames = len(piece)
    near = np.zeros(frames + 2 * WITHIN, np.float64)
    low, high = max(0, start - WITHIN), min(len(truth), start + frames + WITHIN)
    near[low - start + WITHIN : high - start + WITHIN] = truth[low:high]
    size = 2 * len(near)
    spectrum = np.fft.rfft(near, size) * np.conj(np.fft.rfft(piece.astype(np.float64), size))
    return WITHIN - int(np.argmax(np.fft.irfft(spectrum)[: 2 * WITHIN + 1]))


def slice_of(truth: np.ndarray, start: int, frames: int) -> np.ndarray:
    """Return the samples from `start` on, zeros before the recording and behind its end."""
    piece = np.zeros((len(truth), frames), np.float32)
    begin, stop = max(0, start), max(0, min(truth.shape[1], start + frames))
    if begin < stop:
        piece[:, begin - start : stop - start] = truth[:, begin:stop]
    return piece


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference, in 1/32768."""
    return float(np.abs(one - other).max(initial=0)) * 32_768


def compared(decoder: str, path: Path, truth: np.ndarray, starts: list[int], frames: int) -> dict[str, Any]:
    """Return what is wrong with the pieces at `starts`."""
    read, row = reader_of(decoder), np.empty((len(truth), frames), np.float32)
    shifts, errors, right, wrong = Counter[int](), Counter[str](), [], []
    for start in starts:
        row[:] = np.nan
        try:
            read(str(path), start, row)
        except Exception as error:  # what a library raises is what is measured
            errors[f"{type(error).__name__}: {error}"[:80]] += 1
            continue
        apart = difference(row, slice_of(truth, start, frames))
        if apart <= LOUD:
            right.append(apart)
            continue
        silent = start >= truth.shape[1]
        shift = 0 if silent else shift_of(row[0], truth[0], start)
        shifts[shift] += 1
        wrong.append([apart, difference(row, slice_of(truth, start - shift, frames))])
    return {
        "starts": len(starts),
        "right": len(right),
        "errors": dict(errors),
        "largest_of_right": max(right, default=None),
        "wrong": len(wrong),
        "largest_of_wrong": max((one for one, _ in wrong), default=None),
        "largest_of_wrong_shifted": max((one for _, one in wrong), default=None),
        "wrong_shifts": dict(shifts.most_common(4)),
    }


def tiled(decoder: str, path: Path, truth: np.ndarray) -> float | str:
    """Return by how much pieces, put together, differ from the whole, in 1/32768; the error, if there is one."""
    read, parts = reader_of(decoder), []
    try:
        for start in range(0, truth.shape[1], TILE):
            parts.append(np.empty((len(truth), TILE), np.float32))
            read(str(path), start, parts[-1])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:80]
    return difference(np.concatenate(parts, axis=1)[:, : truth.shape[1]], truth)


def timed(decoder: str, path: Path, truth: np.ndarray, rate: int, times: int = TIMED) -> float | None:
    """Return the median CPU time of a piece of 3 s out of the recording, in ms of all threads; None where it fails.

    CPU time, since loaders keep all cores busy: it is what a piece costs them, and other programs do not change it.
    """
    read, row, spans = reader_of(decoder), np.empty((len(truth), TIMED_SECONDS * rate), np.float32), []
    for start in np.linspace(0.05, 0.95, times) * truth.shape[1]:
        begin = time.process_time()
        try:
            read(str(path), int(start), row)
        except Exception:
            return None
        spans.append(1000 * (time.process_time() - begin))
    return statistics.median(spans)


def decoders_of(codec: str, among: Sequence[str]) -> list[str]:
    """Return the decoders that can read a codec here."""
    can = [name for name in among if codec == "wav" or name != "torchcodec_wav"]
    can = [name for name in can if not (codec.startswith("aac") and name.startswith("soundfile"))]
    if "torchcodec_wav" in can:
        import torchcodec.decoders

        if not hasattr(torchcodec.decoders, "WavDecoder"):
            can.remove("torchcodec_wav")
    return can


def measured(folder: Path, codecs: Sequence[str], decoders: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of all codecs, decoders, rates, channels and lengths."""
    rows = []
    seeking, cutting = ([name for name in among if name in decoders] for among in (SEEKING, WHOLE))
    random = np.random.default_rng(0)
    for codec in codecs:
        ending = CODECS[codec][0]
        for rate, channels in FORMS:
            if codec == "opus" and rate != 48_000:
                continue
            main = channels == 2 and rate == (48_000 if codec == "opus" else 44_100)
            for seconds in (5, 60, 600):
                if seconds == 600 and not main:
                    continue
                path = encode(folder / f"a.{ending}", sound(seconds, rate, channels), rate, codec)
                truth = whole(path)
                frames = truth.shape[1]
                count = {5: 10, 60: 1_000 if main else 20, 600: 4}[seconds]
                drawn = [int(start) for start in random.integers(0, frames, count)]
                edges = [0, 1, 7, 1_000, 2_000, frames - FRAMES, frames - 1_000, frames - 1]
                edges = edges[4:-1] if seconds == 600 else edges
                beyond = [frames, frames + 1_000, frames + 100_000]
                for decoder in decoders_of(codec, seeking):
                    starts = [*edges, *drawn[: SLOW.get(decoder, count)]]
                    rows.append(
                        {
                            "codec": codec,
                            "decoder": decoder,
                            "rate": rate,
                            "channels": channels,
                            "seconds": seconds,
                            **compared(decoder, path, truth, starts, FRAMES),
                            "beyond": compared(decoder, path, truth, beyond, FRAMES),
                            "tiles": tiled(decoder, path, truth) if seconds == 5 else None,
                            "ms": timed(decoder, path, truth, rate) if seconds == 600 else None,
                        }
                    )
                for decoder in decoders_of(codec, cutting):
                    starts = [0] if seconds == 600 else [0, 1_000, frames - FRAMES]
                    rows.append(
                        {
                            "codec": codec,
                            "decoder": decoder,
                            "rate": rate,
                            "channels": channels,
                            "seconds": seconds,
                            **compared(decoder, path, truth, starts, frames),
                            "ms": timed(decoder, path, truth, rate, 1) if seconds == 600 else None,
                        }
                    )
                print(codec, rate, channels, seconds, flush=True)
    return rows


def retimed(rows: list[dict[str, Any]], folder: Path, decoders: Sequence[str]) -> None:
    """Measure the times of the rows again."""
    made: dict[str, tuple[Path, np.ndarray]] = {}
    for row in rows:
        if row["ms"] is not None and row["decoder"] in decoders:
            codec, rate = row["codec"], row["rate"]
            if codec not in made:
                pcm = sound(row["seconds"], rate, row["channels"])
                path = encode(folder / f"{codec}.{CODECS[codec][0]}", pcm, rate, codec)
                made[codec] = path, whole(path)
            row["ms"] = timed(row["decoder"], *made[codec], rate, TIMED if row["decoder"] in SEEKING else 1)
            print(codec, row["decoder"], round(row["ms"] or 0, 2), flush=True)


def versions() -> dict[str, str]:
    """Return the versions that were measured."""
    import torchcodec._core.ops as ops

    named = {name: version(name) for name in ("av", "soundfile", "spdl_io", "torch", "torchaudio", "torchcodec")}
    of_pyav = ".".join(map(str, av.library_versions["libavcodec"]))
    return {
        **named,
        "libsndfile": soundfile.__libsndfile_version__,
        "libavcodec of PyAV": of_pyav,
        "FFmpeg of torchcodec": str(ops.ffmpeg_major_version),
        "machine": platform.machine(),
    }


def number(value: float | None) -> str:
    """Return a difference or a time with two digits."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def merged(rows: list[dict[str, Any]], codec: str, decoder: str) -> dict[str, Any]:
    """Return what all recordings of a codec say of a decoder."""
    mine = [row for row in rows if (row["codec"], row["decoder"]) == (codec, decoder)]
    shifts: Counter[str] = Counter()
    for row in mine:
        shifts.update({str(shift): times for shift, times in row["wrong_shifts"].items()})
    largest = {
        name: max((row[name] for row in mine if row[name] is not None), default=None)
        for name in ("largest_of_right", "largest_of_wrong", "ms")
    }
    tiles = [row.get("tiles") for row in mine if row.get("tiles") is not None]
    return {
        **largest,
        **{name: sum(row[name] for row in mine) for name in ("starts", "right", "wrong")},
        "failed": sum(sum(row["errors"].values()) for row in mine),
        "shifts": dict(shifts.most_common(3)),
        "tiles": "error" if any(isinstance(one, str) for one in tiles) else max(tiles, default=None),
        "beyond": any(row.get("beyond", {}).get("errors") for row in mine),
    }


def tables(rows: list[dict[str, Any]]) -> str:
    """Return the tables of the page."""
    heads = ("codec", "decoder", "pieces", "right", "largest difference", "wrong by", "shift of the wrong", "tiles")
    lines = [f"| {' | '.join(heads)} | 3 s of 600 s, CPU ms |"]
    lines += ["|---|---|---:|---:|---:|---:|---|---:|---:|"]
    for codec in CODECS:
        for decoder in dict.fromkeys(row["decoder"] for row in rows if row["codec"] == codec):
            one = merged(rows, codec, decoder)
            failed = f", {one['failed']} errors" if one["failed"] else ""
            shifts = ", ".join(f"{shift} ({times})" for shift, times in one["shifts"].items()) or "-"
            tiles = one["tiles"] if isinstance(one["tiles"], str) else number(one["tiles"])
            lines.append(
                f"| {codec} | `{decoder}` | {one['starts']:,} | {one['right']:,}{failed} | "
                f"{number(one['largest_of_right'])} | {number(one['largest_of_wrong'])} | {shifts} | {tiles} | "
                f"{number(one['ms'])} |"
            )
    return "\n".join(lines) + "\n"


def renew_page(results: dict[str, Any]) -> None:
    """Write the tables into the page."""
    begin, end = "<!-- decoders -->\n", "<!-- end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    with whole_file(PAGE) as file:
        file.write(f"{before}{begin}{tables(results['rows'])}{rest[rest.index(end) :]}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tables", action="store_true", help="renew the page alone")
    arguments.add_argument("--times", action="store_true", help="measure the times alone")
    arguments.add_argument("--to", type=Path, default=RESULTS, help="JSON file")
    arguments.add_argument("--decoders", nargs="+", default=SEEKING + WHOLE, choices=SEEKING + WHOLE)
    arguments.add_argument("--codecs", nargs="+", default=list(CODECS), choices=CODECS)
    chosen = arguments.parse_args()
    if not chosen.tables:
        rows = json.loads(chosen.to.read_text(encoding="utf-8"))["rows"] if chosen.to.exists() else []
        with tempfile.TemporaryDirectory() as folder:
            if chosen.times:
                retimed(rows, Path(folder), chosen.decoders)
            else:
                among = chosen.codecs, chosen.decoders
                rows = [row for row in rows if row["codec"] not in among[0] or row["decoder"] not in among[1]]
                rows += measured(Path(folder), *among)
        with whole_file(chosen.to) as file:
            file.write(json.dumps({"versions": versions(), "rows": rows}, indent=1) + "\n")
    if chosen.to == RESULTS:
        renew_page(json.loads(RESULTS.read_text(encoding="utf-8")))
