"""SPDL threads around a decoder of your choice: image files decoded into their row of the batch, batches at a time.

Between `image_files` and `spdl_images`: the decoders of the one, which let go of Python's lock while they decode, in
the threads of the other, which share memory, so that a batch is handed over and not copied. `workers` are threads, each
of which makes a whole batch; set them to the number of cores. Its time goes into decoding.
"""

from functools import partial

from scripts.loaders._declared import DECODER, never
from scripts.loaders._plain.images import decode_of
from scripts.loaders._plain.spdl import Files, by_batch, empty_of, read
from scripts.loaders._spdl import SETTINGS, simplify, without_read

FORMAT = "files"
REQUIRES = ("torch", "spdl", "numpy", "opencv-python-headless")
LIFETIME = "lasting"
STAGES = ("read", "decode")
OPTIONS = DECODER


def make_loader(data, key, shape, dtype, ending, decoder, batch_size, workers, prefetch, pin_memory, seed, order=None):
    """Return a loader of numbered image files."""
    files = Files(data, key, shape, dtype, ending, partial(read, decode_of(decoder)), empty_of(pin_memory))
    return by_batch(files, batch_size, workers, prefetch, seed, order)
