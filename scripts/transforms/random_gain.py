"""Another loudness for each item, at random: up to `decibels` more or less."""

VERSION = 1
KINDS = ("audio",)
REQUIRES = ("torch",)
RANDOM = True
OPTIONS = {"decibels": {"type": "number", "exclusiveMinimum": 0, "default": 6}}


def make(rate, options, device):  # noqa: ARG001
    """Return a function from audio (items, 1, samples) to the same, each item by a factor of its own."""
    import torch

    def gain(audio):
        decibels = options["decibels"] * (2 * torch.rand(len(audio), device=audio.device) - 1)
        return audio * (10 ** (decibels / 20)).view(-1, 1, 1)

    return gain
