"""FFCV with its field for RGB images, as pixels: mapped, and copied into batches by compiled threads.

As `ffcv` in all but the field, which keeps the channels last: torch brings them to the front as it puts a batch into
new memory, in the process that trains. Its time goes into that.
"""

from scripts.loaders import _ffcv
from scripts.loaders._ffcv import SETTINGS, simplify, unsuited  # noqa: F401

FORMAT = "ffcv_raw"
ENV = "ffcv"
REQUIRES = ("torch", "ffcv", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
SNIPPET = _ffcv.PIXELS_SNIPPET


def open_epochs(request):
    """Return what opens the epoch function over this rank's images."""
    return _ffcv.epochs_of(request, _ffcv.pixels_first)
