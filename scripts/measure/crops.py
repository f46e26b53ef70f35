"""Random crops and flips of a batch of images, on the device where it is, and whether a crop is a part of its image."""

import torch

SHARE = 7 / 8  # of each side: 224 of 256, as trainings on ImageNet have it


class Crops:
    """Cuts a part of SHARE of each side out of each image, at random, and mirrors every second one on average.

    By its seed: the same batches in the same order give the same crops.
    """

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return (n, channels, height, width) of the crops of images (n, channels, larger, larger)."""
        count, _, *sides = images.shape
        height, width = (max(1, int(side * SHARE)) for side in sides)
        down = torch.randint(sides[0] - height + 1, (count,), generator=self.random)
        right = torch.randint(sides[1] - width + 1, (count,), generator=self.random)
        mirrored = torch.randint(2, (count,), generator=self.random).bool()
        if images.device.type == "cpu":
            return _cut(images, height, width, down.tolist(), right.tolist(), mirrored.tolist())
        rows = down[:, None] + torch.arange(height)
        columns = right[:, None] + torch.arange(width)
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
        where = torch.arange(count)[:, None, None, None], torch.arange(images.shape[1])[:, None, None]
        return images[tuple(one.to(images.device) for one in (*where, rows[:, None, :, None], columns[:, None, None]))]


def _cut(
    images: torch.Tensor, height: int, width: int, down: list[int], right: list[int], mirrored: list[bool]
) -> torch.Tensor:
    """Return the crops, each copied as it is: without an index for every pixel."""
    crops = images.new_empty((len(images), images.shape[1], height, width))
    for image, crop, top, left, flip in zip(images, crops, down, right, mirrored, strict=True):
        part = image[:, top : top + height, left : left + width]
        crop.copy_(part.flip(2) if flip else part)
    return crops


def is_part(crop: torch.Tensor, image: torch.Tensor) -> bool:
    """Return whether a crop (channels, h, w) is a part of an image, mirrored from left to right or not."""
    _, height, width = crop.shape
    if crop.dtype != image.dtype or crop.shape[0] != image.shape[0]:
        return False
    if height > image.shape[1] or width > image.shape[2]:
        return False
    parts = image.unfold(1, height, 1).unfold(2, width, 1)  # (channels, downs, rights, height, width), a view
    for one in (crop, crop.flip(2)):
        corners = (parts[..., 0, 0] == one[:, None, None, 0, 0]).all(0)  # few places have the first pixel
        if any(torch.equal(parts[:, top, left], one) for top, left in corners.nonzero().tolist()):
            return True
    return False
