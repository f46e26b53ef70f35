"""NVIDIA DALI file reader and audio decoder: WAV files read, decoded and padded by DALI's threads.

Decodes to int16 and scales by 1/32768 itself, since DALI's own conversion to float divides by 32767. Its time goes
into reading and decoding. Set workers (DALI's threads) to the number of cores.
"""

from contextlib import contextmanager

import dali_pipeline
from dali_pipeline import SETTINGS, epochs_of, rank_files, simplify  # noqa: F401

FORMAT = "wav"
ENV = "dali"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
STAGES = (*dali_pipeline.STAGES, "decode")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    from nvidia.dali import fn, types

    files, positions = rank_files(request, "wav")

    def outputs():
        encoded, where = fn.readers.file(
            files=files, labels=positions, shuffle_after_epoch=request.shuffle, pad_last_batch=True, name="reader"
        )
        if "decode" in request.without:
            silence = fn.constant(fdata=0.0, shape=[1, request.samples], dtype=types.FLOAT)
            return silence, where + fn.cast(encoded[0], dtype=types.INT32) * 0  # what has been read must be used
        pcm, _ = fn.decoders.audio(encoded, dtype=types.INT16, downmix=False)
        padded = fn.slice(pcm, start=[0], shape=[request.samples], axes=[0], out_of_bounds_policy="pad", fill_values=0)
        audio = fn.cast(padded, dtype=types.FLOAT) * (1 / 32768)
        return fn.reshape(audio, shape=[1, request.samples]), where

    with epochs_of(request, outputs, "reader", lambda where: where.flatten().long()) as epoch:
        yield epoch
