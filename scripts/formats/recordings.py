"""16-bit WAV files of whole recordings: the corpus itself, numbered. A piece of one is found by its place.

The folder holds `000000.wav`, ..., the corpus's files byte for byte, and `frames.npy`, int64 (n,), the length of each
recording in samples.
"""

from scripts.formats._files import read, write  # noqa: F401

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
LINKED = True  # its files are the corpus's own, under another name
KINDS = ("crops",)
