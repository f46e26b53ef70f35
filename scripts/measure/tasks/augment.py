"""A random crop and flip of each image, on the device, then each byte of the crops is read once."""

from collections.abc import Mapping
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.machine import gpu
from scripts.measure.sink import Receipt, data_of


def unsuited(request: LoaderRequest) -> str | None:
    """Return why the data cannot be augmented, or None."""
    kind = request.sample.kind
    return None if kind == "image" else f"crops and flips are of images, and the data set is of the kind {kind}"


def sink(request: LoaderRequest) -> "Augmented":
    """Return what crops and reads."""
    return Augmented(request)


class Augmented:
    """Crops and flips a batch and reads the crops. Of the first batch each crop is held to the image that it is of.

    What a loader delivers is proven on whole images, before; here clips and targets are held to that proof.
    """

    def __init__(self, request: LoaderRequest) -> None:
        from scripts.measure.crops import Crops

        self.device, self.crops = request.device, Crops(request.seed)
        self.checked = False

    def consume(self, batch: Mapping[str, Any]) -> Receipt:
        """Read the crops of a batch; return its receipt, without sums. Raises ValueError for a wrong crop."""
        images = data_of(batch)
        crops = self.crops(images)
        crops.flatten(1).sum(1)
        if not self.checked:
            self._check(batch["clip"].tolist(), images, crops)
        return Receipt(batch["clip"].clone(), batch["target"].clone(), None, None)

    def _check(self, clips: list[int], images: Any, crops: Any) -> None:
        from scripts.measure.crops import is_part

        for clip, image, crop in zip(clips, images, crops, strict=True):
            if not is_part(crop, image):
                raise ValueError(f"the crop of clip {clip} is no part of its image")
        self.checked = True

    def finish(self) -> None:
        """Wait until the device has read what it was given."""
        gpu.synchronize(self.device)

    def computed(self) -> None:
        """Return None: consuming is no computing."""
