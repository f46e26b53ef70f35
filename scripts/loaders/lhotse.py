"""Lhotse in a DataLoader: a CutSet over WAV files, from which a sampler takes batches of cuts for the workers.

As its guide has it: a Dataset that makes a batch of a CutSet, SimpleCutSampler in the main process, `batch_size=None`.
The sampler shuffles all cuts, and sends those of each batch to a worker, metadata alone. Its time goes into opening and
decoding a file for each item, as in soundfile, and into what the library checks before that: set workers to the number
of cores. Batches of a fixed number of items are asked for by `max_cuts`; those of a fixed duration have no equal here.
"""

from pathlib import Path

from lhotse import CutSet
from lhotse.dataset import SimpleCutSampler

from scripts.loaders._declared import DECODING as STAGES, SETTINGS, simplify
from scripts.loaders._plain.lhotse import Cuts, Loader

FORMAT = "lhotse_cuts"
REQUIRES = ("torch", "lhotse", "soundfile", "numpy")
LIFETIME = "lasting"
SAMPLES = True  # the order is that of the library's sampler
SHARING = "repeats"  # if fewer items than ranks are left at the end


def without_decode(decode, request):  # noqa: ARG001
    """Return a function that reads the file of a cut, and decodes nothing."""

    def read(cut, row):
        Path(cut.recording.sources[0].source).read_bytes()
        row[...] = 0

    return read


def make_loader(data, key, shape, dtype, classes, batch_size, seed, shuffle=True, rank=0, world=1, **how):
    """Return a DataLoader over a CutSet."""
    cuts = CutSet.from_file(data / "cuts.jsonl").with_recording_path_prefix(data).to_eager()
    sampler = SimpleCutSampler(cuts, max_cuts=batch_size, shuffle=shuffle, seed=seed, rank=rank, world_size=world)
    return Loader(Cuts(key, shape, dtype, classes), sampler=sampler, **{**how, "batch_size": None})
