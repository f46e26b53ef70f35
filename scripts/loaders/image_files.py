"""Image files in a DataLoader: JPEG or PNG, one file per image, decoded straight into the batch.

What most training code does, but that a batch is collated once. `decoder` is the library: `simplejpeg` (libjpeg-turbo
with nothing around it), `torchvision` (its C++ decoder), `opencv`, `pillow`, and `pillow_simd` where that is installed
in Pillow's place. Its time goes into decoding: set workers to the number of cores. All give the same pixels; the
channels come first, as a model wants them.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import DECODER, DECODING as STAGES, never, simplify
from scripts.loaders._plain.data_loader import Batches, data_loader, empty_batch
from scripts.loaders._plain.images import content_of, decode_of

FORMAT = "files"
REQUIRES = ("torch", "numpy", "opencv-python-headless")
LIFETIME = "lasting"
OPTIONS = DECODER


class Files(Batches):
    """Numbered image files, each decoded into its row of the batch."""

    def __init__(self, data, key, shape, dtype, ending, decode):
        super().__init__(data, key)
        self.shape, self.dtype, self.ending, self.decode = shape, dtype, ending, decode

    def path_of(self, position):
        return f"{self.data}/{position:06d}.{self.ending}"

    def batch(self, positions):
        batch = empty_batch(len(positions), self.shape, self.dtype)
        for position, row in zip(positions, batch.numpy(), strict=True):
            self.decode(content_of(self.path_of(position)), row)
        return batch


def make_loader(data, key, shape, dtype, ending, decoder, **how):
    """Return a DataLoader over numbered image files."""
    return data_loader(Files(data, key, shape, dtype, ending, decode_of(decoder)), **how)
