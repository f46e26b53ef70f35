"""FLAC files of whole recordings: without loss, about half of the bytes of 16-bit PCM.

The folder holds `000000.flac`, ..., and `frames.npy`, int64 (n,), the length of each recording in samples.
"""

from scripts.formats._codec_files import files_of

VERSION = 1
REQUIRES = ("numpy", "av")
SHARE = 0.6  # of the bytes of 16-bit PCM, roughly: known when it is written
BYTES_PER_ITEM = lambda sample: round(sample.stored_bytes * SHARE)  # noqa: E731
READERS = False
KINDS = ("crops",)
write, read = files_of("flac")
