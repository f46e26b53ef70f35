"""Recordings made on this machine, from half a second to 20 minutes: slow chirps and clicks that tell the place."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.ledger import LedgerRow, SourceRequest

VERSION = 1  # in the path of what is made, so that no stale file is met
KINDS = ("audio",)
OPTIONS = {
    "recordings": {
        **{"type": "integer", "minimum": 1, "default": 96},
        "description": "How many recordings to make: 96 last about an hour and a half in all.",
    },
    "seed": {"type": "integer", "minimum": 0, "default": 7, "description": "Another seed makes another data set."},
    "shortest": {
        **{"type": "number", "minimum": 0.1, "maximum": 36_000, "default": 0.5},
        "description": "Seconds of the shortest recording, which is the first.",
    },
    "longest": {
        **{"type": "number", "minimum": 0.1, "maximum": 36_000, "default": 1200},
        "description": "Seconds of the longest recording, which is the second.",
    },
}

RECORDINGS_PER_SHARD = 12
MOST_SHARDS = 1000
GOLDEN = (math.sqrt(5) - 1) / 2  # whose multiples fill the unit interval evenly, however many there are


def check(options: Mapping[str, Any]) -> None:
    """Raise UserError where the shortest recording is longer than the longest."""
    shortest, longest = options["shortest"], options["longest"]
    if shortest > longest:
        raise UserError(
            f"shortest: found {shortest:g} s, allowed is at most longest, {longest:g} s. Lower it, or raise longest."
        )


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards: of 12 recordings each, or larger so that there are never more than 1,000."""
    return min(MOST_SHARDS, -(-options["recordings"] // RECORDINGS_PER_SHARD))


def expected(options: Mapping[str, Any]) -> int:
    """Return how many recordings there will be."""
    return options["recordings"]


def expected_seconds(options: Mapping[str, Any]) -> float:
    """Return how many seconds all recordings last together."""
    return math.fsum(seconds_of(options, number) for number in range(options["recordings"]))


def seconds_of(options: Mapping[str, Any], number: int) -> float:
    """Return how long recording `number` lasts, in seconds with two decimals; depends on no other recording.

    The logarithm of the length lies between those of the shortest and the longest, the more often the shorter: its
    density falls linearly to 0 at the longest. Were it uniform, 96 recordings would last four hours instead of one and
    a half. The first is the shortest and the second the longest, so that a small set has both.
    """
    shortest, longest = options["shortest"], options["longest"]
    if number < 2:
        return round((shortest, longest)[number], 2)
    even = ((number + 0.5) * GOLDEN + options["seed"] * math.sqrt(2)) % 1
    return round(shortest * (longest / shortest) ** (1 - math.sqrt(1 - even)), 2)


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield this shard's recordings in order of their number; one that the store already holds is not made again.

    None is cut: an item of a kind with a fixed length is the recording's begin.
    """
    from scripts.sources._synthetic_recordings import draw_recipe, write

    recordings, seed, shortest, longest = (request.options[name] for name in OPTIONS)
    folder = f"recordings-{VERSION}-{seed}-{shortest:.10g}-{longest:.10g}"
    first, end = (recordings * shard // request.shards for shard in (request.shard, request.shard + 1))
    for number in range(first, end):
        recipe = draw_recipe(seed, number, seconds_of(request.options, number))
        recording_id = f"synthetic-{seed}-{number:06d}"
        # A thousand files a folder: some file systems grow slow with millions of names in one.
        path = Path(folder, f"{number // 1000:04d}", f"{recording_id}.{recipe.ending}")
        if not (request.store / path).exists():
            write(request.store / path, recipe)
        yield LedgerRow(recording_id, "fetched", path=path.as_posix(), labels=list(recipe.labels))
