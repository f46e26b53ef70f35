"""The bare loop on each rank, its model under DistributedDataParallel (DDP).

A step waits for those of all ranks, which average their gradients. Ranks whose shares are a batch smaller join those
steps without one (DDP's join), which without it would wait for ever or end the process.
"""

from dataclasses import replace
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from scripts.measure import protocol, training
from scripts.measure.verify import Verifier


def times(run: Any) -> protocol.Times:
    """Return the times of a training; what came of it is noted in the run's record."""
    return run.trained(run_ddp)


def run_ddp(
    opened: training.Opened, verifier: Verifier, task: training.Task
) -> tuple[protocol.Times, training.Training | None]:
    """Train as `training.run_bare` does, which takes the same; the ranks have joined a process group."""

    def make(inputs: int, seed: int) -> torch.nn.Module:
        return DistributedDataParallel(task.make(inputs, seed).to(task.device))

    return training.run_bare(opened, verifier, replace(task, make=make, joined=DistributedDataParallel.join))
