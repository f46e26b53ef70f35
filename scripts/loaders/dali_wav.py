"""NVIDIA DALI file reader and audio decoder: WAV files read, decoded and padded by DALI's threads.

Its time goes into reading and decoding. Set workers (DALI's threads) to the number of cores.
"""

from contextlib import contextmanager

import dali_pipeline
from dali_pipeline import SETTINGS, decoded, epochs_of, rank_files, simplify  # noqa: F401

FORMAT = "wav"
ENV = "dali"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
STAGES = (*dali_pipeline.STAGES, "decode")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    from nvidia.dali import fn

    files, positions = rank_files(request, "wav")

    def outputs():
        encoded, where = fn.readers.file(
            files=files, labels=positions, shuffle_after_epoch=request.shuffle, pad_last_batch=True, name="reader"
        )
        return decoded(encoded, request), where

    with epochs_of(request, outputs, "reader", lambda where: where.flatten().long()) as epoch:
        yield epoch
