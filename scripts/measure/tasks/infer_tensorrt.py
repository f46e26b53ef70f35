"""The same small model reconstructs each batch without training, compiled by TensorRT (Torch-TensorRT), on a GPU."""

from collections.abc import Mapping
from importlib import import_module
from time import perf_counter
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.machine import gpu
from scripts.measure import training
from scripts.measure.sink import Checksums


def unsuited(_request: LoaderRequest) -> str | None:
    """Return why TensorRT cannot be had, or None."""
    from importlib.util import find_spec

    return "not installed: torch-tensorrt" if find_spec("torch_tensorrt") is None else None


def sink(request: LoaderRequest) -> "Inference":
    """Return what puts each batch through the model."""
    return Inference(request)


class Inference:
    """Consumes a batch by reconstructing it. Nothing is learnt: TensorRT knows no gradients."""

    def __init__(self, request: LoaderRequest) -> None:
        import torch

        import_module("torch_tensorrt")  # which registers the backend; in no environment of ours

        self.device, self.inputs = request.device, training.inputs_of(request)
        model = training.autoencoder(self.inputs, request.seed).to(self.device).eval()
        self.model = torch.compile(model, backend="torch_tensorrt", dynamic=False)
        share = len(request.share.of(range(request.items)))
        for count in {min(share, request.batch_size), share % request.batch_size} - {0}:
            made = torch.zeros(
                count, *request.sample.shape, dtype=getattr(torch, request.sample.dtype), device=self.device
            )
            with torch.no_grad():  # compiles for whole batches and for the last one: seconds that no epoch is to have
                training.reconstruction_loss(self.model, {request.sample.key: made}, self.inputs)
        self.steps = training.StepTimes(self.device, perf_counter)

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Reconstruct a batch; return its checksum, without sums."""
        import torch

        with torch.no_grad(), self.steps:
            training.reconstruction_loss(self.model, batch, self.inputs)
        return training.checksum_of(batch)

    def finish(self) -> None:
        """Wait until the device is done."""
        gpu.synchronize(self.device)

    def computed(self) -> float:
        """Return the seconds of the steps since this was last asked; after `finish`."""
        return self.steps.taken()
