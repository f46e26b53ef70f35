"""NVIDIA DALI file reader and image decoder: image files read and decoded by DALI's threads, on a GPU in part by it.

Its time goes into decoding. Set workers (DALI's threads) to the number of cores. On a CPU it decodes by libjpeg-turbo;
for a GPU (`device: cuda`) by `mixed`, nvJPEG, whose last bits are its own, and which shares images out between its
decoders as it runs.
"""

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, close, simplify, without_decode, without_read
from scripts.loaders._plain.dali import Pipelined, by_position, whole_files
from scripts.loaders._plain.epochs import shuffled
from scripts.loaders._plain.labels import read_labels

FORMAT = "files"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "decode")
UNCOPIED = {"device": "cuda"}  # a GPU decodes: without the copy to it there would be another decoder


def PIXEL_LIMIT(settings):
    """Return what a value may differ by: on a GPU nvJPEG decodes."""
    return 0 if settings.get("device", "cpu") == "cpu" else 48


def PIXELS_VARY(settings):
    """Return whether an image may be decoded otherwise the next time: on a GPU by its JPEG engines or its kernels."""
    return settings.get("device", "cpu") != "cpu"


def decode(encoded, shape, dtype, device):
    """Return the node of images, (channels, height, width), of that of whole files."""
    colours = types.GRAY if shape[0] == 1 else types.RGB
    pixels = fn.decoders.image(encoded, device="cpu" if device == "cpu" else "mixed", output_type=colours)
    planes = fn.transpose(pixels, perm=[2, 0, 1])
    return planes if dtype == "uint8" else planes * np.float32(1 / 255)


def read(data, ending, positions, shape, dtype, device, shuffle):
    """Return the nodes of decoded files and of their positions."""
    encoded, position = whole_files(data, ending, positions, shuffle)
    return decode(encoded, shape, dtype, device), position


def make_loader(data, key, shape, dtype, ending, device, batch_size, workers, prefetch, seed, order=None, shuffle=True):
    """Return a loader of numbered image files."""
    labels = read_labels(data)
    order = order or shuffled(len(labels["target"]), seed)

    @pipeline_def(batch_size=batch_size, num_threads=workers, prefetch_queue_depth=prefetch, seed=seed)
    def pipeline():
        image, position = read(data, ending, order(0).tolist(), shape, dtype, device, shuffle)
        return (image if device == "cpu" else image.gpu()), position  # `mixed` has put it there

    return Pipelined(pipeline, key, device, by_position(labels, device))
