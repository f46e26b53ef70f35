"""One Zarr array a split (format 3, in a local folder): a chunk for each item, not compressed, each chunk a file.

A split's folder holds `items.zarr`, whose row i is the i-th item of the split as it is delivered, of audio float32 (n,
1, samples), and is in the file `c/i/0/0`; and the three label arrays of `common/labels.py`. `read` gives the target
first and the other classes in ascending order.

Shards, many chunks in one file, are what Zarr's guide proposes where files are too many. An item of a shard costs its
reader two reads, of the shard's index and of the item, each time again; so there are none here.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "zarr")
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write items.zarr and the label arrays of one split into the empty folder `out`, an item at a time."""
    import zarr

    from scripts.common.arrays import delivered_items
    from scripts.common.labels import write_labels

    sample = corpus.sample
    array = zarr.create_array(
        out / "items.zarr",
        shape=(corpus.counts[split], *sample.shape),
        chunks=(1, *sample.shape),
        dtype=sample.dtype,
        compressors=None,
        config={"write_empty_chunks": True},  # a silent item is an item: without its file nothing would be read
    )
    for position, row in enumerate(delivered_items(corpus, split, progress)):
        array[position] = row
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:  # noqa: ARG001
    """Yield (item index, delivered item, classes) in manifest order, by indexing the array."""
    import zarr

    from scripts.common.labels import with_labels

    array = zarr.open_array(out / "items.zarr", mode="r")
    return with_labels(out, (array[position] for position in range(array.shape[0])))
