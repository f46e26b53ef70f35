"""NumPy archives, one per item, as feature sets are often kept: one array each, not compressed.

The folder holds `000000.npz`, ..., each with one array, `audio`: an item as it is delivered, of audio float32
(1, samples).
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the .npz files and label arrays of one split into the empty folder `out`."""
    import numpy as np

    from scripts.common.arrays import delivered_items
    from scripts.common.labels import write_labels

    for position, row in enumerate(delivered_items(corpus, split, progress)):
        np.savez(out / f"{position:06}.npz", allow_pickle=False, **{corpus.sample.key: row})
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, through numpy.load."""
    import numpy as np

    from scripts.common.labels import numbered, with_labels

    def array(path: Path) -> np.ndarray:
        with np.load(path, allow_pickle=False) as archive:
            return archive[corpus.sample.key]

    return with_labels(out, map(array, numbered(out, ".npz")))
