"""What loaders share of which decoding is a part, and an iterable data set whose reading is left out."""

from collections.abc import Iterator
from typing import Any

from scripts.common.request import LoaderRequest

STAGES = ("read", "transfer", "decode")


def first_again(items: Iterator[Any], request: LoaderRequest) -> Iterator[Any]:
    """Yield this process's first item as often as its share has items: reading is left out."""
    share = -(-request.items // (request.world * max(1, request.workers)))
    for item in items:
        yield from (item for _ in range(share))
        return
