"""What the loaders on the ring share: the ring's batches with their labels, as the loader contract has them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from scripts.common.request import LoaderRequest, batches_of, epoch_order
from scripts.loaders._torch import SETTINGS, Batch, labels_of, rows_of  # noqa: F401
from scripts.machine import gpu

STAGES = ("read",)
OPTIONS = {
    "direct": {"enum": [False, True], "default": False},
    "copies": {"enum": [False, True], "default": False},
}

SNIPPET = """
from ring_reader import RingReader

$head
$labels
direct = $direct  # reads past the page cache: for a set larger than memory
random = np.random.default_rng($seed)
reader = RingReader(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
    data / "$item.npy",
    batch_size,
    threads=$workers,
    ahead=$prefetch,
    device=device,
    pin=$pin_memory,
    SCALE
    source="direct" if direct else "auto",
    copies=$copies,  # False: on a CPU a batch is valid until the next one is taken
)


class Loader:
    following = random.permutation(len(reader))

    def __iter__(self):
        order, self.following = self.following, random.permutation(len(reader))
        for $item, targets, hot in reader.batches(order, target, labels, then=self.following):
            yield {"$item": $item, "target": targets, "labels": hot}


$own_loader
"""
SCALED_SNIPPET = SNIPPET.replace("SCALE", "scale=1 / 32768,  # int16 becomes float32 where it is used")
SNIPPET = SNIPPET.replace("    SCALE\n", "")


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


@contextmanager
def open_ring(request: LoaderRequest, scale: float | None = None) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over the array of all items; `scale` turns what it holds into float32."""
    from scripts.loaders._ring.ring_reader import RingReader

    with RingReader(
        request.array,
        request.batch_size,
        threads=request.workers,
        ahead=request.prefetch,
        device=device_of(request),
        pin=request.pin_memory,
        scale=None if gpu.COPY in request.without else scale,
        source="direct" if request.options["direct"] else "auto",
        copies=request.options["copies"],
    ) as reader:
        yield epochs_of_ring(request, reader)


def device_of(request: LoaderRequest) -> str:
    """Return where the ring is to deliver: the device, or the CPU where the copy there is left out."""
    return "cpu" if gpu.COPY in request.without else request.device


def epochs_of_ring(
    request: LoaderRequest, reader: Any, beside: Batch | None = None
) -> Callable[[int], Iterator[Batch]]:
    """Return the epoch function over the items of a Ring, with the labels that are beside them.

    `beside`: as of `labels_of`; None: those of the split's folder.
    """
    import torch

    beside = beside or labels_of(request)

    def unread(positions: Any) -> Iterator[Any]:
        """Yield the same items again and again, which are sent to the device as those are that were read."""
        device = device_of(request)
        raw = device != "cpu" and reader.scale is not None  # it is converted there
        dtype = getattr(torch, str(reader.dtype) if raw else request.sample.dtype)
        kept = torch.zeros((request.batch_size, *request.sample.shape), dtype=dtype)
        copies = gpu.CopyStream(device) if device != "cpu" and request.pin_memory else None
        kept = gpu.pinned(kept) if copies else kept
        for part in batches_of(torch.from_numpy(positions), request.batch_size):
            batch = {"kept": kept[: len(part)], **rows_of(beside, part)}
            batch = copies.arrived(copies.send(batch)) if copies else gpu.all_moved(batch, device, False)
            rows, *others = batch.values()
            yield rows.float().mul_(reader.scale) if raw else rows, *others

    @lru_cache(maxsize=2)  # of an epoch and the one that follows it
    def order(number: int) -> Any:
        return epoch_order(request, number)

    def epoch(number: int) -> Iterator[Batch]:
        if "read" in request.without:
            parts = unread(order(number))
        else:
            parts = reader.batches(order(number), *beside.values(), then=order(number + 1))
        for batch in parts:
            yield dict(zip((request.sample.key, *beside), batch, strict=True))

    return (lambda number: gpu.uncopied(epoch(number), request)) if gpu.COPY in request.without else epoch
