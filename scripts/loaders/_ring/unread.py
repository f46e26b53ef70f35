"""How a ring leaves out reading, to see what it costs."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scripts.common.request import LoaderRequest, batches_of
from scripts.machine import gpu


def without_read(_read: Callable[..., Any], _request: LoaderRequest) -> Callable[..., Iterator[Any]]:
    """Return the replacement of `_plain.ring.read`."""
    return unread


def without_pieces(_read: Callable[..., Any], _request: LoaderRequest) -> Callable[..., Iterator[Any]]:
    """Return the replacement of `_plain.ring_crops.read`."""
    return lambda reader, pieces, following: (batch for (batch,) in unread(reader, (), pieces, following))


def unread(reader: Any, labels: Iterable[Any], order: Any, _following: Any) -> Iterator[Any]:
    """Yield the same items again and again, which are sent to the device as those are that were read."""
    import torch

    on_device = reader.device != "cpu"
    converted = reader.scale is not None
    dtype = "float32" if converted and not on_device else str(reader.dtype)
    kept = torch.zeros((reader.batch_size, *reader.shape[1:]), dtype=getattr(torch, dtype))
    copies = gpu.CopyStream(reader.device) if on_device and reader.pin else None
    kept = gpu.pinned(kept) if copies else kept
    for part in batches_of(torch.from_numpy(order), reader.batch_size):
        batch = dict(enumerate([kept[: len(part)], *(rows[part] for rows in labels)]))
        batch = copies.arrived(copies.send(batch)) if copies else gpu.all_moved(batch, reader.device, False)
        data, *others = batch.values()
        yield data.float().mul_(reader.scale) if converted and on_device else data, *others
