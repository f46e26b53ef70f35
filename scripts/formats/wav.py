"""16-bit WAV files in natural length, one per item: the corpus itself, numbered.

The folder holds `000000.wav`, ..., the corpus's files byte for byte. The reader pads them.
"""

from scripts.formats._files import read, write  # noqa: F401

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
LINKED = True  # its files are the corpus's own, under another name
KINDS = ("audio",)
