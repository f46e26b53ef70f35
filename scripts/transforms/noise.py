"""Another item of the data set, mixed in as noise at a random signal-to-noise ratio: a second read for each item."""

VERSION = 1
KINDS = ("audio",)
REQUIRES = ("torch",)
RANDOM = True
SECOND = True  # its functions get another item as well
OPTIONS = {"least_db": {"type": "number", "default": 5}, "most_db": {"type": "number", "default": 20}}


def make(rate, options, device):  # noqa: ARG001
    """Return a function from audio (items, 1, samples), and other items of the same shape, to a mixture of both."""
    import torch

    least, most = options["least_db"], options["most_db"]

    def mixed(audio, other):
        ratio = 10 ** ((least + (most - least) * torch.rand(len(audio), device=audio.device)) / 10)
        power, noise = audio.square().mean((1, 2)), other.square().mean((1, 2)).clamp(min=1e-12)
        return audio + other * (power / noise / ratio).sqrt().view(-1, 1, 1)

    return mixed
