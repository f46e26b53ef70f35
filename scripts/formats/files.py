"""The corpus's own files of images, JPEG or PNG, one per image: numbered, still to be decoded.

The folder holds `000000.jpg`, ... (or `.png`), the corpus's files byte for byte: of one size, upright, without
metadata, uint8 when decoded. `read` decodes by Pillow, whose pixels are the reference.
"""

from scripts.formats._files import read, write  # noqa: F401

VERSION = 1
REQUIRES = ("numpy", "PIL")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = False
LINKED = True  # its files are the corpus's own, under another name
KINDS = ("image",)
