"""A small model is trained in a bare loop."""

from typing import Any

from scripts.measure import training
from scripts.measure.protocol import Times


def times(run: Any) -> Times:
    """Return the times of a training; what came of it is noted in the run's record."""
    return run.trained(training.run_bare)
