"""The corpus's own files of images, JPEG or PNG, one an image: numbered, still to be decoded.

A split's folder holds `000000.jpg`, `000001.jpg`, ... (or `.png`) where the number is the image's position in the
split, and the three label arrays of `common/labels.py`. Decoded it is uint8. The files are the corpus's own, byte for
byte, of one size, upright and without metadata. `read` decodes by the decoder that gives the truth, Pillow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "PIL")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = False
KINDS = ("image",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the files and label arrays of one split into the empty folder `out`."""
    from scripts.common.labels import write_labels

    for position, item in enumerate(corpus.items(split)):
        (out / f"{position:06}.{corpus.sample.ending}").write_bytes((corpus.root / item.path).read_bytes())
        progress(1)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered image, classes) in manifest order."""
    from scripts.common.labels import numbered, with_labels

    sample, kind = corpus.sample, corpus.kind
    decoded = (kind.read(path, sample) for path in numbered(out, f".{sample.ending}"))
    return with_labels(out, (kind.delivered(pixels, sample) for pixels in decoded))
