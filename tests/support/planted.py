"""A loader whose stages take known times: a slow reader, a slow decoder, an expensive transfer, a busy main process."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from scripts.common.location import Location
from scripts.common.request import LoaderRequest
from scripts.common.sample import audio
from scripts.common.vocabulary import STAGES as LOADING
from scripts.loaders import _torch
from scripts.measure import protocol
from scripts.measure.sink import Sink
from scripts.measure.step import Stepped, wait

STAGES = (*LOADING, "decode")


class Clock:
    """Time that passes in planted sleeps, and by `tick` seconds at each look: no work on this machine takes any."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 0.0, tick

    def perf_counter(self) -> float:
        """Return the seconds so far."""
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.now += seconds


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
    clock: Any = time  # what has `perf_counter` and `sleep`; a Clock tells its time to this process alone

    STAGES = STAGES

    @contextmanager
    def open_epochs(self, request: LoaderRequest) -> Iterator[protocol.Epoch]:
        """Yield an epoch function over batches of silence."""
        planted = self

        class Batches(torch.utils.data.Dataset):
            def __getitems__(self, positions: list[int]) -> dict[str, Any]:
                planted.clock.sleep(planted.read)
                if "decode" not in request.without:
                    planted.clock.sleep(planted.decode)
                count = len(positions)
                return SlowToSend(
                    audio=torch.zeros(count, 1, request.samples),
                    target=torch.zeros(count, dtype=torch.int64),
                    labels=torch.zeros(count, request.classes),
                    item=torch.tensor(positions),
                )

        SlowToSend.seconds = self.transfer
        with _torch.epochs_of(request, Batches()) as epoch:
            yield lambda number: busy(epoch(number), self.python, self.clock)


def busy(batches: Iterator[Any], seconds: float, clock: Any) -> Iterator[Any]:
    """Yield the batches, each after the main process has been busy for so long."""
    for batch in batches:
        end = clock.perf_counter() + seconds
        while clock.perf_counter() < end:
            pass
        yield batch


def request(workers: int = 0, items: int = 64, batch_size: int = 8) -> LoaderRequest:
    """Return a request for short items."""
    return LoaderRequest(
        Location("file:///nowhere"), items, audio(100), classes=3, batch_size=batch_size, workers=workers
    )


KNOWN_SLEEPS = [(200, 600), (300, 300)]  # milliseconds a batch: of loading, in the main process, and of the step


def recovered(load_ms: float, step_ms: float, clock: Any = time) -> dict[str, tuple[float, float]]:
    """Return what the instrument finds of known sleeps, beside what is planted: AU in percent, and seconds."""
    load, step = load_ms / 1000, step_ms / 1000
    timed: list[protocol.EpochTimes] = []
    with opener(Planted(read=load, clock=clock), request(items=24))() as epoch:
        sink = Stepped(Sink("cpu"), step, clock.perf_counter, partial(wait, sleep=clock.sleep))
        list(epoch(0))  # as the verify epoch before it
        protocol.time_epochs(epoch, sink, 2, clock.perf_counter, 0.0, timed)
    return {
        "AU": (protocol.utilisation(protocol.Times(epochs=timed)), 100 * step / (load + step)),
        "first batch": (timed[0].arrivals_seconds[0], load),
        "first batch of the second epoch": (timed[1].arrivals_seconds[0], load),
        "step, then the next batch": (timed[1].gap_seconds, load + step),
    }


def opener(planted: Planted, asked: LoaderRequest) -> Callable[..., Any]:
    """Return what constructs the planted loader, as measure/run.py does it."""
    from dataclasses import replace

    return lambda **changes: planted.open_epochs(replace(asked, **changes))
