"""Each byte of a batch is read once, as `read` does; then a random crop and flip of each image, on the device."""

from collections.abc import Mapping
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.measure.crops import Crops, is_part
from scripts.measure.sink import Checksums, Sink, data_of


def sink(request: LoaderRequest) -> "Augmented":
    """Return what reads and crops."""
    return Augmented(request)


class Augmented(Sink):
    """Reads a batch, crops and flips its images, and reads the crops. Of the first batch each is held to its image.

    The checksums are those of `read`: images, targets and labels are held to the proof in timed epochs too. What it
    takes longer than `read` is the augmentation.
    """

    def __init__(self, request: LoaderRequest) -> None:
        super().__init__(request.device)
        self.crops, self.checked = Crops(request.seed), False

    def consume(self, batch: Mapping[str, Any]) -> Checksums:
        """Read a batch and its crops; return its checksum. Raises ValueError for a wrong crop."""
        checksum = super().consume(batch)
        images = data_of(batch)
        crops = self.crops(images)
        crops.flatten(1).sum(1)
        if not self.checked:
            for item, image, crop in zip(batch["item"].tolist(), images, crops, strict=True):
                if not is_part(crop, image):
                    raise ValueError(f"the crop of item {item} is no part of its image")
            self.checked = True
        return checksum
