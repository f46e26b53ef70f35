"""Resampling by torchaudio or soxr. `built: each` builds the filter for each item, as some published code does."""

VERSION = 1
KINDS = ("audio",)
REQUIRES = ("torchaudio", "soxr", "numpy")
RANDOM = False
OPTIONS = {
    "to": {"type": "integer", "minimum": 1, "default": 8000},
    "by": {"enum": ["torchaudio", "soxr"], "default": "torchaudio"},
    "built": {"enum": ["once", "each"], "default": "once"},
}


def make(rate, options, device):
    """Return a function from audio (items, 1, samples) to audio at the other rate; soxr works on a CPU alone."""
    import torch
    import torchaudio

    if options["by"] == "soxr":
        import soxr

        def by_soxr(audio):
            rows = [soxr.resample(row, rate, options["to"]) for row in audio[:, 0].cpu().numpy()]
            return torch.stack([torch.from_numpy(row) for row in rows])[:, None].to(device)

        return by_soxr

    def built():
        return torchaudio.transforms.Resample(rate, options["to"]).to(device)

    if options["built"] == "once":
        return built()
    return lambda audio: built()(audio)
