"""One array per split, mapped into memory: a single file, nothing left to decode.

The folder holds `audio.npy` (of other data `image.npy` or `array.npy`), of audio float32 (n, 1, samples); row i is item
i as it is delivered. Open it with `numpy.load(path, mmap_mode="r")`.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False
SINGLE_FILE = "audio.npy"  # all items, float32 (n, 1, samples): what moving items is measured with


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the array and the label arrays of one split into the empty folder `out`, front to back."""
    from scripts.common.arrays import delivered_items, write_array
    from scripts.common.labels import write_labels

    sample = corpus.sample
    shape = (corpus.counts[split], *sample.shape)
    write_array(out / f"{sample.key}.npy", sample.dtype, shape, delivered_items(corpus, split, progress))
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, copied out of the mapped array."""
    import numpy as np

    from scripts.common.labels import with_labels

    return with_labels(out, np.load(out / f"{corpus.sample.key}.npy", mmap_mode="r", allow_pickle=False))
