"""Pieces of Opus files: sought and decoded, or decoded from end to end.

Each piece is sought and decoded by a library of your choice, the option `decoder`. One that ends in `_whole`, and
`torchaudio`, decodes the recording from its beginning to its end, and cuts the piece out.
"""

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import simplify
from scripts.loaders._pieces import decoders, limit, piece as PIECE
from scripts.loaders._plain.crops import Files, crop_loader
from scripts.loaders._plain.pieces import reader_of

FORMAT = "opus"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "transfer")
OPTIONS = decoders("soundfile_aligned", "torchcodec_aligned", "pyav", "spdl_aligned", "soundfile_whole", "torchaudio")
VALUE_LIMIT = limit("opus")


def never(request):
    """Return why it cannot run, or None: Opus codes 48 kHz, and gives back that alone."""
    if request.sample_rate not in (None, 48_000):
        return f"Opus has 48,000 Hz, and audio.sample_rate is {request.sample_rate:,}: set 48000, or take another codec"
    return None


def make_loader(data, shape, decoder, seed, **how):
    """Return a DataLoader over pieces of numbered opus files."""
    return crop_loader(Files(data, shape, "opus", reader_of(decoder)), seed, **how)
