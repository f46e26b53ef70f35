"""The corpus's own files of images, JPEG or PNG, one an image: numbered, still to be decoded.

A split's folder holds `000000.jpg`, `000001.jpg`, ... (or `.png`) where the number is the image's position in the
split, and the three label arrays of `common/labels.py`. Decoded it is uint8. The files are the corpus's own, byte for
byte, of one size, upright and without metadata. `read` decodes by the decoder that gives the truth, Pillow.
"""

from scripts.formats._files import read, write  # noqa: F401

VERSION = 1
REQUIRES = ("numpy", "PIL")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = False
KINDS = ("image",)
