"""Our own ring over int16: half the bytes are read, kept in memory and sent; float32 is made where the batch is used.

As `ring`, over an array of int16. On a CPU the threads convert while they copy: choose it where the storage or the
memory is what is short. On a GPU the batch is sent as int16 and converted there: choose it where the bus is.
"""

from scripts.loaders._declared import SETTINGS
from scripts.loaders._plain.labels import read_labels
from scripts.loaders._plain.ring import over_ring
from scripts.loaders._ring.plan import DIRECT, lifetime, simplify, unsuited
from scripts.loaders._ring.ring_reader import RingReader
from scripts.loaders._ring.unread import without_read

FORMAT = "int16"
REQUIRES = ("torch", "numpy")
LIFETIME = lifetime
STAGES = ("read",)
OPTIONS = DIRECT
UNCOPIED = {"scale": None}


def make_loader(data, key, scale, batch_size, workers, prefetch, device, pin_memory, direct, copies, seed, order=None):
    """Return a loader over the array of all items."""
    reader = RingReader(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
        data / f"{key}.npy",
        batch_size,
        threads=workers,
        ahead=prefetch or 1,
        device=device,
        pin=pin_memory,
        scale=scale,  # int16 becomes float32 where it is used
        source="direct" if direct else "auto",
        copies=copies,  # False: on a CPU a batch is valid until the next one is taken
    )
    return over_ring(reader, key, read_labels(data), seed, order)
