"""NVIDIA DALI file reader and image decoder: image files read and decoded by DALI's threads, on a GPU in part by it.

Its time goes into decoding. Set workers (DALI's threads) to the number of cores. On a CPU it decodes by libjpeg-turbo;
for a GPU (`device: cuda`) by `mixed`, nvJPEG, whose last bits are its own, and which shares images out between its
decoders as it runs.
"""

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, epochs_of_files, simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "decode")
SNIPPET = (
    _dali.FILES_SNIPPET
    + """\
from nvidia.dali import types
    colours = types.GRAY if shape[0] == 1 else types.RGB
    pixels = fn.decoders.image(encoded, device="cpu" if device == "cpu" else "mixed", output_type=colours)
    $when dtype=uint8
    return fn.transpose(pixels, perm=[2, 0, 1]), position
    $when dtype=float32
    return fn.transpose(pixels, perm=[2, 0, 1]) * np.float32(1 / 255), position
    $end
"""
    + _dali.BATCHES_SNIPPET
)


def PIXEL_LIMIT(settings):
    """Return what a value may differ by: on a GPU nvJPEG decodes."""
    return 0 if settings.get("device", "cpu") == "cpu" else 48


def PIXELS_VARY(settings):
    """Return whether an image may be decoded otherwise the next time: on a GPU by its JPEG engines or its kernels."""
    return settings.get("device", "cpu") != "cpu"


def open_epochs(request):
    """Return what opens the epoch function over numbered image files."""
    import numpy as np
    from nvidia.dali import fn, types

    sample = request.sample
    mixed = request.device != "cpu"
    dtype = types.UINT8 if sample.dtype == "uint8" else types.FLOAT

    def decoded(encoded):
        if "decode" in request.without:
            fn.copy(encoded, preserve=True)
            return fn.constant(idata=0, shape=list(sample.shape), dtype=dtype)
        colours = types.GRAY if sample.shape[0] == 1 else types.RGB
        pixels = fn.decoders.image(encoded, device="mixed" if mixed else "cpu", output_type=colours)
        first = fn.transpose(pixels, perm=[2, 0, 1])
        return first if sample.dtype == "uint8" else first * np.float32(1 / 255)

    return epochs_of_files(request, sample.ending, decoded)
