"""Images made on this machine: as rough as photographs, in several sizes and qualities, some of them odd."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.common.ledger import LedgerRow, SourceRequest

VERSION = 1  # in the path of what is made, so that no stale file is met
KINDS = ("image",)
OPTIONS = {
    "images": {"type": "integer", "minimum": 1, "default": 512, "description": "How many images to make."},
    "side": {
        **{"type": "integer", "minimum": 16, "maximum": 8192, "default": 320},
        "description": "Pixels of their shorter side, on average; they are 0.75 to 1.25 times as large.",
    },
    "seed": {"type": "integer", "minimum": 0, "default": 7, "description": "Another seed makes another data set."},
}

IMAGES_PER_SHARD = 256
MOST_SHARDS = 1000


def check(options: Mapping[str, Any]) -> None:
    """Do nothing: the schema already holds all that can be wrong."""


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards: of 256 images each, or larger so that there are never more than 1,000."""
    return min(MOST_SHARDS, -(-options["images"] // IMAGES_PER_SHARD))


def expected(options: Mapping[str, Any]) -> int:
    """Return how many images there will be."""
    return options["images"]


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield this shard's images in order of their number; one that the store already holds is not made again."""
    from scripts.sources._synthetic_images import draw_recipe, encode

    images, side, seed = (request.options[name] for name in ("images", "side", "seed"))
    first, end = (images * shard // request.shards for shard in (request.shard, request.shard + 1))
    for number in range(first, end):
        recipe, rng = draw_recipe(seed, number, side)
        image_id = f"synthetic-{seed}-{number:06d}"
        # A thousand files a folder: some file systems grow slow with millions of names in one.
        path = Path(f"images-{VERSION}-{seed}-{side}", f"{number // 1000:04d}", f"{image_id}.{recipe.ending}")
        if not (request.store / path).exists():
            encode(request.store / path, recipe, rng)
        yield LedgerRow(image_id, "fetched", path=path.as_posix(), labels=[recipe.label])
