"""One LMDB environment per split: a key-value store in one file, mapped into memory; a value is the bytes of an item.

The folder holds `items.mdb`. The key of item i is i in 8 bytes, big-endian; its value is the item as it is delivered,
of audio float32.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "lmdb")
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False
COMMIT_BYTES = 16 * 1024 * 1024  # of a transaction, which LMDB holds in memory until it commits
PAGE_BYTES = 4096


def key(position: int) -> bytes:
    """Return the key of the item at `position`, 8 bytes: sorted as bytes, the keys are in the order of the items."""
    return position.to_bytes(8, "big")


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write items.mdb and the label arrays of one split into the empty folder `out`, some items a transaction.

    Raises OSError where the file system runs full.
    """
    import lmdb

    from scripts.common.arrays import delivered_items
    from scripts.common.labels import write_labels

    count, size = corpus.counts[split], BYTES_PER_ITEM(corpus.sample)
    at_once = max(1, COMMIT_BYTES // size)
    rows = delivered_items(corpus, split, progress)
    # The map is what the file may grow to, and is no memory: each item's pages, and one an item for the tree above
    # them.
    map_size = count * (size + 2 * PAGE_BYTES) + 2 * COMMIT_BYTES
    # Nothing is flushed here, since the whole folder is flushed afterwards; nobody else writes, so nothing is locked.
    options = {"map_size": map_size, "subdir": False, "lock": False, "sync": False}
    with _full_disk_told(out), lmdb.open(str(out / "items.mdb"), **options) as environment:
        for start in range(0, count, at_once):
            with environment.begin(write=True) as transaction:
                for position in range(start, min(start + at_once, count)):
                    transaction.put(key(position), next(rows), append=True)
        next(rows, None)  # which notes that the last one is written
    write_labels(corpus, split, out)


@contextmanager
def _full_disk_told(out: Path) -> Iterator[None]:
    """Run the block; raise OSError for a full file system, which LMDB calls an input/output error as well.

    It does not write the rest of what the kernel took a part of, and so never learns why.
    """
    import lmdb

    try:
        yield
    except lmdb.Error as error:
        if isinstance(error, lmdb.DiskError) or shutil.disk_usage(out).free < COMMIT_BYTES:
            raise OSError(errno.ENOSPC, str(error), str(out)) from error
        raise


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, by a cursor over all keys."""
    import lmdb
    import numpy as np

    from scripts.common.labels import with_labels

    dtype = np.dtype(corpus.sample.dtype).newbyteorder("<")
    with (
        lmdb.open(str(out / "items.mdb"), subdir=False, readonly=True, lock=False) as environment,
        environment.begin(buffers=True) as transaction,
    ):
        values = transaction.cursor().iternext(keys=False)
        yield from with_labels(
            out, (np.frombuffer(value, dtype=dtype).reshape(corpus.sample.shape) for value in values)
        )
