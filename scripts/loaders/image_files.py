"""Image files in a DataLoader: JPEG or PNG, one file per image, decoded straight into the batch.

What most training code does, but that a batch is collated once. `decoder` is the library: `simplejpeg` (libjpeg-turbo
with nothing around it), `torchvision` (its C++ decoder), `opencv`, `pillow`, and `pillow_simd` where that is installed
in Pillow's place. Its time goes into decoding: set workers to the number of cores. All give the same pixels; the
channels come first, as a model wants them.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._image import DECODE_SNIPPET, DECODER, content_of, decode_of, never, path_of  # noqa: F401
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import Batches, empty_batch, epochs_of, simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "numpy", "opencv-python-headless")
LIFETIME = "lasting"
OPTIONS = DECODER
SNIPPET = (
    """

$head
$labels


"""
    + DECODE_SNIPPET
    + """

$items_class

    def __getitems__(self, positions):  # a batch at a time
        $item = empty_batch(len(positions))
        for position, row in zip(positions, $item.numpy(), strict=True):
            decode((data / f"{position:06d}.$ending").read_bytes(), row)
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}


$by_data_loader
"""
)


def open_epochs(request):
    """Return what opens the epoch function over numbered image files."""
    decode = decode_of(request)

    class Files(Batches):
        def files_to_decode(self, positions):  # for the batch timeline
            return (path_of(request, position) for position in positions)

        def gathered(self, positions):
            batch = empty_batch(len(positions), request.sample)
            for position, row in zip(positions, batch.numpy(), strict=True):
                decode(content_of(path_of(request, position)), row)
            return batch

    return epochs_of(request, Files(request))
