"""The same model is trained by each rank under DistributedDataParallel: gradients are averaged after each step."""

from typing import Any

from scripts.measure import training_ddp
from scripts.measure.protocol import Times


def times(run: Any) -> Times:
    """Return the times of a training; what came of it is noted in the run's record."""
    return run.trained(training_ddp.run_ddp)
