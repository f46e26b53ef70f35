"""The same training by `lightning.Trainer.fit` instead of the bare loop; see measure/training.py.

It takes seconds to import, which are not the loader's: a task does so before the loader is opened.

In a process that has joined a process group it is a rank of Lightning's `ddp` strategy. That knows no ranks that have a
batch less than others, which its own sampler prevents by repeating items: such shares are refused here.
"""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins.environments import LightningEnvironment, TorchElasticEnvironment

from scripts.machine import gpu
from scripts.measure import protocol
from scripts.measure.sink import Kept, without_sums
from scripts.measure.training import (
    Clock,
    Counted,
    Course,
    Opened,
    StepTimes,
    Task,
    Training,
    emptied,
    kept_loss,
    mean_over_items,
    optimizer_of,
    passed,
    read_losses,
    reconstruction_loss,
)
from scripts.measure.verify import Verifier

LOG_EVERY_STEPS = 50  # Lightning's own default


def run_lightning(opened: Opened, verifier: Verifier, task: Task) -> tuple[protocol.Times, Training | None]:
    """Train by `lightning.Trainer.fit`; as `run_bare` in what it takes, returns and times.

    A step is the optimizer's, with Lightning's closure inside it. Losses are kept as in the bare loop, not by
    `self.log`, so that the difference of the two is the Trainer's.
    """
    course, verified = Course(), Counted()
    training = None
    with protocol.verified(opened, verifier, verified, course.times, task.clock) as epoch:
        if verifier.ok:
            _same_batches(verified.batches)
            training = _Fit(task, course, epoch, verified.batches).run()
    protocol.check_epochs(verifier, course.delivered)
    return course.times, training


class _Asked:
    """An iterable for the Trainer that asks for one more epoch each time it is iterated.

    It has a length because Lightning fetches a batch ahead from one without, to learn which is the last: a batch is
    valid only until the next one is asked for. Nothing is asked for before the first batch is wanted: Lightning also
    iterates only to see whether it can.
    """

    def __init__(self, ask: Callable[[], Iterator[protocol.Batch]], batches: int, clock: Clock) -> None:
        self._ask = ask
        self._batches = batches
        self._clock = clock
        self._arrived, self._resolved = protocol.noted_by(clock)
        self._open: Iterator[protocol.Batch] = iter(())
        self.start = 0.0
        self.arrivals: list[Any] = []

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[protocol.Batch]:
        self.start, self.arrivals = self._clock(), []
        self._open = self._ask()
        for batch in self._open:
            self.arrivals.append(self._arrived())
            yield batch

    def finish(self) -> None:
        """Let the loader come to the end of its epoch, which Lightning does not do once it has as many as it expects.

        `arrivals` are times of the clock from then on.

        Raises RuntimeError where there are more.
        """
        if next(self._open, None) is not None:
            raise RuntimeError(
                f"an epoch has more batches than the {self._batches} of the first: Lightning must be told their number"
            )
        self.arrivals = self._resolved(self.arrivals)


class _Fit(LightningModule):
    """One `Trainer.fit`: what happens at its hooks, and what is kept."""

    def __init__(self, task: Task, course: Course, epoch: protocol.Epoch, batches: int) -> None:
        super().__init__()
        self.task = task
        self.course = course
        self.model = task.make(task.inputs, task.seed)
        self.steps = StepTimes(task.device, task.clock)
        self.losses: list[torch.Tensor | float] = []  # of this epoch
        self.validated: list[tuple[torch.Tensor | float, int]] = []
        self.checksums = Kept()
        self.batches = _Asked(lambda: epoch(len(course.losses) + 1), batches, task.clock)
        self.validation: _Asked | None = None
        if task.validation and (validation_batches := passed(task.validation)):
            self.validation = _Asked(task.validation, validation_batches, task.clock)

    def run(self) -> Training:
        """Fit; return the result."""
        with _quiet():
            trainer = Trainer(
                **(_of_ranks() if dist.is_initialized() else _of_one(self.task.device)),
                accelerator="cpu" if self.task.device == "cpu" else "gpu",
                logger=TensorBoardLogger(emptied(self.task.logs), name="", version="") if self.task.logs else False,
                max_epochs=-1,  # until `enough`
                num_sanity_val_steps=0,
                limit_val_batches=1.0 if self.validation else 0,
                log_every_n_steps=min(LOG_EVERY_STEPS, len(self.batches)),
                inference_mode=False,  # no_grad, as in the bare loop: a loader's buffers must not be bound to either
                use_distributed_sampler=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(self, train_dataloaders=self.batches, val_dataloaders=self.validation or [])
        return self.result

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return that of the bare loop."""
        return optimizer_of(self.model)

    def training_step(self, batch: protocol.Batch, _batch_idx: int) -> torch.Tensor:
        """Return the loss of a batch."""
        loss = reconstruction_loss(self.model, batch, self.task.inputs)
        self.losses.append(kept_loss(loss))
        return loss

    def optimizer_step(self, _epoch: int, _batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        """Take a step, which calls `training_step`."""
        with self.steps:
            optimizer.step(closure=optimizer_closure)

    def validation_step(self, batch: protocol.Batch, _batch_idx: int) -> None:
        """Keep the loss of a batch of the validation split."""
        loss = reconstruction_loss(self.model, batch, self.task.inputs)
        self.validated.append((kept_loss(loss), len(batch["item"])))

    def on_train_epoch_start(self) -> None:
        """Nothing is timed in the first epoch."""
        self.checksums = Kept()
        if len(self.course.losses) == 1:
            self.task.around("before")

    def on_train_batch_end(self, _outputs: Any, batch: protocol.Batch, _batch_idx: int) -> None:
        """Keep the batch's checksum; after the last one the epoch has ended, and its validation may begin."""
        self.checksums.add(without_sums(batch))
        if len(self.checksums.sizes) == len(self.batches):
            self._end_epoch()

    def _end_epoch(self) -> None:
        self.batches.finish()
        gpu.synchronize(self.task.device)
        end = self.task.clock()
        computed = self.steps.taken()
        if self.course.losses:
            start, arrivals = self.batches.start, [arrival - self.batches.start for arrival in self.batches.arrivals]
            sizes = self.checksums.sizes
            gap = arrivals[0] if arrivals else end - start
            times = protocol.EpochTimes(end - start, gap, sum(sizes), arrivals, sizes, compute_seconds=computed)
            self.course.times.epochs.append(times)
            self.course.delivered.append(self.checksums)
        self.course.losses.append(read_losses(self.losses))
        self.losses = []

    def on_validation_epoch_end(self) -> None:
        """Note how long it took and what it gave."""
        self.validation.finish()
        gpu.synchronize(self.task.device)
        seconds = self.task.clock() - self.validation.start
        self.course.validated(seconds, mean_over_items(self.validated))
        self.validated = []

    def on_train_epoch_end(self) -> None:
        """End the epoch if it was cut short, and the training if it was the last."""
        if len(self.checksums.sizes) < len(self.batches):
            self._end_epoch()
        self.trainer.should_stop = self.course.enough(self.task)
        if self.trainer.should_stop:
            self.task.around("after")

    def on_train_end(self) -> None:
        """Make the result, and write the logs while the logger is open."""
        self.result = self.course.training(self.model, self.task.inputs)
        if self.logger:
            self.course.write(self.logger.experiment, self.result)


def _of_one(device: str) -> dict[str, Any]:
    """Return the Trainer's arguments for one process: a job of SLURM is that here, whatever its variables say."""
    return {"devices": 1 if device == "cpu" else [gpu.current()], "plugins": [LightningEnvironment()]}


def _of_ranks() -> dict[str, Any]:
    """Return those of a rank that torchrun's launcher has started, which the environment describes."""
    each = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes = dist.get_world_size() // each
    return {"strategy": "ddp", "devices": each, "num_nodes": nodes, "plugins": [TorchElasticEnvironment()]}


def _same_batches(own: int) -> None:
    """Raise RuntimeError where ranks have different numbers of batches: one would wait for ever."""
    if not dist.is_initialized():
        return
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, own)
    if len(set(found)) > 1:
        raise RuntimeError(
            f"the ranks have {', '.join(map(str, found))} batches, and Lightning's ddp needs as many on each. Use "
            "another batch_size, or the task ddp, whose join lets a rank have one less"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Lightning from telling of anything but errors: which devices there are, why the fit ended, what it sells.

    And from two warnings that are none here: to its own developers, since it calls what torch 2.11 has deprecated; and
    on a machine that has SLURM's `srun`, which a training in one process has no use for.
    """
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            warnings.filterwarnings("ignore", "The `srun` command is available on your system but is not used")
            yield
    finally:
        logger.setLevel(before)
