"""One int16 array per split, mapped into memory: half the bytes of float32, and one multiplication left to decode.

The folder holds `audio.npy`, int16 (n, 1, samples), padded or cut; row i is item i. A loader maps it and divides by
32768, which is exact.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
KINDS = ("audio",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write audio.npy and the label arrays of one split into the empty folder `out`, front to back."""
    import numpy as np

    from scripts.common.arrays import write_array
    from scripts.common.labels import write_labels

    def rows():
        for item in corpus.items(split):
            yield np.ascontiguousarray(corpus.padded(item), dtype="<i2")
            progress(1)

    write_array(out / "audio.npy", "<i2", (corpus.counts[split], 1, corpus.samples), rows())
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:  # noqa: ARG001
    """Yield (item index, float32 (1, samples), classes) in manifest order, converted out of the mapped array."""
    import numpy as np

    from scripts.common.corpus import to_float
    from scripts.common.labels import with_labels

    return with_labels(out, map(to_float, np.load(out / "audio.npy", mmap_mode="r", allow_pickle=False)))
