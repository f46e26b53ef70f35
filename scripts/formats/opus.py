"""Opus files of whole recordings: 32 kbit/s a channel, at 48 kHz, in Ogg.

The folder holds `000000.opus`, ..., and `frames.npy`, int64 (n,), the length of each recording in samples. Loaders are
held to what FFmpeg makes of a file from its beginning: other decoders differ in the last bits, and some in time.
"""

from scripts.formats._codec_files import files_of, truth_of

VERSION = 1
REQUIRES = ("numpy", "av")
SHARE = 0.06  # of the bytes of 16-bit PCM, roughly: known when it is written
BYTES_PER_ITEM = lambda sample: round(sample.stored_bytes * SHARE)  # noqa: E731
READERS = False
KINDS = ("crops",)
write, read = files_of("opus")
truth = truth_of("opus")
