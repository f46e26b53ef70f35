"""SPDL around an existing Dataset of images: made in threads, then collated, as SPDL's migration guide begins.

For those who have a map-style Dataset and change nothing but the DataLoader around it: Pillow lets go of Python's lock
while it decodes. Its time goes into decoding, into SPDL's bookkeeping for each image, and into collating, which one
thread does for all; the guide itself goes on from here to `spdl_images`. `workers` are threads: set as many as there
are cores. The pipeline runs on from one epoch into the next.
"""

from scripts.loaders import _torch
from scripts.loaders._image import content_of, path_of, pillow_pixels
from scripts.loaders._spdl import COLLATED_SNIPPET, DATASET_SNIPPET, SETTINGS, epochs_around  # noqa: F401
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "spdl", "pillow", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
SNIPPET = (
    DATASET_SNIPPET
    + """
from PIL import Image


class Items(Dataset):
    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        with Image.open(data / f"{position:06d}.$ending") as image:
            pixels = np.array(image)
        $item = torch.from_numpy(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None])
        $when dtype=float32
        $item = $item * np.float32(1 / 255)
        $end
        return {"$item": $item, "target": target[position], "labels": labels[position]}
"""
    + COLLATED_SNIPPET
)


def open_epochs(request):
    """Return what opens the epoch function over numbered image files."""
    import numpy as np
    import torch

    class Files(_torch.Items):
        def item(self, position):
            content = content_of(path_of(request, position))
            if "decode" in request.without:
                return torch.zeros(request.sample.shape, dtype=getattr(torch, request.sample.dtype))
            pixels = pillow_pixels(content).copy()  # Pillow's may not be written to, and torch warns of that
            item = torch.from_numpy(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None])
            return item if request.sample.dtype == "uint8" else item * np.float32(1 / 255)

    return epochs_around(Files(request), request)
