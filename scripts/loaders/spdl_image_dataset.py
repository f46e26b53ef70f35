"""SPDL around an existing Dataset of images: made in threads, then collated, as SPDL's migration guide begins.

For those who have a map-style Dataset and change nothing but the DataLoader around it: Pillow lets go of Python's lock
while it decodes. Its time goes into decoding, into SPDL's bookkeeping for each image, and into collating, which one
thread does for all; the guide itself goes on from here to `spdl_images`. `workers` are threads: set as many as there
are cores. The pipeline runs on from one epoch into the next.
"""

import io

import numpy as np
import torch
from PIL import Image

from scripts.loaders._plain.data_loader import Items
from scripts.loaders._plain.images import content_of
from scripts.loaders._plain.spdl import by_item, collate_of
from scripts.loaders._spdl import SETTINGS, simplify

FORMAT = "files"
REQUIRES = ("torch", "spdl", "pillow", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")


def decode(content):
    """Return the pixels of a file, uint8 (channels, height, width)."""
    with Image.open(io.BytesIO(content)) as image:
        pixels = np.array(image)
    return torch.from_numpy(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None])


class Files(Items):
    """Numbered image files."""

    def __init__(self, data, key, ending, scale):
        super().__init__(data, key)
        self.ending, self.scale = ending, scale

    def item(self, position):
        image = decode(content_of(f"{self.data}/{position:06d}.{self.ending}"))
        return image * self.scale if self.scale else image


def make_loader(data, key, ending, scale, batch_size, workers, prefetch, pin_memory, seed, order=None):
    """Return a loader of numbered image files."""
    files = Files(data, key, ending, scale)
    return by_item(files, collate_of(pin_memory), batch_size, workers, prefetch, seed, order)
