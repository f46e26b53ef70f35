"""SPDL threads around a decoder of your choice: image files decoded into their row of the batch, batches at a time.

Between `image_files` and `spdl_images`: the decoders of the one, which let go of Python's lock while they decode, in
the threads of the other, which share memory, so that a batch is handed over and not copied. `workers` are threads, each
of which makes a whole batch; set them to the number of cores. Its time goes into decoding.
"""

from scripts.loaders._image import DECODE_SNIPPET, DECODER, content_of, decode_of, never, path_of  # noqa: F401
from scripts.loaders._spdl import BATCHES_SNIPPET, READ_SNIPPET, SETTINGS, ReadBatch, epochs_in_batches  # noqa: F401
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "spdl", "numpy", "opencv-python-headless")
LIFETIME = "lasting"
STAGES = ("read", "decode")
OPTIONS = DECODER
SNIPPET = (
    BATCHES_SNIPPET
    + "\n\n"
    + DECODE_SNIPPET
    + """

def read(positions):  # a batch at a time
    $item = torch.empty((len(positions), *shape), dtype=torch.$dtype, pin_memory=pin)
    for position, row in zip(positions, $item.numpy(), strict=True):
        decode((data / f"{position:06d}.$ending").read_bytes(), row)
    where = torch.from_numpy(positions)
    return {"$item": $item, "target": target[where], "labels": labels[where]}

"""
    + READ_SNIPPET
)


class Rows(ReadBatch):
    """Reads and decodes image by image, each into its row."""

    def __init__(self, request):
        super().__init__(request)
        self.decode = decode_of(request)

    def read(self, positions, rows):
        for position, row in zip(positions.tolist(), rows, strict=True):
            self.decode(content_of(path_of(self.request, position)), row)


def open_epochs(request):
    """Return what opens the epoch function over numbered image files."""
    return epochs_in_batches(Rows(request), request)
