"""FFCV's beton of images as pixels, in the library's field for RGB images: one file of 8 MB pages, to be mapped.

The folder holds `items.beton` with the fields `image`, uint8 (height, width, 3) (mode `raw`), and `position` in the
split. A grey image has three equal channels, since the field has no others.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
ENV = "ffcv"
REQUIRES = ("ffcv", "numpy")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes * 3 // sample.shape[0]  # noqa: E731
READERS = False
KINDS = ("image",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the beton and the label arrays of one split into the empty folder `out`."""
    import numpy as np
    from ffcv.fields import RGBImageField

    from scripts.formats._ffcv import write_beton

    def pixels(item):
        first = np.broadcast_to(corpus.padded(item), (3, *corpus.sample.shape[1:]))
        return np.ascontiguousarray(first.transpose(1, 2, 0))

    write_beton(corpus, split, out, RGBImageField("raw"), pixels, BYTES_PER_ITEM(corpus.sample), progress)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered image, classes) in manifest order, by the file's table of where images are."""
    from scripts.common.labels import with_labels
    from scripts.formats._ffcv import stored_bytes

    channels, height, width = corpus.sample.shape
    images = (found.reshape(height, width, 3)[..., :channels].transpose(2, 0, 1) for found in stored_bytes(out))
    return with_labels(out, (corpus.kind.delivered(pixels, corpus.sample) for pixels in images))
