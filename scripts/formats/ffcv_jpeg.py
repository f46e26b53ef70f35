"""FFCV's beton of the corpus's own JPEG, in the library's field for RGB images: one file of 8 MB pages, to be mapped.

The folder holds `items.beton` with the fields `image`, the file byte for byte (mode `jpg`, uint8 when decoded), and
`position` in the split. The library decodes JPEG only: on PNG the loader is not run and says so.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
ENV = "ffcv"
REQUIRES = ("ffcv", "numpy", "PIL")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = False
KINDS = ("image",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the beton and the label arrays of one split into the empty folder `out`."""
    import numpy as np
    from ffcv.fields.rgb_image import IMAGE_MODES, RGBImageField

    from scripts.formats._ffcv import write_beton

    class AsItIs(RGBImageField):
        """Puts JPEG into a page, where the library's own would make JPEG of pixels again."""

        def encode(self, destination, content, malloc):
            destination["mode"] = IMAGE_MODES["jpg"]
            destination["height"], destination["width"] = corpus.sample.shape[1:]
            destination["data_ptr"], place = malloc(len(content))
            place[:] = np.frombuffer(content, np.uint8)

    largest = max((corpus.root / item.path).stat().st_size for item in corpus.items(split))
    content_of = lambda item: (corpus.root / item.path).read_bytes()  # noqa: E731
    write_beton(corpus, split, out, RGBImageField("jpg"), content_of, largest, progress, AsItIs())


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered image, classes) in manifest order, by the file's table of where images are."""
    import io

    from scripts.common.labels import with_labels
    from scripts.formats._ffcv import stored_bytes

    decoded = (corpus.kind.read(io.BytesIO(found.tobytes()), corpus.sample) for found in stored_bytes(out))
    return with_labels(out, (corpus.kind.delivered(pixels, corpus.sample) for pixels in decoded))
