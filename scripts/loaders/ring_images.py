"""Our own ring of reused buffers, into which threads read and decode image files: no worker process, no fresh memory.

For JPEG or PNG of one size, one file an image. Each of `workers` threads decodes an image at a time straight into its
row of a batch, without Python's lock; set them to the number of cores. `decoder` is the library, as of `image_files`.
Its time goes into decoding. On a CPU a batch is valid until the next one is taken; `copies: true` gives each memory of
its own.
"""

from scripts.loaders._declared import DECODER, SETTINGS, never, simplify_threads as simplify
from scripts.loaders._plain.images import content_of, decode_of
from scripts.loaders._plain.labels import read_labels
from scripts.loaders._plain.ring import over_items
from scripts.loaders._ring.plan import COPIES, lifetime
from scripts.loaders._ring.unread import without_read

FORMAT = "files"
REQUIRES = ("torch", "numpy", "opencv-python-headless")
LIFETIME = lifetime
STAGES = ("read", "decode")
OPTIONS = {**DECODER, **COPIES}


class Files:
    """Reads and decodes numbered image files, in a thread of the ring."""

    def __init__(self, data, ending, decode):
        self.data, self.ending, self.decode = data, ending, decode

    def read_into(self, position, row):
        self.decode(content_of(f"{self.data}/{position:06d}.{self.ending}"), row)

    def close(self):
        """Do nothing: no file stays open."""


def make_loader(
    data,
    key,
    shape,
    dtype,
    ending,
    decoder,
    batch_size,
    workers,
    prefetch,
    device,
    pin_memory,
    copies,
    seed,
    order=None,
):
    """Return a loader over numbered image files."""
    decode = decode_of(decoder)
    return over_items(
        lambda: Files(data, ending, decode),
        read_labels(data),
        key,
        seed,
        order,
        shape,
        dtype,
        batch_size,
        in_flight=workers,
        prefetch=prefetch,
        device=device,
        pin_memory=pin_memory,
        copies=copies,
        at_once=4,  # images: 8 and 16 give no more
    )
