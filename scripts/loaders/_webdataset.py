"""What the loaders by WebDataset say of themselves, and labels out of its shards for other readers of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import Batch

ORDER = "shards in random order, then a shuffle buffer"
SHUFFLE = {"shuffle_buffer": {"type": "integer", "minimum": 1, "default": 1000}}
OPTIONS = {"decoder": {"enum": ["wave", "soundfile"], "default": "wave"}, **SHUFFLE}


def buffered(request: LoaderRequest) -> int:
    """Return the items in the shuffle buffers of all workers: a buffer fills by reading two items for each it gives."""
    return request.options["shuffle_buffer"] * max(1, request.workers) if request.shuffle else 0


def shards_of(request: LoaderRequest) -> list[str]:
    """Return the shards of a split that is on a file system."""
    return sorted(str(path) for path in request.data.glob("*.tar"))


def labels_in(about: Sequence[Mapping[str, Any]], request: LoaderRequest) -> Batch:
    """Return target, labels and item, as the loader contract has them, of what the JSON of some items says."""
    import torch

    labels = torch.zeros(len(about), request.classes)
    for row, one in zip(labels.numpy(), about, strict=True):
        row[one["classes"]] = 1.0
    target, item = ([one["classes"][0] for one in about], [one["item"] for one in about])
    return {"target": torch.tensor(target), "labels": labels, "item": torch.tensor(item)}
