"""FFCV's beton of stored values, such as 16-bit PCM at the fixed length: one file of 8 MB pages, to be mapped.

The folder holds `items.beton` with the fields `audio`, int16 (samples,), and `position` in the split. Other data is
flat too. No item crosses a page.
"""

from math import prod

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
ENV = "ffcv"
REQUIRES = ("ffcv", "numpy")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the beton and the label arrays of one split into the empty folder `out`."""
    import numpy as np
    from ffcv.fields import NDArrayField

    from scripts.formats._ffcv import write_beton

    field = NDArrayField(np.dtype(corpus.sample.stored), (prod(corpus.sample.shape),))
    largest = BYTES_PER_ITEM(corpus.sample)
    write_beton(corpus, split, out, field, lambda item: corpus.padded(item).reshape(-1), largest, progress)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, by the file's table of where items are."""
    from scripts.common.labels import with_labels
    from scripts.formats._ffcv import stored_bytes

    items = (found.view(corpus.sample.stored) for found in stored_bytes(out))
    return with_labels(out, (corpus.kind.delivered(values, corpus.sample) for values in items))
