"""NumPy files, one per item: nothing left to decode.

The folder holds `000000.npy`, ..., each an item as it is delivered, of audio float32 (1, samples).
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the .npy files and label arrays of one split into the empty folder `out`."""
    from scripts.common.arrays import delivered_items, npy_header
    from scripts.common.labels import write_labels

    header = npy_header(corpus.sample.dtype, corpus.sample.shape)
    for position, row in enumerate(delivered_items(corpus, split, progress)):
        with open(out / f"{position:06}.npy", "wb") as file:
            file.write(header)
            file.write(row)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:  # noqa: ARG001
    """Yield (item index, delivered item, classes) in manifest order, through numpy.load."""
    import numpy as np

    from scripts.common.labels import numbered, with_labels

    return with_labels(out, (np.load(path, allow_pickle=False) for path in numbered(out, ".npy")))
