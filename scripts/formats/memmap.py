"""One float32 array a split, mapped into memory: a single file, nothing left to decode.

A split's folder holds `audio.npy`, float32 (n, 1, samples), whose row i is the i-th clip of the split, and the three
label arrays of `common/labels.py`. A loader opens it with `numpy.load(folder / "audio.npy", mmap_mode="r")`. `read`
gives the target first and the other classes in ascending order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.formats._contract import Corpus, Path, Progress, Rows

REQUIRES = ("numpy",)
BYTES_PER_CLIP = lambda sample: sample.bytes  # noqa: E731
READERS = False
SINGLE_FILE = "audio.npy"  # all clips, float32 (n, 1, samples): what moving clips is measured with


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write audio.npy and the label arrays of one split into the empty folder `out`, front to back."""
    import numpy as np

    from scripts.common.arrays import float_clips, write_array
    from scripts.common.labels import write_labels

    shape = (corpus.counts[split], 1, corpus.samples)
    write_array(out / "audio.npy", np.float32, shape, float_clips(corpus, split, progress))
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:  # noqa: ARG001
    """Yield (clip index, float32 (1, samples), classes) in manifest order, copied out of the mapped array."""
    import numpy as np

    from scripts.common.labels import with_labels

    return with_labels(out, np.load(out / "audio.npy", mmap_mode="r", allow_pickle=False))
