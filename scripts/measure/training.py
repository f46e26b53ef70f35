"""A small training as a task: the bare loop and Lightning's, over the same loader, with the same model and seed.

Their difference is Lightning's own cost. Phases as in measure/protocol.py, with two more: an epoch that is trained and
not timed, which start-up and the optimizer's state fall into, and a validation after each epoch, timed apart.

    construct -> first batch -> verify epoch -> warm-up epoch -> (timed epoch -> validation) ... -> tear down

The gap of an epoch is its own time to the first batch, since a validation is before it; a loader that reads ahead
uses that time, as it does in any training. AU, accelerator utilisation, is the time in training steps over the time of
the epochs. On a GPU a step is what is between two events in its stream, the waiting for launches included.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import torch

from scripts.common.request import LoaderRequest
from scripts.machine import gpu
from scripts.measure import protocol
from scripts.measure.sink import Checksums, Kept, PlainLoop, data_of, without_sums
from scripts.measure.verify import Verifier

Opened = Callable[[], AbstractContextManager[protocol.Epoch]]
Validation = Callable[[], Iterator[protocol.Batch]]  # asks for one pass over the validation split
Clock = Callable[[], float]
Around = Callable[[str], None]
INPUTS = 16_000  # values that the model takes: of audio at 16 kHz a second


def autoencoder(inputs: int = INPUTS, seed: int = 0) -> torch.nn.Module:
    """Return the linear autoencoder inputs -> 64 -> 32 -> 64 -> inputs, initialised by `seed`, on the CPU.

    For 16,000 inputs it has 2,068,256 parameters. The process's own random numbers are left as they were: loaders draw
    from them.
    """
    sizes = (inputs, 64, 32, 64, inputs)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        layers = [torch.nn.Linear(wide, narrow) for wide, narrow in pairwise(sizes)]
    return torch.nn.Sequential(*layers)


def inputs_of(request: LoaderRequest) -> int:
    """Return how many values of an item the model takes: of audio its first second, of other data INPUTS, or all."""
    return min(request.sample_rate or INPUTS, prod(request.sample.shape))


def reconstruction_loss(model: torch.nn.Module, batch: protocol.Batch, inputs: int) -> torch.Tensor:
    """Return the mean squared error of the first `inputs` values of a batch's items, a tensor of no dimensions.

    Bytes are taken as 255ths, other whole numbers as they are.
    """
    values = data_of(batch).flatten(1)[:, :inputs]
    if values.dtype != torch.float32:
        values = values.float() * (1 / 255) if values.dtype == torch.uint8 else values.float()
    return torch.nn.functional.mse_loss(model(values), values)


@dataclass(frozen=True)
class Task:
    """What is trained, and beside what."""

    device: str = "cpu"
    inputs: int = INPUTS  # values of an item that the model takes: of audio its first second
    seed: int = 0
    validation: Validation | None = None  # None where the split is empty
    logs: Path | None = None  # folder of this run's TensorBoard logs; emptied first
    make: Callable[[int, int], torch.nn.Module] = autoencoder
    joined: Callable[[torch.nn.Module], AbstractContextManager[Any]] = nullcontext  # around an epoch of the model
    epochs: int = 1  # timed, at least, and more until these took
    least_seconds: float = 0.0
    clock: Clock = time.perf_counter
    around: Around = lambda _phase: None  # called with "before" the first of them and "after" the last
    agreed: Callable[[bool], bool] = bool  # as of protocol.run


@dataclass
class Training:
    """What a training gave beside its times."""

    parameters: int
    inputs: int
    first_loss: float  # of the first batch of the warm-up epoch
    last_loss: float  # of the last batch of the last epoch
    epoch_losses: list[float]  # of each timed epoch, the mean over its items
    validation_losses: list[float]  # after each timed epoch; empty without a validation
    au_percent: float
    validation_seconds: float  # of all validations after timed epochs


class StepTimes:
    """Around each training step (`with`): adds up how long they took, on the device that they ran on."""

    def __init__(self, device: str, clock: Clock) -> None:
        self.device = device
        self._clock = clock
        self._seconds = 0.0
        self._events: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        self._began = self._clock() if self.device == "cpu" else gpu.moment()

    def __exit__(self, *_exception: object) -> None:
        if self.device == "cpu":
            self._seconds += self._clock() - self._began
        else:
            self._events.append((self._began, gpu.moment()))

    def taken(self) -> float:
        """Return the seconds of the steps since this was last asked; the device must have finished them."""
        seconds = self._seconds + sum(start.elapsed_time(end) for start, end in self._events) / 1000
        self._seconds, self._events = 0.0, []
        return seconds


class TrainingSink:
    """The bare loop: consuming a batch is a training step. Losses stay on the device until an epoch is over."""

    def __init__(self, task: Task) -> None:
        self.device = task.device
        self.inputs = task.inputs
        self.model = task.make(task.inputs, task.seed).to(task.device)
        self.optimizer = optimizer_of(self.model)
        self._clock = task.clock
        self.steps = StepTimes(task.device, task.clock)
        self._losses: list[torch.Tensor | float] = []

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Train on one batch; return its checksum, without sums."""
        with self.steps:
            loss = reconstruction_loss(self.model, batch, self.inputs)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self._losses.append(kept_loss(loss))
        return without_sums(batch)

    def finish(self) -> None:
        """Wait until the device has trained on what it was given."""
        gpu.synchronize(self.device)

    def computed(self) -> float:
        """Return the seconds in training steps since this was last asked; after `finish`."""
        return self.steps.taken()

    def losses(self) -> list[float]:
        """Return the loss of each batch since this was last asked; after `finish`, since it waits for the device."""
        losses, self._losses = self._losses, []
        return read_losses(losses)

    def validate(self, validation: Validation) -> tuple[float, float]:
        """Return (seconds, mean loss over the items) of one pass without gradients, from asking for it to its end."""
        kept = []
        model = getattr(self.model, "module", self.model)  # of DDP: shares may have different numbers of batches
        model.eval()
        start = self._clock()
        with torch.no_grad():
            for batch in validation():
                kept.append((kept_loss(reconstruction_loss(model, batch, self.inputs)), len(batch["item"])))
        self.finish()
        seconds = self._clock() - start
        model.train()
        return seconds, mean_over_items(kept)


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters())


def kept_loss(loss: torch.Tensor) -> torch.Tensor | float:
    """Return what is kept of a loss until the epoch is over: on a GPU itself, since to read it is to wait.

    On a CPU its value: the tensor would stay on the heap between batches (sink.Kept).
    """
    return loss.detach() if loss.is_cuda else loss.item()


def read_losses(losses: list[torch.Tensor | float]) -> list[float]:
    return torch.stack(losses).tolist() if losses and isinstance(losses[0], torch.Tensor) else losses


def mean_over_items(losses: list[tuple[torch.Tensor | float, int]]) -> float:
    """Return the mean of batches' losses, each weighted by its number of items."""
    values, sizes = read_losses([loss for loss, _ in losses]), [size for _, size in losses]
    return sum(value * size for value, size in zip(values, sizes, strict=True)) / sum(sizes)


@dataclass
class Course:
    """How a training went, whichever loop ran it."""

    times: protocol.Times = field(default_factory=protocol.Times)
    delivered: list[Kept] = field(default_factory=list)  # of each timed epoch
    losses: list[list[float]] = field(default_factory=list)  # of each batch, by epoch, the warm-up epoch's first
    validation_losses: list[float] = field(default_factory=list)

    def enough(self, task: Task) -> bool:
        """Return whether as much was timed as is wanted, on all ranks."""
        timed = self.times.epochs
        return task.agreed(len(timed) >= task.epochs and sum(epoch.seconds for epoch in timed) >= task.least_seconds)

    def validated(self, seconds: float, loss: float) -> None:
        """Note the validation that followed the last epoch; nothing of that after the warm-up epoch."""
        if self.times.epochs:
            self.times.epochs[-1].validation_seconds = seconds
            self.validation_losses.append(loss)

    def training(self, model: torch.nn.Module, inputs: int) -> Training:
        """Return the result; at least one epoch was timed."""
        timed = self.times.epochs
        means = [
            mean_over_items(list(zip(losses, epoch.batch_items, strict=True)))
            for losses, epoch in zip(self.losses[1:], timed, strict=True)
        ]
        return Training(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            inputs=inputs,
            first_loss=self.losses[0][0],
            last_loss=self.losses[-1][-1],
            epoch_losses=means,
            validation_losses=self.validation_losses,
            au_percent=protocol.utilisation(self.times) or 0.0,
            validation_seconds=sum(epoch.validation_seconds or 0.0 for epoch in timed),
        )

    def write(self, writer: Any, training: Training) -> None:
        """Write the curves by timed epoch, counted from 1, to a TensorBoard SummaryWriter."""
        for number, epoch in enumerate(self.times.epochs, start=1):
            writer.add_scalar("loss/train", training.epoch_losses[number - 1], number)
            alone = protocol.Times(epochs=[epoch])
            writer.add_scalar("items_per_second", protocol.rate(alone), number)
            writer.add_scalar("au_percent", protocol.utilisation(alone), number)
        for number, loss in enumerate(training.validation_losses, start=1):
            writer.add_scalar("loss/validation", loss, number)


def run_bare(opened: Opened, verifier: Verifier, task: Task) -> tuple[protocol.Times, Training | None]:
    """Train by the bare loop; return its times, and what it gave, None where the verify epoch was wrong.

    Validations are between the timed epochs.
    """
    sink = TrainingSink(task)
    course = Course()
    training = None
    with protocol.verified(opened, verifier, Counted(), course.times, task.clock) as epoch:
        if verifier.ok:
            passed(task.validation)
            _train_once(epoch, sink, course, task, [])
            task.around("before")
            while not course.enough(task):
                course.delivered += _train_once(epoch, sink, course, task, course.times.epochs)
            task.around("after")
            training = course.training(sink.model, task.inputs)
    if training and task.logs:
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(emptied(task.logs))) as writer:
            course.write(writer, training)
    protocol.check_epochs(verifier, course.delivered)
    return course.times, training


def _train_once(
    epoch: protocol.Epoch,
    sink: TrainingSink,
    course: Course,
    task: Task,
    into: list[protocol.EpochTimes],
) -> list[Kept]:
    """Train for the next epoch, time it, then validate; return its checksums, as protocol.time_epochs does."""
    with task.joined(sink.model):
        counted = protocol.counted_on(epoch, len(course.losses))
        delivered = protocol.time_epochs(counted, sink, 1, task.clock, 0.0, into)
    course.losses.append(sink.losses())
    if task.validation:
        course.validated(*sink.validate(task.validation))
    return delivered


class Counted(PlainLoop):
    """What the verify epoch goes through: the model is not trained by it. Counts the batches."""

    def __init__(self) -> None:
        self.batches = 0

    def consume(self, batch: protocol.Batch) -> Checksums:
        """Note which items the batch holds."""
        self.batches += 1
        return super().consume(batch)


def passed(validation: Validation | None) -> int:
    """Pass over the validation split once, so that its workers run and its files are read; return its batches."""
    return sum(1 for _ in validation()) if validation else 0


def emptied(folder: Path) -> Path:
    """Return `folder`, new or emptied: TensorBoard would show an older run's events beside this one's."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder
