"""SpecAugment (Park et al., 2019) by torchaudio: a log-mel spectrogram whose bands and frames are masked at random."""

from scripts.transforms import _mel

VERSION = 1
KINDS = ("audio",)
REQUIRES = ("torchaudio",)
RANDOM = True
OPTIONS = {
    **_mel.OPTIONS,
    "most_bands": {"type": "integer", "minimum": 1, "default": 27},
    "most_frames": {"type": "integer", "minimum": 1, "default": 100},
}


def make(rate, options, device):
    """Return a function from audio (items, 1, samples) to float32 (items, 1, bands, frames)."""
    import torch
    import torchaudio

    mel = _mel.log_mel(rate, options, device)
    masks = torch.nn.Sequential(
        torchaudio.transforms.FrequencyMasking(options["most_bands"], iid_masks=True),
        torchaudio.transforms.TimeMasking(options["most_frames"], iid_masks=True),
    )
    return lambda audio: masks(mel(audio))
