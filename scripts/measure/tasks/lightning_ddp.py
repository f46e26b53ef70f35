"""The same model is trained by `lightning.Trainer.fit` with its `ddp` strategy, a process for each rank."""

from typing import Any

from scripts.measure import training_lightning
from scripts.measure.protocol import Times


def times(run: Any) -> Times:
    """Return the times of a training; what came of it is noted in the run's record."""
    return run.trained(training_lightning.run_lightning)
