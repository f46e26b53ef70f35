"""NVIDIA DALI file reader and audio decoder: WAV files read, decoded and padded by DALI's threads.

Its time goes into reading and decoding. Set workers (DALI's threads) to the number of cores.
"""

from nvidia.dali import pipeline_def

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, close, simplify, without_decode, without_read
from scripts.loaders._plain.dali import Pipelined, by_position, decode, whole_files
from scripts.loaders._plain.epochs import shuffled
from scripts.loaders._plain.labels import read_labels

FORMAT = "wav"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "decode")


def read(data, positions, samples, shuffle):
    """Return the nodes of decoded files and of their positions."""
    encoded, position = whole_files(data, "wav", positions, shuffle)
    return decode(encoded, samples), position


def make_loader(data, shape, device, batch_size, workers, prefetch, seed, order=None, shuffle=True):
    """Return a loader of numbered WAV files."""
    labels = read_labels(data)
    order = order or shuffled(len(labels["target"]), seed)

    @pipeline_def(batch_size=batch_size, num_threads=workers, prefetch_queue_depth=prefetch, seed=seed)
    def pipeline():
        audio, position = read(data, order(0).tolist(), shape[-1], shuffle)
        return (audio if device == "cpu" else audio.gpu()), position

    return Pipelined(pipeline, "audio", device, by_position(labels, device))
