"""The same model is trained by `lightning.Trainer.fit`."""

from typing import Any

from scripts.measure.protocol import Times


def times(run: Any) -> Times:
    """Return the times of a training; what came of it is noted in the run's record."""
    from scripts.measure import training_lightning

    return run.trained(training_lightning.run_lightning)
