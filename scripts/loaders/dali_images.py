"""NVIDIA DALI file reader and image decoder: image files read and decoded by DALI's threads, on a GPU in part by it.

Its time goes into decoding. Set workers (DALI's threads) to the number of cores. On a CPU it decodes by libjpeg-turbo;
for a GPU (`device: cuda`) by `mixed`, nvJPEG, whose last bits are its own, and which shares images out between its
decoders as it runs.
"""

from contextlib import contextmanager

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, epochs_of, rank_files, simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "decode")
SNIPPET = """
from nvidia.dali import fn, pipeline_def, types

$head
$labels
target, labels = target.to(device), labels.to(device)
order = np.random.default_rng($seed).permutation(len(target)).tolist()  # of the first epoch
colours = types.GRAY if shape[0] == 1 else types.RGB


@pipeline_def(batch_size=batch_size, num_threads=$workers, prefetch_queue_depth=$prefetch, seed=$seed)
def pipeline():
    encoded, position = fn.readers.file(
        files=[str(data / f"{position:06d}.$ending") for position in order],
        labels=order,
        shuffle_after_epoch=True,
        pad_last_batch=True,  # or else it is filled with images of the next epoch
        name="reader",
    )
    pixels = fn.decoders.image(encoded, device="cpu" if device == "cpu" else "mixed", output_type=colours)
    $when dtype=uint8
    return fn.transpose(pixels, perm=[2, 0, 1]), position
    $when dtype=float32
    return fn.transpose(pixels, perm=[2, 0, 1]) * np.float32(1 / 255), position
    $end


batches = $dali_iterator


class Loader:
    def __iter__(self):
        for [batch] in batches:
            where = batch["where"].flatten().long()
            where = where if device == "cpu" else where.pin_memory().to(device, non_blocking=True)
            yield {"$item": batch["$item"], "target": target[where], "labels": labels[where]}


$own_loader
"""


def PIXEL_LIMIT(settings):
    """Return what a value may differ by: on a GPU nvJPEG decodes."""
    return 0 if settings.get("device", "cpu") == "cpu" else 48


def PIXELS_VARY(settings):
    """Return whether an image may be decoded otherwise the next time: on a GPU by its JPEG engines or its kernels."""
    return settings.get("device", "cpu") != "cpu"


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered image files."""
    import numpy as np
    from nvidia.dali import fn, types

    files, positions = rank_files(request, request.sample.ending)
    sample = request.sample
    mixed = request.device != "cpu"
    dtype = types.UINT8 if sample.dtype == "uint8" else types.FLOAT

    def outputs():
        encoded, where = fn.readers.file(
            files=files, labels=positions, shuffle_after_epoch=request.shuffle, pad_last_batch=True, name="reader"
        )
        if "decode" in request.without:
            fn.copy(encoded, preserve=True)
            return fn.constant(idata=0, shape=list(sample.shape), dtype=dtype), where
        colours = types.GRAY if sample.shape[0] == 1 else types.RGB
        pixels = fn.decoders.image(encoded, device="mixed" if mixed else "cpu", output_type=colours)
        first = fn.transpose(pixels, perm=[2, 0, 1])
        return (first if sample.dtype == "uint8" else first * np.float32(1 / 255)), where

    with epochs_of(request, outputs, "reader", lambda where: where.flatten().long()) as epoch:
        yield epoch
