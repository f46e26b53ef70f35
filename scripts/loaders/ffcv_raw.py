"""FFCV with its field for RGB images, as pixels: mapped, and copied into batches by compiled threads.

As `ffcv` in all but the field, which keeps the channels last: torch brings them to the front as it puts a batch into
new memory, in the process that trains. Its time goes into that.
"""

from scripts.loaders._ffcv import SETTINGS, STAGES, simplify, unsuited, without_read
from scripts.loaders._plain.ffcv import channels_first, from_beton

FORMAT = "ffcv_raw"
ENV = "ffcv"
REQUIRES = ("torch", "ffcv", "numpy")
LIFETIME = "lasting"


def make_loader(data, key, shape, dtype, scale, batch_size, workers, prefetch, seed, order=None):
    """Return a loader of a beton of images."""
    return from_beton(data, key, shape, dtype, scale, channels_first, batch_size, workers, prefetch, seed, order)
