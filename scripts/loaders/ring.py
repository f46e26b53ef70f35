"""Our own: threads gather random batches from one array into a small ring of reused buffers.

For those who may keep their data as one array of fixed-length items: `_ring/ring_reader.py`, which does the work,
stands alone and can be copied. Its time goes into copying each batch once, from the page cache to where it is used;
from a cold disk it reads whole items, several at a time. `workers` are threads: 1 or 2 where batches must be ready
when a step ends; with 0 the training loop itself gathers, on all cores, and nothing is ahead. `prefetch` is how many
batches are ahead. On a CPU a batch is valid until the next one is taken; `copies: true` gathers each into memory of
its own, for consumers that keep batches. `direct: true` reads past the page cache (O_DIRECT): for a set larger than
memory, whose pages would be gone before they are wanted again; measure it with a cold cache.
"""

from scripts.loaders._declared import SETTINGS
from scripts.loaders._plain.labels import read_labels
from scripts.loaders._plain.ring import over_ring
from scripts.loaders._ring.plan import DIRECT, lifetime, simplify, unsuited
from scripts.loaders._ring.ring_reader import RingReader
from scripts.loaders._ring.unread import without_read

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
LIFETIME = lifetime
STAGES = ("read",)
OPTIONS = DIRECT


def make_loader(data, key, batch_size, workers, prefetch, device, pin_memory, direct, copies, seed, order=None):
    """Return a loader over the array of all items."""
    reader = RingReader(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
        data / f"{key}.npy",
        batch_size,
        threads=workers,
        ahead=prefetch or 1,
        device=device,
        pin=pin_memory,
        source="direct" if direct else "auto",
        copies=copies,  # False: on a CPU a batch is valid until the next one is taken
    )
    return over_ring(reader, key, read_labels(data), seed, order)
