"""Our own ring over int16: half the bytes are read, kept in memory and sent; float32 is made where the batch is used.

As `ring`, over an array of int16. On a CPU the threads convert while they copy: choose it where the storage or the
memory is what is short. On a GPU the batch is sent as int16 and converted there: choose it where the bus is.
"""

from scripts.loaders._ring import epochs
from scripts.loaders._ring.epochs import OPTIONS, SETTINGS, STAGES, lifetime, open_ring, simplify, unsuited  # noqa: F401

FORMAT = "int16"
REQUIRES = ("torch", "numpy")
LIFETIME = lifetime
SNIPPET = epochs.SCALED_SNIPPET


def open_epochs(request):
    """Return what opens the epoch function over the array of int16."""
    return open_ring(request, scale=1 / 32768)
