"""Pieces of MP3 files: sought and decoded, or decoded from end to end.

Each piece is sought and decoded by a library of your choice, the option `decoder`. One that ends in `_whole`, and
`torchaudio`, decodes the recording from its beginning to its end, and cuts the piece out.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import simplify
from scripts.loaders._pieces import decoders, limit, piece as PIECE, shift
from scripts.loaders._plain.crops import Files, crop_loader
from scripts.loaders._plain.pieces import reader_of

FORMAT = "mp3"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "transfer")
OPTIONS = decoders(
    "soundfile_aligned", "torchcodec", "torchcodec_aligned", "pyav", "spdl_aligned", "soundfile_whole", "torchaudio"
)
VALUE_LIMIT = limit("mp3")
TIME_SHIFT = shift("mp3")


def make_loader(data, shape, decoder, seed, **how):
    """Return a DataLoader over pieces of numbered mp3 files."""
    return crop_loader(Files(data, shape, "mp3", reader_of(decoder)), seed, **how)
