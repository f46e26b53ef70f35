"""NVIDIA DALI file reader and audio decoder: WAV files read, decoded and padded by DALI's threads.

Its time goes into reading and decoding. Set workers (DALI's threads) to the number of cores.
"""

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, decoded, epochs_of_files, simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "decode")
SNIPPET = (
    _dali.FILES_SNIPPET
    + """\
    $dali_decoded
    return (audio if device == "cpu" else audio.gpu()), position
"""
    + _dali.BATCHES_SNIPPET
)


def open_epochs(request):
    """Return what opens the epoch function over numbered WAV files."""
    return epochs_of_files(request, "wav", lambda encoded: decoded(encoded, request))
