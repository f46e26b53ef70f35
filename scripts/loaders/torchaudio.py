"""torchaudio.load in a DataLoader: one WAV file opened and decoded per item.

`decoder: load` calls `torchaudio.load`, which since torchaudio 2.9 decodes by torchcodec, that is FFmpeg: its time goes
into opening a decoder for each item. `decoder: torchcodec` calls torchcodec itself, as its own documentation advises;
`decoder: soundfile` reads as torchaudio's backend of that name did before. Set workers to the number of cores.
"""

import torch

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import DECODING as STAGES, simplify
from scripts.loaders._plain.data_loader import Items, data_loader

FORMAT = "wav"
REQUIRES = ("torch", "torchaudio", "torchcodec", "soundfile", "numpy")
LIFETIME = "lasting"
OPTIONS = {"decoder": {"enum": ["load", "torchcodec", "soundfile"], "default": "load"}}


def decode_by_load(path):
    """Return the samples of a file, float32 (1, n)."""
    import torchaudio

    return torchaudio.load(path)[0]


def decode_by_torchcodec(path):
    """Return the samples of a file, float32 (1, n)."""
    from torchcodec.decoders import AudioDecoder

    return AudioDecoder(path).get_all_samples().data


def decode_by_soundfile(path):
    """Return the samples of a file, float32 (1, n)."""
    import soundfile

    return torch.from_numpy(soundfile.read(path, dtype="float32", always_2d=True)[0].T)


class Files(Items):
    """Numbered WAV files, each decoded whole."""

    def __init__(self, data, samples, decode):
        super().__init__(data, "audio")
        self.samples, self.decode = samples, decode

    def path_of(self, position):
        return self.data / f"{position:06d}.wav"

    def item(self, position):
        audio = self.decode(self.path_of(position))
        missing = self.samples - audio.shape[1]  # a longer one is cut, a shorter one padded
        return torch.nn.functional.pad(audio, (0, missing)) if missing else audio  # a pad of nothing is a copy


def make_loader(data, shape, decoder, **how):
    """Return a DataLoader over numbered WAV files."""
    if decoder == "load":
        decode = decode_by_load
    elif decoder == "torchcodec":
        decode = decode_by_torchcodec
    else:
        decode = decode_by_soundfile
    return data_loader(Files(data, shape[-1], decode), **how)
