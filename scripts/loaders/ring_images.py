"""Our own ring of reused buffers, into which threads read and decode image files: no worker process, no fresh memory.

For JPEG or PNG of one size, one file an image. Each of `workers` threads decodes an image at a time straight into its
row of a batch, without Python's lock; set them to the number of cores. `decoder` is the library, as of `image_files`.
Its time goes into decoding. On a CPU a batch is valid until the next one is taken; `copies: true` gives each memory of
its own.
"""

from scripts.loaders._image import DECODE_SNIPPET, DECODER, content_of, decode_of, never, path_of  # noqa: F401
from scripts.loaders._ring.epochs import SETTINGS, lifetime  # noqa: F401
from scripts.loaders._ring.fetching import AT_ONCE, COPIES, open_fetching, program
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "numpy", "opencv-python-headless")
LIFETIME = lifetime
STAGES = ("read", "decode")
OPTIONS = {**DECODER, **COPIES}
SNIPPET = (
    """
from ring_reader import FetchingRing

$head
$labels


"""
    + DECODE_SNIPPET
    + """

class Files:  # of each thread
    def read_into(self, position, row):
        decode((data / f"{position:06d}.$ending").read_bytes(), row)

    def close(self):
        pass
"""
    + program("Files", "$workers", AT_ONCE)
)


class Files:
    """Reads and decodes images, by their position, for the ring."""

    def __init__(self, request):
        self.request, self.decode = request, decode_of(request)

    def read_into(self, position, row):
        """Fill a row with an image."""
        self.decode(content_of(path_of(self.request, position)), row)

    def close(self):
        """Do nothing: no file stays open."""


def open_epochs(request):
    """Return what opens the epoch function over numbered image files."""
    return open_fetching(request, lambda: Files(request), max(1, request.workers), AT_ONCE)
