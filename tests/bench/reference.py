"""The reference that the fastest rows race: random batches gathered from a tensor into one reused buffer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scripts.common.request import LoaderRequest, batches_of, epoch_order


@contextmanager
def gathered(request: LoaderRequest, method: str) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Yield the epoch function over float32 (clips, 1, samples) in RAM, gathered into one buffer by torch or numpy."""
    import numpy as np
    import torch

    data = torch.empty((request.clips, *request.sample.shape)).uniform_(-1, 1)
    labels = torch.zeros((request.clips, request.classes))
    small = {"target": torch.zeros(request.clips, dtype=torch.int64), "labels": labels}
    small["clip"] = torch.arange(request.clips)
    buffer = torch.empty((request.batch_size, *request.sample.shape))

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        for positions in batches_of(epoch_order(request, number), request.batch_size):
            audio, where = buffer[: len(positions)], torch.from_numpy(positions)
            if method == "torch":
                torch.index_select(data, 0, where, out=audio)
            else:
                np.take(data.numpy(), positions, axis=0, out=audio.numpy(), mode="clip")
            yield {"audio": audio, **{name: table[where] for name, table in small.items()}}

    yield epoch
