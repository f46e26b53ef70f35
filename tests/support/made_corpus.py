"""Makes a small corpus folder as the workflow would, without running it: for the tests of what comes after."""

import csv
import json
import wave
from pathlib import Path

import numpy as np
import xxhash

from scripts.common.corpus import MANIFEST_COLUMNS, Corpus, clip_hash, pad_or_cut
from scripts.common.sample import audio

SAMPLE_RATE = 16_000
ODD_IDS = ("-dash first", "com,ma", 'quo"te', "ümlaut-Ω", "sla/sh", "#hash")


def make_corpus(
    root: Path,
    clips: int = 24,
    seconds: float = 0.05,
    classes: int = 5,
    validation: int | None = None,
    seed: int = 0,
) -> Corpus:
    """Write a corpus of `clips` clips into the new folder `root` and return it.

    The clips are noise of 0.3 to 1.2 times the fixed length `seconds`, among them one that holds the extremes of
    int16, with one to three classes each, not in ascending order. The last `validation` clips (a quarter, unless
    told) are of the split `validation`. The first ids hold characters that trip naive readers.
    """
    random = np.random.default_rng(seed)
    samples = round(seconds * SAMPLE_RATE)
    validation = clips // 4 if validation is None else validation
    ids = sorted([*ODD_IDS, *(f"clip-{number:07}" for number in range(clips))][:clips])
    folder = root / "shards" / "0000"
    folder.mkdir(parents=True)
    with open(root / "manifest.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(MANIFEST_COLUMNS)
        for index, name in enumerate(ids):
            pcm = random.integers(-32768, 32768, size=int(samples * random.uniform(0.3, 1.2)), dtype=np.int16)
            pcm[:2] = -32768, 32767
            path = folder / f"{index:06}.wav"
            _write_wav(path, pcm)
            chosen = random.permutation(classes)[: random.integers(1, min(3, classes) + 1)]
            split = "train" if index < clips - validation else "validation"
            hashed = clip_hash(pad_or_cut(pcm, samples))
            row = [index, name, split, " ".join(map(str, chosen)), len(pcm), hashed, path.relative_to(root)]
            table.writerow(row)
    with open(root / "classes.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("index", "name"), *((number, f"class {number}") for number in range(classes))])
    (root / "rejected.csv").write_text("id,reason\n", encoding="utf-8")
    info = {
        "sample_rate": SAMPLE_RATE,
        "seconds": seconds,
        "samples": samples,
        "sample": audio(samples).as_json(),
        "classes": classes,
        "clips": {"train": clips - validation, "validation": validation},
        "rejected": 0,
        "unavailable": 0,
        "failed": 0,
        "ids_hash": xxhash.xxh3_64_hexdigest("\n".join(ids).encode()),
        "audio_seconds": clips * seconds,
    }
    (root / "corpus.json").write_text(json.dumps(info), encoding="utf-8")
    return Corpus(root)


def _write_wav(path: Path, pcm: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(pcm.astype("<i2").tobytes())
