"""FFCV: a mapped beton copied into batches by compiled threads, without worker processes.

Made for images in one large file that the page cache holds (its field for those: `ffcv_raw`, `ffcv_jpeg`); here items
of any kind, decoded, as its field of arrays has them. Threads of compiled code (the setting `workers`, at least one and
at most the cores) copy the items of a batch out of the mapped file, `prefetch` batches ahead. Its own buffers are used
again after so many batches; here each batch goes into new memory (of audio as float32), by torch, in the process that
trains. Its time goes into that and into the copying. Opening it takes seconds, in which the code is compiled.
"""

from scripts.loaders._ffcv import SETTINGS, SNIPPET, epochs_of, simplify, unsuited  # noqa: F401

FORMAT = "ffcv"
ENV = "ffcv"
REQUIRES = ("torch", "ffcv", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")


def open_epochs(request):
    """Return what opens the epoch function over this rank's items."""
    return epochs_of(request)
