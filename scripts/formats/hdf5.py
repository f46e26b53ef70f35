"""One HDF5 file a split: one float32 dataset without compression, a chunk for each clip.

A split's folder holds `clips.h5` with the dataset `audio`, float32 (n, 1, samples), whose row i is the i-th clip of the
split, and the three label arrays of `common/labels.py`. `read` gives the target first and the other classes in
ascending order.

The chunks are written past HDF5's chunk cache, which would only copy them. The file has the format of HDF5 1.10 and
later, in which the place of a chunk is looked up in an array; before, it was searched in a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.formats._contract import Corpus, Path, Progress, Rows

REQUIRES = ("numpy", "h5py")
BYTES_PER_CLIP = lambda sample: sample.bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write clips.h5 and the label arrays of one split into the empty folder `out`, a clip at a time."""
    import h5py

    from scripts.common.arrays import float_clips
    from scripts.common.labels import write_labels

    shape = (corpus.counts[split], 1, corpus.samples)
    with h5py.File(out / "clips.h5", "w", libver=("v110", "v110")) as file:
        chunks = file.create_dataset("audio", shape, dtype="<f4", chunks=(1, 1, corpus.samples)).id
        for position, row in enumerate(float_clips(corpus, split, progress)):
            chunks.write_direct_chunk((position, 0, 0), row)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:  # noqa: ARG001
    """Yield (clip index, float32 (1, samples), classes) in manifest order, by indexing the dataset."""
    import h5py

    from scripts.common.labels import with_labels

    with h5py.File(out / "clips.h5", locking=False) as file:
        yield from with_labels(out, file["audio"])
