"""What the loaders on the ring declare alike."""

from collections.abc import Mapping
from typing import Any

from scripts.common.request import LoaderRequest

COPIES = {"copies": {"enum": [False, True], "default": False}}
DIRECT = {"direct": {"enum": [False, True], "default": False}, **COPIES}


def lifetime(settings: Mapping[str, Any]) -> str:
    """Return how long a batch lasts: on a CPU without `copies`, until the ring is filled again."""
    return "lasting" if settings["copies"] or settings["device"] != "cpu" else "next"


def simplify(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without batches ahead where no thread makes them."""
    return {**settings, "prefetch": settings["prefetch"] if settings["workers"] else None}


def unsuited(request: LoaderRequest) -> str | None:
    """Return why the array cannot be read past the page cache, if that is asked for."""
    from scripts.loaders._ring.ring_reader import RingReader

    if not request.options["direct"]:
        return None
    try:
        RingReader(request.array, request.batch_size, threads=0, source="direct").close()
    except ValueError as error:
        return str(error).replace(str(request.data.parent), "...")
    return None


def buffered(request: LoaderRequest) -> int:
    """Return the items of the batches that are filled at once: with many requests under way more than are asked for."""
    ahead = max(request.prefetch, -(-2 * request.options["in_flight"] // request.batch_size) + 1)
    return request.batch_size * (ahead + 1)
