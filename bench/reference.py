"""The reference that the fastest rows race: random batches gathered from a tensor into one reused buffer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scripts.common.request import LoaderRequest, batches_of, epoch_order


@contextmanager
def gathered(request: LoaderRequest, method: str) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Yield the epoch function over items of the request in RAM, gathered into one buffer by torch or numpy."""
    import numpy as np
    import torch

    sample = request.sample
    dtype = getattr(torch, sample.dtype)
    data = torch.empty((request.items, *sample.shape), dtype=dtype).random_(0, 128)
    labels = torch.zeros((request.items, request.classes))
    small = {"target": torch.zeros(request.items, dtype=torch.int64), "labels": labels}
    small["item"] = torch.arange(request.items)
    buffer = torch.empty((request.batch_size, *sample.shape), dtype=dtype)

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        for positions in batches_of(epoch_order(request, number), request.batch_size):
            batch, where = buffer[: len(positions)], torch.from_numpy(positions)
            if method == "torch":
                torch.index_select(data, 0, where, out=batch)
            else:
                np.take(data.numpy(), positions, axis=0, out=batch.numpy(), mode="clip")
            yield {sample.key: batch, **{name: table[where] for name, table in small.items()}}

    yield epoch
