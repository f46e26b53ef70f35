"""Our own: threads gather random batches from one array into a small ring of reused buffers.

For those who may keep their data as one array of fixed-length items: `_ring/ring_reader.py`, which does the work,
stands alone and can be copied. Its time goes into copying each batch once, from the page cache to where it is used;
from a cold disk it reads whole items, several at a time. `workers` are threads: 1 or 2 where batches must be ready
when a step ends; with 0 the training loop itself gathers, on all cores, and nothing is ahead. `prefetch` is how many
batches are ahead. On a CPU a batch is valid until the next one is taken; `copies: true` gathers each into memory of
its own, for consumers that keep batches. `direct: true` reads past the page cache (O_DIRECT): for a set larger than
memory, whose pages would be gone before they are wanted again; measure it with a cold cache.
"""

from scripts.loaders._ring.epochs import OPTIONS, SETTINGS, SNIPPET, STAGES, lifetime, open_ring, simplify, unsuited  # noqa: F401

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
LIFETIME = lifetime


def open_epochs(request):
    """Return what opens the epoch function over the array of float32."""
    return open_ring(request)
