"""Makes a small corpus folder as the workflow would, without running it: for the tests of what comes after."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from PIL import Image

from scripts.common import plugins
from scripts.common.corpus import MANIFEST_COLUMNS, Corpus, item_hash
from scripts.common.sample import Sample
from scripts.kinds import audio

SAMPLE_RATE = 16_000
ODD_IDS = ("-dash first", "com,ma", 'quo"te', "ümlaut-Ω", "sla/sh", "#hash")


def make_corpus(
    root: Path,
    items: int = 24,
    seconds: float = 0.05,
    classes: int = 5,
    validation: int | None = None,
    seed: int = 0,
    kind: Any = None,
    content: Callable[[Sample, np.random.Generator], np.ndarray] | None = None,
) -> Corpus:
    """Write a corpus of `items` items into the new folder `root` and return it.

    The items are noise of 0.3 to 1.2 times the fixed length `seconds`, among them one that holds the extremes of
    int16, with one to three classes each, not in ascending order. The last `validation` items (a quarter, unless
    told) are of the split `validation`. The first ids hold characters that trip naive readers. `kind`: a Kind of other
    data, whose items are noise too, unless `content` makes them.
    """
    random = np.random.default_rng(seed)
    kind = kind or audio.Kind(SAMPLE_RATE, seconds, 0.0)
    sample = kind.sample
    module = plugins.load("kinds", sample.kind)
    validation = items // 4 if validation is None else validation
    ids = sorted([*ODD_IDS, *(f"item-{number:07}" for number in range(items))][:items])
    folder = root / "shards" / "0000"
    folder.mkdir(parents=True)
    with open(root / "manifest.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(MANIFEST_COLUMNS)
        for index, name in enumerate(ids):
            path = folder / f"{index:06}.{sample.ending}"
            stored = kind.write(path, (content or made_item)(sample, random))
            chosen = random.permutation(classes)[: random.integers(1, min(3, classes) + 1)]
            split = "train" if index < items - validation else "validation"
            hashed = item_hash(module.fixed(stored, sample))
            numbers = " ".join(map(str, chosen))
            row = [index, name, split, numbers, stored.shape[-1], hashed, path.relative_to(root)]
            table.writerow(row)
    with open(root / "classes.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("index", "name"), *((number, f"class {number}") for number in range(classes))])
    (root / "rejected.csv").write_text("id,reason\n", encoding="utf-8")
    info = {
        **kind.about(0),
        "sample": sample.as_json(),
        "classes": classes,
        "items": {"train": items - validation, "validation": validation},
        "rejected": 0,
        "unavailable": 0,
        "failed": 0,
        "ids_hash": xxhash.xxh3_64_hexdigest("\n".join(ids).encode()),
    }
    (root / "corpus.json").write_text(json.dumps(info), encoding="utf-8")
    return Corpus(root)


def made_item(sample: Sample, random: np.random.Generator) -> np.ndarray:
    """Return one item as a Kind writes it; of audio 0.3 to 1.2 times the fixed length, with the extremes of int16.

    Of recordings 0.5 to 6 times the length of a piece.
    """
    if sample.kind == "audio":
        samples = sample.shape[-1]
        pcm = random.integers(-32768, 32768, size=int(samples * random.uniform(0.3, 1.2)), dtype=np.int16)
        pcm[:2] = -32768, 32767
        return pcm
    if sample.kind == "crops":  # of 0.5 to 6 times the piece
        channels, samples = sample.shape
        pcm = random.integers(-32768, 32768, (channels, int(samples * random.uniform(0.5, 6))), dtype=np.int16)
        pcm[:, :2] = -32768, 32767
        return pcm
    if sample.kind == "image":  # smooth, as photographs are: of hard edges between colours decoders differ
        channels, height, width = sample.shape
        coarse = random.integers(64, 192, (4, 4, channels), dtype=np.uint8)
        planes = [Image.fromarray(coarse[..., one]).resize((width, height), 2) for one in range(channels)]
        return np.stack([np.asarray(plane) for plane in planes], axis=2)
    if np.dtype(sample.dtype).kind == "f":
        return random.standard_normal(sample.shape).astype(sample.dtype)
    limits = np.iinfo(sample.dtype)
    return random.integers(limits.min, limits.max, sample.shape, dtype=sample.dtype, endpoint=True)
