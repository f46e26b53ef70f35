"""The same small model reconstructs each batch without training, compiled by TensorRT (Torch-TensorRT), on a GPU."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from scripts.common.request import LoaderRequest
from scripts.machine import gpu
from scripts.measure import training
from scripts.measure.sink import Checksums, without_sums


def unsuited(_request: LoaderRequest) -> str | None:
    """Return why TensorRT cannot be had, or None."""
    return "not installed: torch-tensorrt" if find_spec("torch_tensorrt") is None else None


def sink(request: LoaderRequest) -> "Inference":
    """Return what puts each batch through the model."""
    return Inference(request)


class Inference(training.TrainingSink):
    """Consumes a batch by reconstructing it. Nothing is learnt: TensorRT knows no gradients."""

    def __init__(self, request: LoaderRequest) -> None:
        import_module("torch_tensorrt")  # which registers the backend; in no environment of ours

        super().__init__(training.Task(request.device, training.inputs_of(request), request.seed))
        self.model = torch.compile(self.model.eval(), backend="torch_tensorrt", dynamic=False)
        share = len(request.share.of(range(request.items)))
        for count in {min(share, request.batch_size), share % request.batch_size} - {0}:
            made = gpu.zeros(request, count)
            with torch.no_grad():  # compiles for whole batches and for the last one: seconds that no epoch is to have
                training.reconstruction_loss(self.model, made, self.inputs)

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Reconstruct a batch; return its checksum, without sums."""
        with torch.no_grad(), self.steps:
            training.reconstruction_loss(self.model, batch, self.inputs)
        return without_sums(batch)
