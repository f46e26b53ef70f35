"""A loader whose stages take known times: a slow reader, a slow decoder, an expensive transfer, a busy main process."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import torch_dataloader
from loading import LoaderRequest
from measure import protocol

STAGES = (*torch_dataloader.STAGES, "decode")


class SlowToSend(dict):
    """A batch that takes a known time to be pickled, as it is when a worker sends it."""

    seconds = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        time.sleep(SlowToSend.seconds)
        return dict, (dict(self),)


@dataclass
class Planted:
    """Seconds a batch of each stage; a module as the loaders are, by its attributes."""

    read: float = 0.0
    decode: float = 0.0
    transfer: float = 0.0
    python: float = 0.0

    STAGES = STAGES

    @contextmanager
    def open_epochs(self, request: LoaderRequest) -> Iterator[protocol.Epoch]:
        """Yield an epoch function over batches of silence."""
        planted = self

        class Batches(torch.utils.data.Dataset):
            def __getitems__(self, positions: list[int]) -> dict[str, Any]:
                time.sleep(planted.read)
                if "decode" not in request.without:
                    time.sleep(planted.decode)
                count = len(positions)
                return SlowToSend(
                    audio=torch.zeros(count, 1, request.samples),
                    target=torch.zeros(count, dtype=torch.int64),
                    labels=torch.zeros(count, request.classes),
                    clip=torch.tensor(positions),
                )

        SlowToSend.seconds = self.transfer
        with torch_dataloader.epochs_of(request, Batches()) as epoch:
            yield lambda number: busy(epoch(number), self.python)


def busy(batches: Iterator[Any], seconds: float) -> Iterator[Any]:
    """Yield the batches, each after the main process has been busy for so long."""
    for batch in batches:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        yield batch


def request(workers: int = 0, clips: int = 64, batch_size: int = 8) -> LoaderRequest:
    """Return a request for short clips."""
    return LoaderRequest(
        data=Path("/nowhere"), clips=clips, samples=100, classes=3, batch_size=batch_size, workers=workers
    )


def opener(planted: Planted, asked: LoaderRequest) -> Callable[..., Any]:
    """Return what constructs the planted loader, as measure/run.py does it."""
    from dataclasses import replace

    return lambda **changes: planted.open_epochs(replace(asked, **changes))
