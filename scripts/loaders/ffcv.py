"""FFCV: a mapped beton copied into batches by compiled threads, without worker processes.

Made for images in one large file that the page cache holds (its field for those: `ffcv_raw`, `ffcv_jpeg`); here items
of any kind, decoded, as its field of arrays has them. Threads of compiled code (the setting `workers`, at least one and
at most the cores) copy the items of a batch out of the mapped file, `prefetch` batches ahead. Its own buffers are used
again after so many batches; here each batch goes into new memory (of audio as float32), by torch, in the process that
trains. Its time goes into that and into the copying. Opening it takes seconds, in which the code is compiled.
"""

from scripts.loaders._ffcv import SETTINGS, STAGES, simplify, unsuited, without_read
from scripts.loaders._plain.ffcv import flat, from_beton

FORMAT = "ffcv"
ENV = "ffcv"
REQUIRES = ("torch", "ffcv", "numpy")
LIFETIME = "lasting"


def make_loader(data, key, shape, dtype, scale, batch_size, workers, prefetch, seed, order=None):
    """Return a loader of a beton of arrays."""
    return from_beton(data, key, shape, dtype, scale, flat, batch_size, workers, prefetch, seed, order)
