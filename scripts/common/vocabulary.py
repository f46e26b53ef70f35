"""Settings of what is built on torch's DataLoader. Apart from it, since the plan asks for them where torch is not."""

from collections.abc import Mapping
from typing import Any

PROTOCOL = 2  # raise it when a change to the protocol of a run makes older runs incomparable
SPLIT, VALIDATION = "train", "validation"
TRAINING = ("train", "lightning")
COLD = ("cold", "limited")  # caches whose epochs read from the device
SETTINGS = ("workers", "prefetch", "pin_memory")
STAGES = ("read", "transfer")
NOT_TRIED = "the other runs of this file were not tried"  # in the reason of a broken file of the user's own


def simplify(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those that a DataLoader ignores: without workers nothing is prefetched."""
    return {**settings, "prefetch": settings["prefetch"] if settings["workers"] else None}
