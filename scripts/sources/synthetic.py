"""Audio made on this machine: tones, sweeps, noise, pulses and speech-like bursts in five codecs; needs no network."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.common.ledger import LedgerRow, SourceRequest

VERSION = 3  # in the path of what is made, so that no stale file is met
KINDS = ("audio",)
OPTIONS = {
    "clips": {"type": "integer", "minimum": 1, "default": 512, "description": "How many clips to make."},
    "seed": {"type": "integer", "minimum": 0, "default": 7, "description": "Another seed makes another data set."},
    "varying": {
        "type": "boolean",
        "default": False,
        "description": "Clips of 1.5 to 10 s, most of them short, as in many collections; else all fill an item.",
    },
}

CLIPS_PER_SHARD = 128
MOST_SHARDS = 1000


def check(options: Mapping[str, Any]) -> None:
    """Do nothing: the schema already holds all that can be wrong."""


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards: of 128 clips each, or larger so that there are never more than 1,000."""
    return min(MOST_SHARDS, -(-options["clips"] // CLIPS_PER_SHARD))


def expected(options: Mapping[str, Any]) -> int:
    """Return how many clips there will be."""
    return options["clips"]


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield this shard's clips in order of their number; a clip that the store already holds is not made again."""
    from scripts.sources._synthetic import draw_recipe, encode, synthesize

    clips, seed, varying = (request.options[name] for name in OPTIONS)
    seconds = None if varying else request.clip_seconds
    first, end = (clips * shard // request.shards for shard in (request.shard, request.shard + 1))
    for number in range(first, end):
        recipe, rng = draw_recipe(seed, number, seconds)
        clip_id = f"synthetic-{seed}-{number:06d}"
        # A thousand files a folder: some file systems grow slow with millions of names in one.
        made = f"synthetic-{VERSION}-{seed}-{'varying' if varying else f'{seconds:g}s'}"
        path = Path(made, f"{number // 1000:04d}", f"{clip_id}.{recipe.ending}")
        if not (request.store / path).exists():
            encode(request.store / path, recipe, synthesize(recipe, rng))
        yield LedgerRow(clip_id, "fetched", path=path.as_posix(), labels=list(recipe.labels))
