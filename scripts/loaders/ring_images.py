"""Our own ring of reused buffers, into which threads read and decode image files: no worker process, no fresh memory.

For JPEG or PNG of one size, one file an image. Each of `workers` threads decodes an image at a time straight into its
row of a batch, without Python's lock; set them to the number of cores. `decoder` is the library, as of `image_files`.
Its time goes into decoding. On a CPU a batch is valid until the next one is taken; `copies: true` gives each memory of
its own.
"""

from contextlib import contextmanager

from scripts.loaders._image import DECODE_SNIPPET, DECODER, cannot_decode, content_of, decode_of, path_of
from scripts.loaders._ring.epochs import device_of, epochs_of_ring, lifetime
from scripts.loaders._spdl import simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "numpy", "opencv-python-headless")
LIFETIME = lifetime
SETTINGS = ("workers", "prefetch", "pin_memory")
STAGES = ("read", "decode")
OPTIONS = {**DECODER, "copies": {"enum": [False, True], "default": False}}
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


random = np.random.default_rng($seed)
reader = FetchingRing(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
    Files,
    len(target),
    shape,
    "$dtype",
    batch_size,
    in_flight=$workers,
    ahead=$prefetch,
    device=device,
    pin=$pin_memory,
    copies=$copies,  # False: on a CPU a batch is valid until the next one is taken
)


class Loader:
    def __iter__(self):
        order = random.permutation(len(target))
        for $item, targets, hot in reader.batches(order, target, labels):
            yield {"$item": $item, "target": targets, "labels": hot}


loader = Loader()

$loop
"""
)


class Files:
    """Reads and decodes images, by their position, for the ring."""

    def __init__(self, request):
        self.request, self.decode = request, decode_of(request.options["decoder"], request)

    def read_into(self, position, row):
        """Fill a row with an image."""
        self.decode(content_of(path_of(self.request, position)), row)

    def close(self):
        """Do nothing: no file stays open."""


def unsuited(request):
    """Return why the decoder cannot decode the files, or None."""
    return cannot_decode(request.options["decoder"], request)


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered image files."""
    from scripts.loaders._ring.ring_reader import FetchingRing

    with FetchingRing(
        lambda: Files(request),
        request.clips,
        request.sample.shape,
        request.sample.dtype,
        request.batch_size,
        in_flight=max(1, request.workers),
        ahead=request.prefetch,
        device=device_of(request),
        pin=request.pin_memory,
        copies=request.options["copies"],
    ) as reader:
        yield epochs_of_ring(request, reader)
