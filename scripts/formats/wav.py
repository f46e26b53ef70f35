"""16-bit WAV files in natural length, one an item: the corpus itself, numbered.

A split's folder holds `000000.wav`, `000001.wav`, ... where the number is the item's position in the split, and the
three label arrays of `common/labels.py`. The files are the corpus's own, byte for byte; whoever reads them pads.
`read` gives the target first and the other classes in ascending order.
"""

from scripts.formats._files import read, write  # noqa: F401

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
KINDS = ("audio",)
