"""Pieces of WAV files: opened, sought and read, at the same cost whatever the recording's length.

Each piece is sought and decoded by a library of your choice, the option `decoder`. One that ends in `_whole`, and
`torchaudio`, decodes the recording from its beginning to its end, and cuts the piece out.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import simplify
from scripts.loaders._pieces import decoders, piece as PIECE
from scripts.loaders._plain.crops import Files, crop_loader
from scripts.loaders._plain.pieces import reader_of

FORMAT = "recordings"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "transfer")
OPTIONS = decoders(
    "soundfile", "torchcodec_wav", "torchcodec_aligned", "pyav", "spdl_aligned", "torchcodec_whole", "torchaudio"
)


def make_loader(data, shape, decoder, seed, **how):
    """Return a DataLoader over pieces of numbered wav files."""
    return crop_loader(Files(data, shape, "wav", reader_of(decoder)), seed, **how)
