"""AAC files of whole recordings: 64 kbit/s a channel, in MP4 with an edit list that tells the delay and the length.

The folder holds `000000.m4a`, ..., and `frames.npy`, int64 (n,), the length of each recording in samples. Loaders are
held to what FFmpeg makes of a file from its beginning: other decoders differ in the last bits, and some in time.
"""

from scripts.formats._codec_files import files_of, truth_of

VERSION = 1
REQUIRES = ("numpy", "av")
SHARE = 0.09  # of the bytes of 16-bit PCM, roughly: known when it is written
BYTES_PER_ITEM = lambda sample: round(sample.stored_bytes * SHARE)  # noqa: E731
READERS = False
KINDS = ("crops",)
write, read = files_of("aac")
truth = truth_of("aac")
