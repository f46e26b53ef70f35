"""One HDF5 file per split: one dataset without compression, a chunk for each item.

The folder holds `items.h5` (HDF5 1.10 or later) with the dataset `audio`, float32 (n, 1, samples); row i is item i as
it is delivered.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "h5py")
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write items.h5 and the label arrays of one split into the empty folder `out`, an item at a time."""
    import h5py
    import numpy as np

    from scripts.common.arrays import delivered_items
    from scripts.common.labels import write_labels

    sample = corpus.sample
    shape, dtype = (corpus.counts[split], *sample.shape), np.dtype(sample.dtype).newbyteorder("<")
    first = (0,) * len(sample.shape)
    with h5py.File(out / "items.h5", "w", libver=("v110", "v110")) as file:
        chunks = file.create_dataset(sample.key, shape, dtype=dtype, chunks=(1, *sample.shape)).id
        for position, row in enumerate(delivered_items(corpus, split, progress)):
            # past HDF5's chunk cache, which would copy the row
            chunks.write_direct_chunk((position, *first), row)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, by indexing the dataset."""
    import h5py

    from scripts.common.labels import with_labels

    with h5py.File(out / "items.h5", locking=False) as file:
        yield from with_labels(out, file[corpus.sample.key])
