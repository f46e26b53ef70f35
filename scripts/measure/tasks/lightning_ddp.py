"""The same model is trained by `lightning.Trainer.fit` with its `ddp` strategy, a process for each rank."""

from scripts.measure.tasks import lightning

times = lightning.times
