"""One Arrow IPC file per split: a column of fixed-size lists, to be mapped into memory.

The folder holds `items.arrow`, not compressed: record batches of at most 16 MiB. Their column `audio` is a
FixedSizeList, of audio float32; row i is item i as it is delivered, flat.
"""

import math

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "pyarrow")
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False
BATCH_BYTES = 16 * 1024 * 1024  # of a record batch at most, and so of memory; an item at least


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write items.arrow and the label arrays of one split into the empty folder `out`, a record batch at a time."""
    import numpy as np
    import pyarrow as pa

    from scripts.common.arrays import delivered_items
    from scripts.common.labels import write_labels

    sample = corpus.sample
    values = math.prod(sample.shape)
    items = pa.list_(pa.from_numpy_dtype(sample.dtype), values)
    size = min(corpus.counts[split], max(1, BATCH_BYTES // BYTES_PER_ITEM(corpus.sample)))
    block = np.empty((size, values), dtype=sample.dtype)
    filled = 0
    with (
        pa.OSFile(str(out / "items.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, pa.schema({sample.key: items})) as file,
    ):
        for row in delivered_items(corpus, split, progress):
            block[filled] = row.reshape(-1)
            filled += 1
            if filled == size:
                _write_batch(file, sample.key, block)
                filled = 0
        if filled:
            _write_batch(file, sample.key, block[:filled])
    write_labels(corpus, split, out)


def _write_batch(file, key: str, rows) -> None:
    """Write an array (items, values) as one record batch."""
    import pyarrow as pa

    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    file.write_batch(pa.record_batch({key: column}))


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, a record batch read at a time."""
    import pyarrow as pa

    from scripts.common.labels import with_labels

    sample = corpus.sample
    with pa.OSFile(str(out / "items.arrow")) as source, pa.ipc.open_file(source) as file:
        batches = (file.get_batch(number)[sample.key].flatten().to_numpy() for number in range(file.num_record_batches))
        yield from with_labels(out, (item for batch in batches for item in batch.reshape(-1, *sample.shape)))
