"""Vorbis files of whole recordings: about 64 kbit/s a channel, in Ogg.

The folder holds `000000.ogg`, ..., and `frames.npy`, int64 (n,), the length of each recording in samples. Loaders are
held to what FFmpeg makes of a file from its beginning: other decoders differ in the last bits, and some in time.
"""

from scripts.formats._codec_files import files_of, truth_of

VERSION = 1
REQUIRES = ("numpy", "av", "soundfile")
SHARE = 0.09  # of the bytes of 16-bit PCM, roughly: known when it is written
BYTES_PER_ITEM = lambda sample: round(sample.stored_bytes * SHARE)  # noqa: E731
READERS = False
KINDS = ("crops",)
write, read = files_of("vorbis")
truth = truth_of("vorbis")
